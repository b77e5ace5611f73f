"""Check that a listing visits the same addresses as the program that it was generated from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.encoding import decode, decode_micro_ops
from hw.npu.isa.table import Instruction
from mapper.compiler.artifacts.loops.addresses import Visit, visits_of
from mapper.compiler.artifacts.loops.listing import LISTED
from mapper.compiler.artifacts.loops.nests import Loop, Rows, offsets_of
from mapper.compiler.artifacts.loops.words import BUFFERS, words_of_text
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError


def check_listing(text: str, image: Image, where: str) -> int:
    """Compare a listing with a program and return its number of words. where : file for errors

    Each address of a memory must be visited the same number of times; the order may differ.
    Raises `MapperError` if the text is not a listing, `CheckFailedError` with memory and address.
    """
    words = words_of_text(text.splitlines(), where)
    listed, run = (_joined(visits) for visits in (visits_of(words, where), program_visits(image)))
    for buffer in BUFFERS:
        found, wanted = listed[buffer], run[buffer]
        if found.size != wanted.size:
            raise CheckFailedError(
                f"{where}: {found.size:,} addresses visited ({buffer}), {wanted.size:,} by the "
                "program"
            )
        wrong = np.flatnonzero(found != wanted)
        if wrong.size:
            raise CheckFailedError(
                f"{where}: address {found[wrong[0]]:,} visited ({buffer}), "
                f"{wanted[wrong[0]]:,} by the program"
            )
    return len(words)


def _joined(visits: Iterable[Visit]) -> dict[str, Rows]:
    """Return the addresses of each buffer in ascending order."""
    parts: dict[str, list[Rows]] = {buffer: [np.zeros(0, np.int64)] for buffer in BUFFERS}
    for visit in visits:
        parts[visit.buffer].append(visit.addresses)
    return {buffer: np.sort(np.concatenate(some)) for buffer, some in parts.items()}


def program_visits(image: Image) -> Iterator[Visit]:
    """Yield the addresses that a program visits, instruction by instruction."""
    micro_ops = decode_micro_ops(image.micro_ops, "micro-ops").astype(np.int64)
    for at in range(0, len(image.instructions), 16):
        one = decode(image.instructions[at : at + 16], f"offset {at}")
        if one.op == "LOAD" and one.kind in LISTED:
            yield _area(one, "input", "src")
        elif one.op == "GEMM":
            yield from _products(one, micro_ops)
        elif one.op == "STORE":
            yield _area(one, "output", "dst")


def _area(one: Instruction, buffer: str, base: str) -> Visit:
    f = one.fields
    copies = 1 + f.get("up", 0)
    rows = f["y_size"] - f.get("pad_t", 0) - f.get("pad_b", 0)
    columns = f["x_size"] - f.get("pad_l", 0) - f.get("pad_r", 0)
    loops = [
        Loop(max(0, rows) * copies, (f["y_stride"],)),
        Loop(max(0, columns) * copies, (f["x_stride"],)),
        Loop(f["c_size"], (1,)),
    ]
    return Visit(buffer, f[base] + offsets_of(loops, 1)[:, 0])


def _products(one: Instruction, micro_ops: NDArray[np.int64]) -> Iterator[Visit]:
    f = one.fields
    ops = micro_ops[f["uop"] : f["uop"] + f["uops"]]
    loops = [Loop(f["n_out"], (f["wgt_out"],)), Loop(f["n_in"], (f["wgt_in"],))]
    pixels = offsets_of(loops, 1)[:, 0]
    yield Visit("weights", (ops[:, 2, None] + pixels).ravel())
    if f["init"] == 2:
        begun = f["bm"] + ops[ops[:, 5] == 1, 4]
        yield Visit("bias", np.repeat(begun, len(pixels)))
