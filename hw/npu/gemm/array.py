"""The MAC array: every row multiplies its weights by the columns and sums the products.

One cycle, from the registers of a weight word and an input vector to the registers of the sums. The
binary product uses the same registers; a bit of the instruction selects it. For depthwise products,
row r has a single product: column r times a weight of row `tap`.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Module, Value
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.gemm.row import KINDS, ArrayRow, sum_bits
from hw.npu.shape import NpuShape, Widths


class MacArray(ShapedComponent):
    """MAC array.

    kind : kind of the product, as in instructions
    tap : weight row for depthwise products
    x : input vector
    w, v : weight word, and a second one of dual cores
    sums, others : sum of each row, a cycle later; `others` are the second sums of pairs
    """

    module_name = "npu_array"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        word = size.vector * shape.rows
        self.sum_bits = sum_bits(shape)
        bits = self.sum_bits * shape.rows
        super().__init__(
            {
                "kind": In(range(len(KINDS))),
                "tap": In(4),
                "x": In(size.lane * shape.columns),
                "w": In(word),
                **({"v": In(word), "others": Out(bits)} if size.dual else {}),
                "sums": Out(bits),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        size, bits = self.size, self.sum_bits
        words = range(0, size.vector * self.shape.rows, size.vector)
        weights = [me.w[first : first + size.vector] for first in words]
        tapped = Array(weights)[me.tap]
        for number, first in enumerate(words):
            m.submodules[f"row{number}"] = row = ArrayRow(self.shape)
            ports: Any = row
            m.d.comb += [
                ports.kind.eq(me.kind),
                ports.tap.eq(tapped[8 * number : 8 * number + 8]),
                ports.x.eq(_from(me.x, size.lane * number)),
                ports.w.eq(_from(weights[number], 8 * number)),
                me.sums[bits * number : bits * (number + 1)].eq(ports.sum),
            ]
            if size.dual:
                m.d.comb += [
                    ports.v.eq(_from(me.v[first : first + size.vector], 8 * number)),
                    me.others[bits * number : bits * (number + 1)].eq(ports.other),
                ]
        return m


def _from(lanes: Value, first: int) -> Value:
    """Rotate lanes so that they start at bit `first`."""
    return lanes.rotate_right(first)
