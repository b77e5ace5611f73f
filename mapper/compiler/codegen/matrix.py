"""Loads, initial sums and products of the matrix unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from hw.npu.isa.table import Instruction, MicroOp
from mapper.compiler.codegen.alu import PARAMETERS, alu, alu_with
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.binary import add_edges
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.edges import Edge, edges_of
from mapper.compiler.codegen.kernels import Kernels, Words, place_kernels, taps_of
from mapper.compiler.codegen.loads import load_inputs, load_windows
from mapper.compiler.codegen.pairs import Pass, kernel_pairs, plan_pairs, words_alternate
from mapper.compiler.codegen.streams import ASKED
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.program.inputs import (
    KernelPart,
    Span,
    conv_of,
    needed,
    parts_of,
    taken_blocks,
    whole_kernel,
)
from mapper.compiler.program.steps import Touch, most_of

Product = Callable[[ProgramBuilder, TileWork, bool], bool]
"""Emit the loads and sums of a tile into the accumulators from `made.first` on; True: the macro
node has no other operators. Return whether the results are already in the result buffer."""

MOST_OPS = 64
"""Micro-ops per pixel; above this number loops are used."""
_GEMM = most_of("GEMM", "INT8")
KNOWN = 256
"""Lists of micro-ops that are remembered: as many as cores repeat with other input addresses."""
NOTHING, ZERO, BIAS = range(3)
"""Initial accumulator values that products can request with `init`."""

Loops = dict[str, int]
"""Outer and inner counts of an instruction, and its strides in accumulators, inputs and weights."""


class KernelPiece(NamedTuple):
    """Unit of one load and its products: input blocks and a part of the kernel."""

    blocks: Span
    part: KernelPart


def convolution(core: ProgramBuilder, node: Node) -> Product:
    """Return the tile function of a convolution; put its weights and bias in small memories."""
    kernels = place_kernels(core.tables, node, core.macro.label, core.number in core.dynamic)
    window = conv_of(node).window

    def product(core: ProgramBuilder, work: TileWork, _: bool) -> bool:
        """Emit the sums of a tile; sums of several loads accumulate."""
        rows, columns = work.spans[1]
        work.made = Entries(work.made.first, work.tile.blocks.size, rows.size, columns.size)
        pieces = _pieces(node, work, core.shape.columns)
        paired = kernels.static is None and words_alternate(core, kernels, work.tile.blocks)
        looped = [] if work.made.pixels > 1 else _all_loops(window, pieces, work, kernels, paired)
        init = begin_sums(core, kernels, work, bool(looped))
        plan = plan_pairs(core, node, kernels, work)
        apart = plan.kernels or any(one.apart for one in plan.passes)
        edges = []
        known = kernels.static is not None and not core.tables.reloaded
        if work.cut.edges and known and init == BIAS and not apart and kernels.kind != "BINARY":
            edges = edges_of(core, node, kernels, work)
        whole = whole_kernel(window)
        for one in plan.passes:
            for at, piece in enumerate(pieces):
                words, inputs = _brought(core, node, kernels, work, one, piece, paired)
                plain = [Edge(one, whole, kernels.bias)]
                for edge in edges or plain:
                    part = piece.part.meet(edge.part)
                    if part is None:
                        continue
                    steps = looped[at] if looped else _pixels(window, edge.sums, inputs, work.made)
                    for kind, blocks in kernel_pairs(work.tile.blocks, bool(plan.kernels)):
                        if kind:  # skip blocks of groups whose inputs come with another load
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
    core: ProgramBuilder, node: Node, kernels: Kernels, work: TileWork, part: Pass,
    piece: KernelPiece, paired: bool,
) -> tuple[Words, Entries]:  # fmt: skip
    """Load the weights and inputs of some products and return where they are. If both use the same
    path to external memory, weights come last: products start with the first words of weights, but
    need all inputs.

    paired : see `Kernels.bring`
    """
    weights = work.tile.blocks, piece.blocks, piece.part, paired
    if core.shape.map_vectors:
        words = kernels.bring(core, *weights)
        return words, _load(core, node, part, piece)
    inputs = _load(core, node, part, piece)
    return kernels.bring(core, *weights), inputs


def begin_sums(core: ProgramBuilder, kernels: Kernels, work: TileWork, looped: bool) -> int:
    """Emit instructions that initialise accumulators; return the `init` mode of the products.

    looped : products run as loops, in which no product is the first of its accumulator
    """
    added = core.options.bias == "alu"
    if kernels.shift or (looped and not added):
        _load_bias(core, kernels, work)
        return NOTHING
    if looped:
        alu(core, "MOV", work.made, work.made, {"imm": 0})
        return NOTHING
    return ZERO if added else BIAS


def end_sums(core: ProgramBuilder, kernels: Kernels, work: TileWork) -> None:
    """Add the bias to the sums, unless they started with it."""
    if core.options.bias != "alu" or kernels.shift:
        return
    made = work.made
    op = MicroOp(acc=made.first, inp=kernels.bias + work.tile.blocks.first * kernels.lanes)
    fields = made.by_blocks | {"src_out": kernels.lanes, "source": PARAMETERS}
    alu_with(core, "ADD", [op], fields, [made], made)


def _load_bias(core: ProgramBuilder, kernels: Kernels, work: TileWork) -> None:
    """Load the bias from parameters into the accumulators. A bias of more than 32 bits is stored
    without its trailing zeros and shifted back."""
    made = work.made
    word = kernels.bias + work.tile.blocks.first * kernels.lanes
    fields = made.by_blocks | {"dst": made.first, "bm": word}
    core.step(Instruction("LOAD", "BIAS", fields=fields), [], [Touch("ACC", made.cells)])
    if kernels.shift:
        alu(core, "SHL", made, made, {"imm": kernels.shift})


class Products(NamedTuple):
    """Operands of products, and the output blocks of a tile that they are computed for.

    edge : the sums; loaded : the pass that the inputs were loaded for
    """

    piece: KernelPiece
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
        """Return the input vector of the first kernel position for the first sum."""
        some, loaded = self.edge.sums, self.loaded
        y = (some.rows.first - loaded.rows.first) * window.stride[0]
        x = (some.columns.first - loaded.columns.first) * window.stride[1]
        return self.inputs.first + y * self.inputs.row_step + x * self.inputs.column_step

    def sum(self, block: int) -> int:
        """Return the first accumulator of an output block."""
        rows, columns = self.work.spans[1]
        some = self.edge.sums
        y, x = some.rows.first - rows.first, some.columns.first - columns.first
        at = block - self.work.tile.blocks.first
        return self.sums.first + at * self.sums.pixels + y * self.sums.columns + x


def _load(core: ProgramBuilder, node: Node, part: Pass, piece: KernelPiece) -> Entries:
    """Load the input pixels, or pairs of pixels, of some sums."""
    window = conv_of(node).window
    if core.macro.windows is not None:
        return load_windows(core, core.macro.windows, part.rows, part.columns)
    area = LoadArea(
        core.regions[node.inputs[0]],
        needed(part.rows, window, 0, piece.part.rows),
        needed(part.columns, window, 1, piece.part.columns),
        piece.blocks,
    )
    return load_inputs(core, area, part.far)


def _pixels(window: Window, part: Pass, inputs: Entries, sums: Entries) -> Loops:
    """Return the loops over rows and columns of the result."""
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
    """Emit the products of some inputs; long lists of micro-ops need several instructions."""
    reads = [Touch("INP", inputs.cells)]
    if words is not None and words.cells is not None:
        fields = fields | {"dyn": int(words.fresh)}
        reads += [Touch("WM", words.cells)] + [ASKED] * words.fresh
    most = min(_GEMM["uops"], core.shape.micro_ops)
    for first in range(0, len(ops), most):
        some = ops[first : first + most]
        made = Instruction("GEMM", kind, fields=core.micro_ops(some) | fields)
        core.step(made, reads, [Touch("ACC", sums.cells)])


def _pieces(node: Node, work: TileWork, size: int) -> list[KernelPiece]:
    """Return the pieces that a tile's sums consist of, in order.

    size : channels per block
    """
    taken, most = taken_blocks(node, work.tile.blocks, size), work.cut.inputs
    return [
        KernelPiece(Span(at, min(at + most, taken.stop)), part)
        for at in range(taken.first, taken.stop, most)
        for part in parts_of(conv_of(node).window, work.cut.kernel)
    ]


def _micro_ops(window: Window, where: Products, part: KernelPart, taps: int) -> list[MicroOp]:
    """Return one micro-op per output block, input block and kernel position; the first one of an
    output block initialises its sums. Weights of the host are used in the order of arrival.

    part : part of the kernel, within the part that the inputs are loaded for
    """
    kw, (dh, dw) = window.size[1], window.dilation
    piece, inputs, kernels, words = where.piece, where.inputs, where.kernels, where.words
    depthwise = kernels.kind == "DEPTHWISE"
    rows, columns = piece.part
    begins = where.edge.part.rows.first * kw + where.edge.part.columns.first
    first_input, block_step = where.input(window), inputs.block_step
    row_step, column_step = dh * inputs.row_step, dw * inputs.column_step
    places = [
        (
            ky * kw + kx,
            first_input + (ky - rows.first) * row_step + (kx - columns.first) * column_step,
            words.place(ky, kx),
        )
        for ky in range(*part.rows)
        for kx in range(*part.columns)
    ]
    blocks = []
    for ob in where.blocks:
        span = kernels.spans[ob]
        some = piece.blocks.meet(span)
        if some.size > 0:  # else its weights may not have arrived yet
            word, stored = words.first[ob], words.spans[ob]
            bias = ob * kernels.lanes
            step = words.step[ob]
            blocks.append(_Sums(where.sum(ob), bias, some, span.first, word, step, stored))
    found = _products(
        tuple(places), tuple(blocks), begins, (piece.blocks.first, block_step),
        taps if depthwise else 0, kernels.static is None,
    )  # fmt: skip
    return list(found)


class _Sums(NamedTuple):
    """Sums of an output block.

    some : input blocks that are added; begins : the first one of all
    word : address of the first weight; step : words from a product to the next
    stored : input blocks with weights
    """

    first: int
    bias: int
    some: Span
    begins: int
    word: int
    step: int
    stored: Span


@lru_cache(KNOWN)
def _products(
    places: tuple[tuple[int, int, int], ...], blocks: tuple[_Sums, ...], begins: int,
    inputs: tuple[int, int], taps: int, ordered: bool,
) -> tuple[MicroOp, ...]:  # fmt: skip
    """Return micro-ops; parts of a layer on many cores have the same ones.

    places : of each kernel position: its number, its pixel, and its number among the weights
    begins : number of the kernel position that initialises sums
    inputs : first input block, and distance of blocks; taps : of a word of depthwise weights, or 0
    ordered : in the order of the weights
    """
    found = []
    for one in blocks:
        for c in range(*one.some):
            at, block = c - one.stored.first, (c - inputs[0]) * inputs[1]
            for place, pixel, among in places:
                if taps:
                    wgt, tap = one.word + place // taps, place % taps
                else:
                    wgt, tap = one.word + (among * one.stored.size + at) * one.step, 0
                init = int(c == one.begins and place == begins)
                found.append(MicroOp(one.first, pixel + block, wgt, tap, one.bias, init))
    return tuple(sorted(found, key=lambda op: op.wgt) if ordered else found)


def _all_loops(
    window: Window, pieces: list[KernelPiece], work: TileWork, kernels: Kernels, paired: bool
) -> list[Loops]:
    """Return loops over channels and kernel positions for a tile of one pixel. Return an empty list
    if they are few, or if a piece cannot be expressed as loops."""
    loops = [_loops(window, piece, work, kernels, paired) for piece in pieces]
    count = sum(one["n_out"] * one["n_in"] for one in loops if one) * work.tile.blocks.size
    return [one for one in loops if one] if all(loops) and count > MOST_OPS else []


def _loops(
    window: Window, piece: KernelPiece, work: TileWork, kernels: Kernels, paired: bool
) -> Loops | None:
    """Return the loops of a piece; the pixels loaded for one result are the kernel positions."""
    spans = {kernels.spans[ob] for ob in range(*work.tile.blocks)}
    rows, columns = piece.part
    if window.dilation != (1, 1) or len(spans) > 1 or kernels.kind == "DEPTHWISE":
        return None
    if rows.size > 1 and columns.size < window.size[1]:
        return None
    places, blocks = rows.size * columns.size, piece.blocks.size
    each = kernels.each * (2 if paired else 1)
    # words from a kernel position to the next
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
    """Return one micro-op per output block; the loops of the instruction cover all products."""
    rows, columns = where.piece.part
    return [
        MicroOp(
            acc=where.sum(ob),
            inp=where.inputs.first,
            wgt=where.words.word(ob, rows.first, columns.first, where.piece.blocks.first),
        )
        for ob in where.blocks
    ]
