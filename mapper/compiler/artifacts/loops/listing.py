"""Steps of a program as a listing of loop nests, tile by tile. Equal tiles share a nest.

A listing is a sequence of blocks, terminated by END. A block is START with its number of parts, the
outer loops with the strides of all bases, then the parts of a tile in program order:

    load      BASE input, loops over rows, pixels and vectors of the area
    product   BASE weights, with BASE bias if sums start with it, PAIRS on dual cores, loops over
              blocks, kernel positions and pixels
    ALU       operations per entry; pooling has loops over the pixels of its windows
    store     BASE output, loops over blocks, rows and pixels, and over upsampled copies of a pixel
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import Instruction, MicroOp
from mapper.compiler.artifacts.loops.words import BUFFERS, COMPUTES, STAGES, Code, Word, text_of
from mapper.compiler.program.steps import Step
from mapper.compiler.program.tables import Tables

INPUT, WEIGHTS, BIAS, OUTPUT = range(4)
MOST_PARTS = 64  # parts that strides of an outer loop can address
LISTED = {"INP", "ACC8", "ACC32"}  # loads with feature map addresses


class Nest(NamedTuple):
    """A loop of a part. stage : index in `STAGES`; strides : by buffer"""

    stage: int
    turns: int
    strides: tuple[tuple[int, int], ...]


class TileStep(NamedTuple):
    """A load, product, ALU operation or store of a tile.

    bases : base addresses by buffer; words : words between the bases and the loops
    """

    bases: tuple[tuple[int, int], ...]
    words: tuple[Word, ...]
    loops: tuple[Nest, ...]

    @property
    def form(self) -> tuple[object, ...]:
        """Everything except the bases: tiles of the same form differ only in their addresses."""
        return tuple(buffer for buffer, _ in self.bases), self.words, self.loops


def listing_text(steps: Iterable[Step], tables: Tables, layers: Sequence[str]) -> str:
    """Return a listing as text, with a comment line before each layer.

    layers : names by macro node index
    """
    lines = []
    for number, some in groupby(steps, lambda one: one.macro):
        lines += [f"# {layers[number]}", *text_of(listing_of(some, tables)[:-1])]
    return "\n".join([*lines, *text_of([Word(Code.END)]), ""])


def listing_of(steps: Iterable[Step], tables: Tables) -> list[Word]:
    """Return the words of a program's tiles; tables : small memories of its core"""
    words: list[Word] = []
    tiles = [
        [part for step in some for part in _parts(step.instruction, tables)]
        for _, some in groupby(sorted(steps, key=lambda one: one.tile), lambda one: one.tile)
    ]
    for _, alike in groupby(tiles, lambda parts: [part.form for part in parts]):
        words += _blocks(list(alike))
    return [*words, Word(Code.END)]


def _blocks(tiles: list[list[TileStep]]) -> Iterator[Word]:
    """Yield tiles of the same form as few blocks."""
    bases = np.array([[base for part in tile for _, base in part.bases] for tile in tiles])
    nests = list(nests_of(bases)) if len(tiles[0]) <= MOST_PARTS else None
    for at, loops in nests if nests is not None else [(at, []) for at in range(len(tiles))]:
        tile = tiles[at]
        names = [(number, buffer) for number, part in enumerate(tile) for buffer, _ in part.bases]
        yield Word(Code.START, immediate=len(tile))
        for loop in loops:
            yield Word(Code.LOOP, STAGES.index("outer"), immediate=loop.turns - 1)
            for (number, buffer), stride in zip(names, loop.strides, strict=True):
                yield from _stride(number, buffer, stride)
        for part in tile:
            for buffer, base in part.bases:
                yield Word(Code.BASE, b=buffer + len(BUFFERS), immediate=base >> 16)
                yield Word(Code.BASE, b=buffer, immediate=base & 0xFFFF)
            yield from part.words
            for nest in part.loops:
                yield Word(Code.LOOP, nest.stage, immediate=nest.turns - 1)
                for buffer, stride in nest.strides:
                    yield from _stride(0, buffer, stride)


