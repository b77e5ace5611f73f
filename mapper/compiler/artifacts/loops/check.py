"""Execute a listing like an address generator, and check that it visits the same addresses as the
program that it was generated from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.encoding import decode_micro_ops
from hw.npu.isa.table import Instruction
from mapper.compiler.artifacts.loops.listing import BIAS, LISTED, OUTPUT, Loop, Rows, offsets_of
from mapper.compiler.artifacts.loops.words import BUFFERS, STAGES, Code, Word, words_of_text
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError, MapperError


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
    for one in image.decoded():
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
    rows, columns = max(0, rows) * copies, max(0, columns) * copies
    x = np.arange(columns)
    along = x * f["x_stride"] - (x >= (f.get("wrap", 0) * copies or columns)) * f["y_stride"]
    found = np.arange(rows)[:, None, None] * f["y_stride"] + along[:, None]
    return Visit(buffer, f[base] + (found + np.arange(f["c_size"])).ravel())


def _products(one: Instruction, micro_ops: NDArray[np.int64]) -> Iterator[Visit]:
    f = one.fields
    ops = micro_ops[f["uop"] : f["uop"] + f["uops"]]
    loops = [Loop(f["n_out"], (f["wgt_out"],)), Loop(f["n_in"], (f["wgt_in"],))]
    pixels = offsets_of(loops, 1)[:, 0]
    yield Visit("weights", (ops[:, 2, None] + pixels).ravel())
    if f["init"] == 2:
        begun = f["bm"] + ops[ops[:, 5] == 1, 4]
        yield Visit("bias", np.repeat(begun, len(pixels)))


class Visit(NamedTuple):
    """Addresses visited in a buffer, in order: feature maps read, weight words, initial parameter
    words of sums, or feature maps written."""

    buffer: str
    addresses: Rows


@dataclass(slots=True)
class _Part:
    """A part of a block. bases : by buffer; loops : with one stride per buffer"""

    bases: dict[int, int] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)


def visits_of(words: Sequence[Word], where: str) -> Iterator[Visit]:
    """Yield the addresses that a listing visits; where : file name for errors.

    Raises `MapperError` if a word is out of place, or if the end is missing.
    """
    at = 0
    if not words or words[-1].code is not Code.END:
        raise MapperError(f"{where}: listing of {len(words)} words has no END")
    while at < len(words) and words[at].code is Code.START:
        count = words[at].immediate
        outer, at = _outer(words, at + 1)
        parts, at = _parts(words, at, count, where)
        moves = [(number, buffer) for number, part in enumerate(parts) for buffer in part.bases]
        steps = [
            Loop(turns, tuple(strides.get(move, 0) for move in moves)) for turns, strides in outer
        ]
        for turn in offsets_of(steps, len(moves)):
            moved = dict(zip(moves, turn.tolist(), strict=True))
            for number, part in enumerate(parts):
                for buffer in part.bases:
                    part.bases[buffer] += moved[number, buffer]
                yield from _visited(part)
                for buffer in part.bases:
                    part.bases[buffer] -= moved[number, buffer]
    if at != len(words) - 1:
        raise MapperError(f"{where}: word {at} of {len(words)} is not a START")


Strides = dict[tuple[int, int], int]


def _strides(words: Sequence[Word], at: int) -> tuple[Strides, int]:
    """Return the strides by part and buffer, and the index of the next word."""
    found: Strides = {}
    high = 0
    while words[at].code in (Code.HIGH, Code.LOW):
        word = words[at]
        if word.code is Code.HIGH:
            high = word.immediate - (word.immediate >> 15 << 16)
        else:
            found[word.a, word.b], high = high << 16 | word.immediate, 0
        at += 1
    return found, at


def _outer(words: Sequence[Word], at: int) -> tuple[list[tuple[int, Strides]], int]:
    loops = []
    while words[at].code is Code.LOOP and words[at].a == STAGES.index("outer"):
        strides, stop = _strides(words, at + 1)
        loops.append((words[at].immediate + 1, strides))
        at = stop
    return loops, at


def _parts(words: Sequence[Word], at: int, count: int, where: str) -> tuple[list[_Part], int]:
    """Read the parts of a block; a part begins with ALU or with the base of its first buffer."""
    parts: list[_Part] = []
    high = 0
    while words[at].code not in (Code.START, Code.END):
        word = words[at]
        at += 1
        if word.code is Code.ALU:
            parts.append(_Part())
        elif word.code is Code.BASE and word.b >= len(BUFFERS):
            if word.b - len(BUFFERS) != BIAS:
                parts.append(_Part())
            high = word.immediate
        elif not parts or word.code not in (Code.BASE, Code.LOOP, Code.COMPUTE, Code.PAIRS):
            raise MapperError(f"{where}: word {at - 1} ({word.code.name}) is not inside a part")
        elif word.code is Code.BASE:
            parts[-1].bases[word.b] = high << 16 | word.immediate
        elif word.code is Code.LOOP:
            strides, at = _strides(words, at)
            parts[-1].loops.append(
                Loop(word.immediate + 1, tuple(strides.get((0, b), 0) for b in range(4)))
            )
    if len(parts) != count:
        raise MapperError(f"{where}: a block has {len(parts)} parts, but START declares {count}")
    return parts, at


def _visited(part: _Part) -> Iterator[Visit]:
    offsets = offsets_of(part.loops, len(BUFFERS))
    for buffer, base in part.bases.items():
        addresses = base + offsets[:, buffer]
        if buffer == BIAS:  # read once per accumulator, at its first product
            firsts = np.sort(np.unique(offsets[:, OUTPUT], return_index=True)[1])
            addresses = addresses[firsts]
        yield Visit(BUFFERS[buffer], addresses)
