"""Chips of the mesh simulator as hardware, and the comparison of both."""

from __future__ import annotations

import numpy as np

from chipsim.npu.mesh.chip import MeshChip, Place
from chipsim.npu.mesh.run import MeshTimes
from chipsim.npu.records import Program
from hw.npu.chip import MixedChip
from hw.npu.flit import Kind
from hw.npu.host import HostSide, StagedWork
from hw.npu.isa.encoding import encode, encode_micro_op
from hw.npu.isa.table import MicroOp
from hw.npu.memories.memories import Contents
from hw.npu.run import NpuRun
from mapper.compiler.artifacts import chip_hardware
from tests.hw.npu.programs import instructions_of


def contents_of_all(chip: MeshChip) -> dict[Place, Contents]:
    return {
        place: contents_of(program, chip.streams.get(place, ()))
        for place, program in chip.programs.items()
    }


def hardware_of(chip: MeshChip, contents: dict[Place, Contents] | None = None) -> MixedChip:
    """Return the hardware of a chip; contents : replaces the chip's own"""
    return chip_hardware.hardware_of(chip, contents or contents_of_all(chip))


def contents_of(program: Program, streams: object) -> Contents:
    return Contents(
        [int.from_bytes(encode(each), "little") for each in instructions_of(program)],
        [
            int.from_bytes(encode_micro_op(MicroOp(*row)), "little")
            for row in program.micro_ops.tolist()
        ],
        program.headers.tolist(),
        program.parameters,
        program.weights,
        program.maps,
        np.asarray(streams, np.int64).tolist(),
    )


def sides_of(chip: MeshChip, frames: int, rng: np.random.Generator) -> list[HostSide]:
    """Return random input and weights; all ports have the same weights."""
    shape = chip.shape
    weights = rng.integers(-128, 128, (16, shape.rows, shape.columns)).astype(np.int8)
    inputs = [
        [
            rng.integers(-128, 128, (len(port.inputs.stream), shape.columns)).astype(np.int8)
            for port in chip.hosts
        ]
        for _ in range(frames)
    ]
    return chip_hardware.sides_of(chip, inputs, weights)


def work_of(chip: MeshChip, times: MeshTimes) -> StagedWork:
    """Return the work of the host. times : a run with deliveries"""
    d = times.deliveries
    values = np.zeros(0, np.int64) if d is None else d.value[d.kind == Kind.TO_HOST]
    parts = -(-8 * chip.shape.columns // chip.shape.payload_bits)
    return chip_hardware.work_of(chip, np.unique(values // parts))


def require_equal(chip: MeshChip, found: NpuRun, wanted: MeshTimes) -> None:
    assert chip_hardware.first_difference(chip, found, wanted) is None
