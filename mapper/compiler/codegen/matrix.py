"""Loads and products of the matrix unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hw.npu.isa import Instruction, MicroOp, form_of
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.bias import begin_sums, end_sums
from mapper.compiler.codegen.binary import add_edges
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import Kernels, place_kernels, taps_of
from mapper.compiler.codegen.loads import load_inputs
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.graph.node import Conv, Node, Window
from mapper.compiler.schedule.inputs import Part, Span, needed, parts_of, taken_blocks

Product = Callable[[ProgramBuilder, TileWork, bool], bool]
"""Loads and sums of a tile, into the accumulators from `made.first` on; True: they are all there is
to do. Returns whether they are in the result buffer, too."""

MOST_OPS = 64
"""Micro-ops for one pixel; more of them become loops."""
_GEMM = {field.name: field.most for field in form_of("GEMM", "INT8").fields}


class Loops(NamedTuple):
    """Outer and inner counts of an instruction, and its steps in accumulators, inputs, weights."""

    n_out: int
    n_in: int
    acc_out: int = 0
    acc_in: int = 0
    inp_out: int = 0
    inp_in: int = 0
    wgt_out: int = 0
    wgt_in: int = 0

    @property
    def encodable(self) -> bool:
        return all(value <= _GEMM[name] for name, value in self._asdict().items())


class Piece(NamedTuple):
    """What is loaded and multiplied at once: input blocks, and a part of the kernel."""

    blocks: Span
    part: Part


def convolution(core: ProgramBuilder, node: Node) -> Product:
    """The products of a convolution; its weights and bias go to the small memories."""
    operator = node.operator
    assert isinstance(operator, Conv)
    kernels, window = place_kernels(core.tables, node, core.macro.label), operator.window

    def product(core: ProgramBuilder, work: TileWork, _: bool) -> bool:
        """Sums of several loads go on in the accumulators."""
        rows, columns = work.spans[1]
        sums = Entries(work.made.first, work.tile.blocks.size, rows.size, columns.size)
        work.made = sums
        pieces = _pieces(node, work, core.shape.columns)
        loops = [] if sums.pixels > 1 else _all_loops(window, pieces, work, kernels)
        init = begin_sums(core, kernels, work, bool(loops))
        for at, piece in enumerate(pieces):
            area = Area(
                core.regions[node.inputs[0]],
                needed(rows, window, 0, piece.part.rows),
                needed(columns, window, 1, piece.part.columns),
                piece.blocks,
            )
            inputs = load_inputs(core, area)
            if loops:
                ops, steps = _whole_ops(window, piece, work, inputs, kernels), loops[at]
            else:
                taps = taps_of(core.shape)
                ops, steps = _micro_ops(window, piece, work, inputs, kernels, taps), Loops(
                    sums.rows, sums.columns, sums.columns, 1,
                    window.stride[0] * inputs.columns, window.stride[1],
                )  # fmt: skip
            bias = {"init": init, "bm": kernels.bias if init == 2 else 0}
            multiply(core, kernels.kind, ops, steps._asdict() | bias, inputs, sums)
        end_sums(core, kernels, work)
        if kernels.kind == "BINARY" and any(window.pad):
            add_edges(core, node, work)
        return False

    return product


def multiply(
    core: ProgramBuilder, kind: str, ops: list[MicroOp], fields: dict[str, int], inputs: Entries,
    sums: Entries,
) -> None:  # fmt: skip
    """Products of some inputs; as many instructions as the list of micro-ops takes."""
    for first in range(0, len(ops), _GEMM["uops"]):
        some = ops[first : first + _GEMM["uops"]]
        more = {"uop": core.tables.add_micro_ops(some, core.macro.label), "uops": len(some)}
        core.step(
            "GEMM", Instruction("GEMM", kind, fields=more | fields),
            [Touch("INP", inputs.cells)], [Touch("ACC", sums.cells)],
        )  # fmt: skip


def _pieces(node: Node, work: TileWork, size: int) -> list[Piece]:
    """What a tile's sums are made from, in order.

    size : channels of a block
    """
    assert isinstance(node.operator, Conv)
    taken, most = taken_blocks(node, work.tile.blocks, size), work.cut.inputs
    return [
        Piece(Span(at, min(at + most, taken.behind)), part)
        for at in range(taken.first, taken.behind, most)
        for part in parts_of(node.operator.window, work.cut.kernel)
    ]


def _micro_ops(
    window: Window, piece: Piece, work: TileWork, inputs: Entries, kernels: Kernels, taps: int
) -> list[MicroOp]:  # fmt: skip
    """One micro-op for each output block, input block that it is made from, and place of the
    kernel; the first one of an output block begins its sums."""
    kw, (dh, dw), sums = window.size[1], window.dilation, work.made
    rows, columns = piece.part
    found = []
    for at, ob in enumerate(range(*work.tile.blocks)):
        span = kernels.spans[ob]
        for c in range(max(piece.blocks.first, span.first), min(piece.blocks.behind, span.behind)):
            for ky in range(*rows):
                for kx in range(*columns):
                    place = ky * kw + kx
                    y = (c - piece.blocks.first) * inputs.rows + (ky - rows.first) * dh
                    word, tap = kernels.word(ob, place, c), 0
                    if kernels.kind == "DEPTHWISE":
                        word, tap = kernels.first[ob] + place // taps, place % taps
                    found.append(
                        MicroOp(
                            acc=sums.first + at * sums.pixels,
                            inp=inputs.first + y * inputs.columns + (kx - columns.first) * dw,
                            wgt=word,
                            tap=tap,
                            bm=ob * kernels.words,
                            init=int(c == span.first and place == 0),
                        )
                    )
    return found


def _all_loops(
    window: Window, pieces: list[Piece], work: TileWork, kernels: Kernels
) -> list[Loops]:
    """Loops over channels and places of the kernel for a tile of one pixel, if there are many and
    all pieces can be said so; else none."""
    loops = [_loops(window, piece, work, kernels) for piece in pieces]
    count = sum(one.n_out * one.n_in for one in loops if one) * work.tile.blocks.size
    return [one for one in loops if one] if all(loops) and count > MOST_OPS else []


def _loops(window: Window, piece: Piece, work: TileWork, kernels: Kernels) -> Loops | None:
    """The pixels that a load brings for one pixel of the result are the places of the kernel."""
    spans = {kernels.spans[ob] for ob in range(*work.tile.blocks)}
    rows, columns = piece.part
    if window.dilation != (1, 1) or len(spans) > 1 or kernels.kind == "DEPTHWISE":
        return None
    if rows.size > 1 and columns.size < window.size[1]:
        return None
    places, blocks, each = rows.size * columns.size, piece.blocks.size, kernels.each
    apart = next(iter(spans)).size * each  # words from a place of the kernel to the next
    by_block = Loops(blocks, places, inp_out=places, inp_in=1, wgt_out=each, wgt_in=apart)
    by_place = Loops(places, blocks, inp_out=1, inp_in=places, wgt_out=apart, wgt_in=each)
    return next((one for one in (by_block, by_place) if one.encodable), None)


def _whole_ops(
    window: Window, piece: Piece, work: TileWork, inputs: Entries, kernels: Kernels
) -> list[MicroOp]:
    """One micro-op for each output block, whose loops make all products."""
    place = piece.part.rows.first * window.size[1] + piece.part.columns.first
    return [
        MicroOp(
            acc=work.made.first + at,
            inp=inputs.first,
            wgt=kernels.word(ob, place, piece.blocks.first),
        )
        for at, ob in enumerate(range(*work.tile.blocks))
    ]
