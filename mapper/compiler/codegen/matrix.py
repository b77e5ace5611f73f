"""Loads and products of the matrix unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hw.npu.isa import Instruction, MicroOp
from mapper.compiler.codegen.areas import Area, Entries
from mapper.compiler.codegen.binary import add_edges, binary_constants
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.loads import load_inputs
from mapper.compiler.codegen.steps import Touch
from mapper.compiler.codegen.tables import LANES
from mapper.compiler.graph.node import Conv, Node, Window
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.schedule.tiles import Span
from mapper.errors import MapperError

Product = Callable[[ProgramBuilder, TileWork], None]
"""Loads and products of a tile, into the accumulators from `made.first` on."""


class Weights(NamedTuple):
    """Of a layer in the small memories.

    first, bias : first words
    blocks : of the input
    words : parameter words of a block
    """

    first: int
    bias: int
    blocks: int
    words: int


def convolution(core: ProgramBuilder, node: Node) -> Product:
    """The products of a convolution; its weights and bias go to the small memories."""
    operator, label = node.operator, core.macro.label
    assert isinstance(operator, Conv)
    data, kernels, bias = node.inputs[0], node.inputs[1].value, node.inputs[2].value
    assert kernels is not None
    assert bias is not None
    if operator.groups != 1:
        raise MapperError(f"{label}: grouped convolutions are not built yet")
    kind = "INT8"
    if data.type == "bits":
        kind, (kernels, bias) = "BINARY", binary_constants(node, core.shape)
    weights = Weights(
        core.tables.add_weights(kernels, label),
        core.tables.add_bias(bias, label),
        core.regions[data].pixel,
        blocks_of(core.shape.rows, LANES),
    )
    window = operator.window

    def product(core: ProgramBuilder, work: TileWork) -> None:
        """Sums of several loads go on in the accumulators."""
        rows, columns = work.spans[1]
        work.made = Entries(work.made.first, work.tile.blocks.size, rows.size, columns.size)
        for begin in range(0, weights.blocks, work.cut.inputs):
            some = Span(begin, min(begin + work.cut.inputs, weights.blocks))
            inputs = load_inputs(core, Area(core.regions[data], *work.spans[0], some))
            ops = _micro_ops(window, work, some, inputs, weights)
            _multiply(core, kind, window, ops, inputs, work.made, weights.bias)
        if data.type == "bits" and any(window.pad):
            add_edges(core, node, work)

    return product


def _multiply(
    core: ProgramBuilder, kind: str, window: Window, ops: list[MicroOp], inputs: Entries,
    sums: Entries, bias: int,
) -> None:  # fmt: skip
    fields = {
        "uop": core.tables.add_micro_ops(ops, core.macro.label),
        "uops": len(ops),
        "n_out": sums.rows,
        "n_in": sums.columns,
        "acc_out": sums.columns,
        "acc_in": 1,
        "inp_out": window.stride[0] * inputs.columns,
        "inp_in": window.stride[1],
        "init": 2,
        "bm": bias,
    }
    core.step(
        "GEMM", Instruction("GEMM", kind, fields=fields),
        [Touch("INP", inputs.cells)], [Touch("ACC", sums.cells)],
    )  # fmt: skip


def _micro_ops(
    window: Window, work: TileWork, taken: Span, inputs: Entries, weights: Weights
) -> list[MicroOp]:
    """One micro-op for each output block, input block and place of the kernel.

    taken : the input blocks that are there; the first ones begin the sums
    """
    (kh, kw), (dh, dw), sums = window.size, window.dilation, work.made
    return [
        MicroOp(
            acc=sums.first + place * sums.pixels,
            inp=inputs.first + (c * inputs.rows + ky * dh) * inputs.columns + kx * dw,
            wgt=weights.first + ((ob * kh + ky) * kw + kx) * weights.blocks + taken.first + c,
            bm=ob * weights.words,
            init=int(not (taken.first or c or ky or kx)),
        )
        for place, ob in enumerate(range(*work.tile.blocks))
        for c in range(taken.size)
        for ky in range(kh)
        for kx in range(kw)
    ]
