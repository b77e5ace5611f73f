"""Decode core images into programs for the simulators."""

from __future__ import annotations

import numpy as np

from chipsim.npu.records import Program
from hw.npu.isa.encoding import decode_micro_ops, decode_program
from mapper.compiler.program.image import Image


def program_of(image: Image, where: str) -> Program:
    """Return the decoded program of a core."""
    decoded = decode_program(image.instructions, where)
    headers = np.frombuffer(image.headers, "<u8").astype(np.uint64)
    return Program(
        op=decoded.op,
        kind=decoded.kind,
        wait=decoded.wait,
        signal=decoded.signal,
        fields=decoded.fields,
        micro_ops=decode_micro_ops(image.micro_ops, where),
        weights=image.weights,
        parameters=image.parameters,
        maps=image.filled(),
        headers=headers,
    )
