"""The array: every row multiplies its weights with the columns, and adds up the products.

One cycle: from the registers of a weight word and an input vector to the registers of the sums.
The binary product has the same registers; a bit of the instruction chooses. Depthwise, row r has
one product: of its own column, with a weight of the row `tap`.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.npu import multiplier
from hw.npu.popcount import agreement
from hw.npu.shape import NpuShape, Widths

KINDS = ("INT8", "BINARY", "DUAL_PIXEL", "DUAL_KERNEL", "INT16", "DEPTHWISE")


class MacArray(wiring.Component):
    """Ports

    kind : of the product, as instructions have it; tap : row of weights of depthwise ones
    x : input vector; w, v : weight word, and a second one of dual cores
    sums, others : of each row, a cycle later; others : second ones of pairs
    """

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size = self.size
        word = size.vector * shape.rows
        self.sum_bits = (16 + 16 if size.dual else 16) + shape.columns.bit_length() - 1
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

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        size, columns = self.size, self.shape.columns
        is_kind = {name: me.kind == code for code, name in enumerate(KINDS)}
        x = [me.x[size.lane * c : size.lane * (c + 1)].as_signed() for c in range(columns)]
        bits = Cat(*(each[:8] for each in x))
        tapped = Array(
            me.w[size.vector * row : size.vector * (row + 1)] for row in range(self.shape.rows)
        )[me.tap]
        for row in range(self.shape.rows):
            w = _bytes(me.w, row, columns)
            own = _bytes(tapped, 0, columns)[row]
            first = w[row]
            mine = multiplier.chosen(m, is_kind["DEPTHWISE"], own, first, 8)
            if size.dual:
                v = _bytes(me.v, row, columns)
                total, other = self._dual_row(m, is_kind, x, w, v, row, mine)
                m.d.sync += me.others[self.sum_bits * row : self.sum_bits * (row + 1)].eq(other)
            else:
                products = [
                    multiplier.product(m, mine if c == row else w[c], x[c]) for c in range(columns)
                ]
                kept = self._kept(m, is_kind, products, row)
                total = _tree(m, kept)
            if self.shape.binary:
                word = me.w[size.vector * row : size.vector * (row + 1)]
                agrees = agreement(m, word, bits)
                total = Mux(is_kind["BINARY"], agrees, total)
            lane = Signal(signed(self.sum_bits), name=f"total_{row}")
            m.d.comb += lane.eq(total)
            m.d.sync += me.sums[self.sum_bits * row : self.sum_bits * (row + 1)].eq(lane)
        return m

    def _kept(self, m: Module, is_kind: Any, products: list[Value], row: int) -> list[Value]:
        """All products, but depthwise that of the row's own column alone."""
        kept = []
        for c, one in enumerate(products):
            if c == row:
                kept.append(one)
                continue
            found = Signal(signed(len(one)), name="kept")
            m.d.comb += found.eq(Mux(is_kind["DEPTHWISE"], 0, one))
            kept.append(found)
        return kept

    def _dual_row(
        self, m: Module, is_kind: Any, x: list[Value], w: list[Value], v: list[Value], row: int,
        mine: Value,
    ) -> tuple[Value, Value]:  # fmt: skip
        """Sums of a row of a dual core: of low or single products, and of high ones.

        wide : two pixels, two kernels, or a number of 16 bits; narrow : what they share
        """
        firsts, seconds = [], []
        kernels, halves = is_kind["DUAL_KERNEL"], is_kind["INT16"]
        for c, pixel in enumerate(x):
            byte = mine if c == row else w[c]
            low, high = pixel[:8].as_signed(), pixel[8:].as_signed()
            two_pixels = multiplier.pair(m, high, low)
            two_kernels = multiplier.pair(m, v[c], w[c])
            number = Cat(w[c], v[c]).as_signed()
            wide = multiplier.chosen(
                m, halves, number, Mux(kernels, two_kernels, two_pixels), multiplier.WIDE
            )
            narrow = multiplier.chosen(m, halves, pixel, Mux(kernels, low, byte), multiplier.NARROW)
            found = multiplier.dual_product(m, wide, narrow)
            up, down = multiplier.parted(found)
            # A single product of bytes is the low one of a pair, whose high one nobody adds.
            one = multiplier.chosen(m, halves, found, down, 32)
            off = is_kind["DEPTHWISE"] & (c != row)
            firsts.append(multiplier.chosen(m, off, Value.cast(0), one, 32))
            seconds.append(up)
        return _tree(m, firsts), _tree(m, seconds)


def _bytes(word: Value, row: int, columns: int) -> list[Value]:
    first = 8 * columns * row
    return [word[first + 8 * c : first + 8 * c + 8].as_signed() for c in range(columns)]


def _tree(m: Module, values: list[Value]) -> Value:
    """The sum of signed numbers, two by two."""
    while len(values) > 1:
        sums = []
        for one, other in zip(values[::2], values[1::2], strict=True):
            found = Signal(signed(max(len(one), len(other)) + 1), name="sum")
            m.d.comb += found.eq(one + other)
            sums.append(found)
        values = sums
    return values[0]