def _stride(number: int, buffer: int, stride: int) -> Iterator[Word]:
    """Yield a stride unless it is 0; the upper half (two's complement) only if it is not 0."""
    if stride:
        if stride >> 16:
            yield Word(Code.HIGH, number, buffer, stride >> 16 & 0xFFFF)
        yield Word(Code.LOW, number, buffer, stride & 0xFFFF)


def _nests(stage: str, loops: Iterable[Loop], buffers: tuple[int, ...]) -> tuple[Nest, ...]:
    return tuple(
        Nest(STAGES.index(stage), loop.turns, tuple(zip(buffers, loop.strides, strict=True)))
        for loop in loops
        if loop.turns > 1
    )


def _parts(one: Instruction, tables: Tables) -> Iterator[TileStep]:
    if one.op == "LOAD" and one.kind in LISTED:
        yield from _load(one)
    elif one.op == "GEMM":
        yield from _products(one, tables)
    elif one.op in ("ALU", "RQ"):
        yield _calculation(one, tables)
    elif one.op == "STORE":
        yield from _store(one)


def _load(one: Instruction) -> Iterator[TileStep]:
    """Yield the loop over the pixels of the area that are inside the map."""
    get = one.fields.get
    rows = get("y_size", 0) - get("pad_t", 0) - get("pad_b", 0)
    columns = get("x_size", 0) - get("pad_l", 0) - get("pad_r", 0)
    if rows < 1 or columns < 1:
        return
    row, pixel = get("y_stride", 0), get("x_stride", 0)
    for first, count in _runs(columns, get("wrap", 0)):
        loops = Loop(rows, (row,)), Loop(count, (pixel,)), Loop(get("c_size", 0), (1,))
        start = get("src", 0) + first * pixel - (row if first else 0)
        yield TileStep(((INPUT, start),), (), _nests("memory", loops, (INPUT,)))


def _runs(columns: int, wrap: int) -> list[tuple[int, int]]:
    """Return the first column and the size of the parts before and after the end of a ring."""
    return [(0, wrap), (wrap, columns - wrap)] if 0 < wrap < columns else [(0, columns)]


def _products(one: Instruction, tables: Tables) -> Iterator[TileStep]:
    get = one.fields.get
    ops = tables.micro_ops[get("uop", 0) : get("uop", 0) + get("uops", 0)]
    bias = get("bm", 0) if get("init", 0) == 2 else 0
    pixels = [
        Loop(
            get(f"n_{name}", 0),
            (get(f"inp_{name}", 0), get(f"wgt_{name}", 0), 0, get(f"acc_{name}", 0)),
        )
        for name in ("out", "in")
    ]
    rows = np.array([[op.inp, op.wgt, bias + op.bm, op.acc] for op in ops])
    for at, loops in _products_alike(rows, ops):
        begins = bool(ops[at].init) and get("init", 0) == 2
        bases = ((WEIGHTS, int(rows[at, 1])), (BIAS, int(rows[at, 2])))
        inner = _nests("inner", [*loops, *pixels], (INPUT, WEIGHTS, BIAS, OUTPUT))
        pairs = (
            (Word(Code.PAIRS, b=1), Word(Code.PAIRS, b=0)) if one.kind.startswith("DUAL") else ()
        )
        yield TileStep(bases[: 1 + begins], pairs, inner)


def _products_alike(rows: Rows, ops: list[MicroOp]) -> Iterator[tuple[int, list[Loop]]]:
    """Yield nests with uniform bias handling: either no sum starts with the bias, or each does at
    the first product of its accumulator. Other micro-ops become single products."""
    for at, loops in nests_of(rows):
        size = int(np.prod([loop.turns for loop in loops], dtype=np.int64))
        init = np.array([op.init for op in ops[at : at + size]])
        first = np.zeros(size, np.int64)
        first[np.unique(rows[at : at + size, 3], return_index=True)[1]] = 1
        if not init.any() or (init == first).all():
            yield at, loops
        else:
            yield from ((at + one, []) for one in range(size))


