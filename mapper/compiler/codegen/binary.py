"""Binary layers: weights as bits, zero padding of bit maps, and packing of thresholds.

A bit map has one vector per 128 channels of a pixel. Its words are bytes as in other feature maps,
so areas and micro-ops are the same; only the contents and the operators that write them differ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import Instruction, MicroOp
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.codegen.alu import PARAMETERS, alu, alu_with
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.ir.node import Node, Sign, Threshold, Window
from mapper.compiler.memory.planner import blocks_of, blocks_of_vector
from mapper.compiler.numerics.binary import INT32_MOST, packed, unused_bits
from mapper.compiler.program.inputs import Span, constants_of, conv_of
from mapper.compiler.program.steps import Touch
from mapper.compiler.program.tables import Tables, lanes_of

Int64 = NDArray[np.int64]


def binary_constants(conv: Node, shape: NpuShape) -> tuple[Int64, Int64]:
    """Return the weights as bytes, shape (outputs, rows, columns, bytes), and the bias corrected
    for the unused bits of their vectors."""
    weights, bias = constants_of(conv)
    outputs, kh, kw, inputs = weights.shape
    vectors = packed(weights, shape.columns).reshape(outputs, kh, kw, -1)
    return (
        vectors.view(np.int8).astype(np.int64),
        bias - unused_bits((kh, kw), inputs, shape.columns),
    )


class Edges:
    """Corrections of sums at the edges of a bit map, whose padding is 0 but was computed as -1.

    rows, columns : sums of the weights outside the map, for each row or column of results whose
        windows reach over an edge, shape (outputs,)
    corners : negated sums of the weights counted by both, for each pixel at two edges
    """

    def __init__(self, weights: Int64, window: Window, height: int, width: int) -> None:
        taps = weights.sum(3)  # outputs, kernel rows, kernel columns
        made = window.results(height, width)
        out = [
            _outside(size, window.stride[axis], window.dilation[axis], window.size[axis], before, n)
            for axis, (size, before, n) in enumerate(
                ((height, window.pad.top, made[0]), (width, window.pad.left, made[1]))
            )
        ]
        self.rows = {y: taps[:, ky].sum((1, 2)) for y, ky in out[0].items()}
        self.columns = {x: taps[:, :, kx].sum((1, 2)) for x, kx in out[1].items()}
        self.corners = {
            (y, x): -taps[:, ky][:, :, kx].sum((1, 2))
            for y, ky in out[0].items()
            for x, kx in out[1].items()
        }


def _outside(
    size: int, stride: int, dilation: int, kernel: int, before: int, count: int
) -> dict[int, list[int]]:
    """Return the kernel positions outside the map for each result that has some."""
    found = {}
    for at in range(count):
        places = [k for k in range(kernel) if not 0 <= at * stride - before + k * dilation < size]
        if places:
            found[at] = places
    return found


def add_edges(core: ProgramBuilder, conv: Node, work: TileWork) -> None:
    """Correct the sums of a tile whose windows reach over the edges of a bit map."""
    data, window = conv.inputs[0], conv_of(conv).window
    edges = Edges(constants_of(conv)[0], window, data.height, data.width)
    sums, (rows, columns), blocks = work.made, work.spans[1], work.tile.blocks
    words = blocks_of(core.shape.rows, PARAMETER_LANES)

    def ops(found: dict[tuple[int, int], Int64]) -> list[MicroOp]:
        """Return one micro-op per position in the tile and block."""
        made = []
        for (y, x), values in found.items():
            first = core.tables.add_parameters(
                [word for block in lanes_of(values, core.shape.rows) for word in block],
                core.macro.label,
            )
            made += [
                MicroOp(
                    acc=sums.first + place * sums.pixels + y * sums.columns + x,
                    inp=first + block * words,
                )
                for place, block in enumerate(range(*blocks))
            ]
        return made

    high, wide = range(*rows), range(*columns)
    of_rows = {(high.index(y), 0): values for y, values in edges.rows.items() if y in high}
    of_columns = {(0, wide.index(x)): values for x, values in edges.columns.items() if x in wide}
    of_corners = {
        (high.index(y), wide.index(x)): values
        for (y, x), values in edges.corners.items()
        if y in high and x in wide
    }
    for found, counts in (
        (of_rows, {"n_out": 1, "n_in": sums.columns, "dst_in": 1}),
        (of_columns, {"n_out": sums.rows, "n_in": 1, "dst_out": sums.columns}),
        (of_corners, {"n_out": 1, "n_in": 1}),
    ):
        if some := ops(found):
            alu_with(core, "ADD", some, counts | {"source": PARAMETERS}, [sums], sums)


def threshold_record(tables: Tables, node: Node, blocks: Span, rows: int, label: str) -> int:
    """Add the threshold record of a range of output blocks and return its address; bits of lanes
    without a channel are 0."""
    channels = node.output.channels
    operator = node.operator
    if isinstance(operator, Threshold):
        least, flip = operator.least, operator.flip
    else:
        assert isinstance(operator, Sign)
        least = np.full(channels, node.inputs[0].zero_point, np.int64)
        flip = np.zeros(channels, np.int64)
    whole = np.full(blocks_of(channels, rows) * rows, INT32_MOST, np.int64)
    whole[:channels] = least
    groups = [lanes_of(whole, rows), lanes_of(flip, rows)]
    words = [np.zeros(PARAMETER_LANES, np.int64)]
    for block in range(*blocks):
        words += [word for group in groups for word in group[block]]
    return tables.add_parameters(words, label)


def pack_signs(core: ProgramBuilder, node: Node, work: TileWork, last: bool = True) -> None:
    """Apply the thresholds to a tile and pack the bits; the packed vectors are in the result buffer
    and become `work.made`.

    The blocks of a tile start at a whole vector.
    """
    shape, label, made, first = core.shape, core.macro.label, work.made, work.free
    share = blocks_of_vector(shape.rows, shape.columns)
    vectors = made._replace(first=first, blocks=blocks_of(made.blocks, share))
    if made.blocks % share:  # bits of missing blocks are not written and must be 0
        stop = vectors._replace(first=first + (vectors.blocks - 1) * made.pixels, blocks=1)
        alu(core, "MOV", stop, stop, {"source": 0, "imm": 0, "out": 1})
    fields = made.by_blocks | {
        "dst": made.first,
        "rec": threshold_record(core.tables, node, work.tile.blocks, shape.rows, label),
        "bits": first,
    }
    core.step(
        Instruction("RQ", "THRESHOLD", fields=fields),
        [Touch("ACC", made.cells)], [Touch("OUT", vectors.cells)],
    )  # fmt: skip
    work.made, work.free = vectors, vectors.stop
