"""Loads and products of the matrix unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hw.npu.isa import Instruction, MicroOp, form_of
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.bias import BIAS, begin_sums, end_sums
from mapper.compiler.codegen.binary import add_edges
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.edges import Edge, edges_of
from mapper.compiler.codegen.kernels import Kernels, Words, place_kernels, taps_of
from mapper.compiler.codegen.loads import load_inputs
from mapper.compiler.codegen.pairs import Pass, kernel_pairs, plan_pairs
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.codegen.streams import ASKED
from mapper.compiler.codegen.windows import load_windows
from mapper.compiler.graph.node import Conv, Node, Window
from mapper.compiler.schedule.inputs import Part, Span, needed, parts_of, taken_blocks

Product = Callable[[ProgramBuilder, TileWork, bool], bool]
"""Loads and sums of a tile, into the accumulators from `made.first` on; True: they are all there is
to do. Returns whether they are in the result buffer, too."""

MOST_OPS = 64
"""Micro-ops for one pixel; more of them become loops."""
_GEMM = {field.name: field.most for field in form_of("GEMM", "INT8").fields}


Loops = dict[str, int]
"""Outer and inner counts of an instruction, and its steps in accumulators, inputs and weights."""


class Piece(NamedTuple):
    """What is loaded and multiplied at once: input blocks, and a part of the kernel."""

    blocks: Span
    part: Part


def convolution(core: ProgramBuilder, node: Node) -> Product:
    """The products of a convolution; its weights and bias go to the small memories."""
    operator = node.operator
    assert isinstance(operator, Conv)
    kernels = place_kernels(core.tables, node, core.macro.label, core.number in core.dynamic)
    window = operator.window

    def product(core: ProgramBuilder, work: TileWork, _: bool) -> bool:
        """Sums of several loads go on in the accumulators."""
        rows, columns = work.spans[1]
        work.made = Entries(work.made.first, work.tile.blocks.size, rows.size, columns.size)
        pieces = _pieces(node, work, core.shape.columns)
        looped = [] if work.made.pixels > 1 else _all_loops(window, pieces, work, kernels)
        init = begin_sums(core, kernels, work, bool(looped))
        plan = plan_pairs(core, node, kernels, work)
        apart = plan.kernels or any(one.apart for one in plan.passes)
        edges = []
        known = kernels.static is not None and not core.tables.reloaded
        if work.cut.edges and known and init == BIAS and not apart and kernels.kind != "BINARY":
            edges = edges_of(core, node, kernels, work)
        whole = Part(Span(0, window.size[0]), Span(0, window.size[1]))
        for one in plan.passes:
            for at, piece in enumerate(pieces):
                words, inputs = _brought(core, node, kernels, work, one, piece)
                plain = [Edge(one, whole, kernels.bias)]
                for edge in edges or plain:
                    part = _common(piece.part, edge.part)
                    if part is None:
                        continue
                    steps = looped[at] if looped else _pixels(window, edge.sums, inputs, work.made)
                    for kind, blocks in kernel_pairs(work.tile.blocks, bool(plan.kernels)):
                        if kind:  # not of groups whose inputs come with another load
                            blocks = [ob for ob in blocks if ob in words.first]
                            if not blocks:
                                continue
                        where = Products(piece, inputs, work, kernels, words, blocks, edge, one)
                        ops = (
                            _whole_ops(where)
                            if looped
                            else _micro_ops(window, where, part, taps_of(core.shape))
                        )
                        if kind:
                            core.set_distance(
                                "GEMM", acc=work.made.pixels, wgt=words.apart(blocks[0])
                            )
                        elif one.apart:
                            kind = "DUAL_PIXEL"
                            core.set_distance("GEMM", acc=one.apart, wgt=0)
                        fields = {"init": init, "bm": edge.bias if init == BIAS else 0}
                        fields |= steps
                        multiply(core, kind or kernels.kind, ops, fields, inputs, work.made, words)
        end_sums(core, kernels, work)
        if kernels.kind == "BINARY" and any(window.pad):
            add_edges(core, node, work)
        return False

    return product


def _brought(
    core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork, part: Pass, piece: Piece
) -> tuple[Words, Entries]:
    """Weights and inputs of some products. Where both come over one way to external memory, the
    weights are the last: products begin with the first of their words, but need all inputs."""
    if core.shape.map_vectors:
        words = kernels.bring(core, work.tile.blocks, piece.blocks, piece.part)
        return words, _load(core, node, part, piece)
    inputs = _load(core, node, part, piece)
    return kernels.bring(core, work.tile.blocks, piece.blocks, piece.part), inputs


def _common(a: Part, b: Part) -> Part | None:
    """What two parts of a kernel have in common; None if nothing."""
    rows, columns = (
        Span(max(x.first, y.first), min(x.stop, y.stop)) for x, y in zip(a, b, strict=True)
    )
    return Part(rows, columns) if rows.size > 0 and columns.size > 0 else None


class Products(NamedTuple):
    """What products are made of, and for which output blocks of a tile.

    edge : the sums that are made; loaded : those that the inputs were loaded for
    """

    piece: Piece
    inputs: Entries
    work: TileWork
    kernels: Kernels
    words: Words
    blocks: list[int]
    edge: Edge
    loaded: Pass

    @property
    def sums(self) -> Entries:
        return self.work.made

    def input(self, window: Window) -> int:
        """The vector of the first place of the kernel for the first sum."""
        some, loaded = self.edge.sums, self.loaded
        y = (some.rows.first - loaded.rows.first) * window.stride[0]
        x = (some.columns.first - loaded.columns.first) * window.stride[1]
        return self.inputs.first + y * self.inputs.row_step + x * self.inputs.column_step

    def sum(self, block: int) -> int:
        """The first accumulator of an output block."""
        rows, columns = self.work.spans[1]
        some = self.edge.sums
        y, x = some.rows.first - rows.first, some.columns.first - columns.first
        at = block - self.work.tile.blocks.first
        return self.sums.first + at * self.sums.pixels + y * self.sums.columns + x


def _load(core: ProgramBuilder, node: Node, part: Pass, piece: Piece) -> Entries:
    """The pixels that some sums take, or pairs of pixels."""
    assert isinstance(node.operator, Conv)
    window = node.operator.window
    if core.macro.windows is not None:
        return load_windows(core, core.macro.windows, part.rows, part.columns)
    area = Area(
        core.regions[node.inputs[0]],
        needed(part.rows, window, 0, piece.part.rows),
        needed(part.columns, window, 1, piece.part.columns),
        piece.blocks,
    )
    return load_inputs(core, area, part.far)


def _pixels(window: Window, part: Pass, inputs: Entries, sums: Entries) -> Loops:
    """Loops over rows and columns of the result."""
    return Loops(
        n_out=part.rows.size,
        n_in=-(-part.columns.size // part.step),
        acc_out=sums.columns,
        acc_in=part.step,
        inp_out=window.stride[0] * inputs.row_step,
        inp_in=window.stride[1] * part.step * inputs.column_step,
    )


def multiply(
    core: ProgramBuilder, kind: str, ops: list[MicroOp], fields: dict[str, int], inputs: Entries,
    sums: Entries, words: Words | None = None,
) -> None:  # fmt: skip
    """Products of some inputs; as many instructions as the list of micro-ops takes."""
    reads = [Touch("INP", inputs.cells)]
    if words is not None and words.cells is not None:
        fields = fields | {"dyn": int(words.fresh)}
        reads += [Touch("WM", words.cells)] + [ASKED] * words.fresh
    most = min(_GEMM["uops"], core.shape.micro_ops)
    for first in range(0, len(ops), most):
        some = ops[first : first + most]
        more = {"uop": core.tables.add_micro_ops(some, core.macro.label), "uops": len(some)}
        core.step(
            "GEMM", Instruction("GEMM", kind, fields=more | fields),
            reads, [Touch("ACC", sums.cells)],
        )  # fmt: skip


def _pieces(node: Node, work: TileWork, size: int) -> list[Piece]:
    """What a tile's sums are made from, in order.

    size : channels of a block
    """
    assert isinstance(node.operator, Conv)
    taken, most = taken_blocks(node, work.tile.blocks, size), work.cut.inputs
    return [
        Piece(Span(at, min(at + most, taken.stop)), part)
        for at in range(taken.first, taken.stop, most)
        for part in parts_of(node.operator.window, work.cut.kernel)
    ]


def _micro_ops(window: Window, where: Products, part: Part, taps: int) -> list[MicroOp]:
    """One micro-op for each output block, input block that it is made from, and place of the
    kernel; the first one of an output block begins its sums. Weights of the host are taken in the
    order in which they come.

    part : of the kernel, of what the inputs are loaded for
    """
    kw, (dh, dw) = window.size[1], window.dilation
    piece, inputs, kernels, words = where.piece, where.inputs, where.kernels, where.words
    rows, columns = piece.part
    begins = where.edge.part.rows.first * kw + where.edge.part.columns.first
    first_input = where.input(window)
    found = []
    for ob in where.blocks:
        span, first = kernels.spans[ob], where.sum(ob)
        for c in range(max(piece.blocks.first, span.first), min(piece.blocks.stop, span.stop)):
            for ky in range(*part.rows):
                for kx in range(*part.columns):
                    place = ky * kw + kx
                    block = (c - piece.blocks.first) * inputs.block_step
                    y, x = (ky - rows.first) * dh, (kx - columns.first) * dw
                    if kernels.kind == "DEPTHWISE":
                        word, tap = words.first[ob] + place // taps, place % taps
                    else:
                        word, tap = words.word(ob, ky, kx, c), 0
                    found.append(
                        MicroOp(
                            acc=first,
                            inp=first_input + block + y * inputs.row_step + x * inputs.column_step,
                            wgt=word,
                            tap=tap,
                            bm=ob * kernels.lanes,
                            init=int(c == span.first and place == begins),
                        )
                    )
    return found if kernels.static is not None else sorted(found, key=lambda op: op.wgt)


def _all_loops(
    window: Window, pieces: list[Piece], work: TileWork, kernels: Kernels
) -> list[Loops]:
    """Loops over channels and places of the kernel for a tile of one pixel, if there are many and
    all pieces can be said so; else none."""
    loops = [_loops(window, piece, work, kernels) for piece in pieces]
    count = sum(one["n_out"] * one["n_in"] for one in loops if one) * work.tile.blocks.size
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
    # words from a place of the kernel to the next
    apart = (next(iter(spans)).size if kernels.static else blocks) * each

    def steps(outer: tuple[int, int, int], inner: tuple[int, int, int]) -> Loops:
        names = ("n", "inp", "wgt")
        return {
            f"{name}_{loop}": value
            for loop, values in (("out", outer), ("in", inner))
            for name, value in zip(names, values, strict=True)
        }

    of_blocks, of_places = (blocks, places, each), (places, 1, apart)
    for one in (steps(of_blocks, of_places), steps(of_places, of_blocks)):
        if all(value <= _GEMM[name] for name, value in one.items()):
            return one
    return None


def _whole_ops(where: Products) -> list[MicroOp]:
    """One micro-op for each output block, whose loops make all products."""
    rows, columns = where.piece.part
    return [
        MicroOp(
            acc=where.sum(ob),
            inp=where.inputs.first,
            wgt=where.words.word(ob, rows.first, columns.first, where.piece.blocks.first),
        )
        for ob in where.blocks
    ]