def _calculation(one: Instruction, tables: Tables) -> TileStep:
    """Return the part of an ALU instruction. Leaky activations are listed as a multiplication by
    the slope and a maximum; ReLU as a multiplication by 0 and a maximum."""
    get = one.fields.get
    words = [Word(Code.ALU)]

    def compute(name: str, immediate: int = 0) -> None:
        words.append(Word(Code.COMPUTE, COMPUTES.index(name), immediate=immediate & 0xFFFF))

    if one.op == "ALU":
        compute(one.kind.lower(), get("imm", 0) or get("uops", 0))
        ops = tables.micro_ops[get("uop", 0) : get("uop", 0) + get("uops", 0)]
        if len(ops) > 1:
            rows = np.array([[op.inp] for op in ops])
            nests = list(nests_of(rows - rows[0]))
            loops = nests[0][1] if len(nests) == 1 else [Loop(len(ops), (0,))]
            return TileStep((), tuple(words), _nests("pool", loops, (INPUT,)))
    elif one.kind == "THRESHOLD":
        compute("threshold", get("rec", 0))
    else:
        rec = get("rec", 0)
        compute("rmul", rec)
        zero_point, low = (int(lane) for lane in tables.parameters[rec][:2])
        if one.kind == "LOOKUP":
            compute("lookup", get("table", 0))
        elif one.kind == "LEAKY":
            compute("mul", rec)
            compute("max")
        elif low == zero_point:
            compute("mul", 0)
            compute("max")
    return TileStep((), tuple(words), ())


def _store(one: Instruction) -> Iterator[TileStep]:
    get = one.fields.get
    copies = 1 + get("up", 0)
    row, pixel = get("y_stride", 0), get("x_stride", 0)
    again = (Loop(copies, (row,)), Loop(copies, (pixel,)))
    for first, count in _runs(get("x_size", 0), get("wrap", 0)):
        loops = (
            Loop(get("c_size", 0), (1,)),
            Loop(get("y_size", 0), (row * copies,)),
            Loop(count, (pixel * copies,)),
        )
        start = get("dst", 0) + first * pixel * copies - (row if first else 0)
        nests = _nests("write", loops, (OUTPUT,)) + _nests("upsample", again, (OUTPUT,))
        yield TileStep(((OUTPUT, start),), (), nests)


Rows = NDArray[np.int64]


class Loop(NamedTuple):
    """A loop. strides : address increments per iteration, one per address column"""

    turns: int
    strides: tuple[int, ...]


def nests_of(rows: Rows) -> Iterator[tuple[int, list[Loop]]]:
    """Yield few loop nests that visit the rows in order: first row of each, and its loops, the
    outermost first.

    rows : shape (count, addresses)
    A nest grows from the inside: the longest run of equal steps, then repetitions of the nest at a
    constant distance.
    """
    at = 0
    while at < len(rows):
        rest, size = rows[at:], 1
        loops: list[Loop] = []
        while size < len(rest):
            count, step = _copies(rest, size)
            if count < 2:
                break
            loops.insert(0, Loop(count, tuple(int(one) for one in step)))
            size *= count
        yield at, loops
        at += size


def _copies(rows: Rows, size: int) -> tuple[int, Rows]:
    """Return the number of repetitions of the first rows, and the step between them."""
    count = len(rows) // size
    parts = rows[: count * size].reshape(count, size, -1)
    moved = parts - parts[0]
    if count < 2:
        return 1, moved[0, 0]
    step = moved[1, 0]
    wanted = np.arange(count)[:, None, None] * step
    same = (moved == wanted).all(axis=(1, 2))
    return (count if same.all() else int(np.argmin(same))), step


def offsets_of(loops: Iterable[Loop], addresses: int) -> Rows:
    """Return the offsets of a nest by iteration, shape (iterations, addresses)."""
    found = np.zeros((1, addresses), np.int64)
    for turns, strides in loops:
        steps = np.arange(turns)[:, None] * np.array(strides, np.int64)
        found = (found[:, None] + steps).reshape(-1, addresses)
    return found
