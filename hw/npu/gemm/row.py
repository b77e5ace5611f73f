"""A row of the array: multiplies its weights by the columns and sums the products.

The row's own column, the only one in depthwise products, comes first in all of its ports; the order
of the others does not change the sum. So all rows share one module.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from hw.flow.sharing import ShapedComponent, shared
from hw.npu.gemm import multiplier
from hw.npu.gemm.popcount import COUNT_BITS, BinaryProduct
from hw.npu.shape import NpuShape, Widths

KINDS = ("INT8", "BINARY", "DUAL_PIXEL", "DUAL_KERNEL", "INT16", "DEPTHWISE")


def sum_bits(shape: NpuShape) -> int:
    """Return the bits of the sum of the products of a row."""
    product = 32 if shape.multiplier == "dual" else 16
    return product + shape.columns.bit_length() - 1


class ArrayRow(ShapedComponent):
    """Array row.

    kind : kind of the product, as in instructions
    tap : weight for depthwise products
    x : input vector
    w, v : weights of the row, and of a second word of dual cores
    sum, other : sum, a cycle later; `other` is the second sum of pairs
    """

    module_name = "npu_row"

    def __init__(self, shape: NpuShape) -> None:
        self.shape, self.size = shape, Widths(shape)
        size, bits = self.size, sum_bits(shape)
        super().__init__(
            {
                "kind": In(range(len(KINDS))),
                "tap": In(8),
                "x": In(size.lane * shape.columns),
                "w": In(size.vector),
                **({"v": In(size.vector), "other": Out(bits)} if size.dual else {}),
                "sum": Out(bits),
            }
        )

    @shared
    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        size, columns = self.size, self.shape.columns
        is_kind = {name: me.kind == code for code, name in enumerate(KINDS)}
        x = [me.x[size.lane * c : size.lane * (c + 1)].as_signed() for c in range(columns)]
        w = _bytes(me.w)
        own = multiplier.chosen(m, is_kind["DEPTHWISE"], me.tap.as_signed(), w[0], 8)
        weights = [own, *w[1:]]
        if size.dual:
            total, other = self._dual(m, is_kind, x, weights)
            m.d.sync += me.other.eq(other)
        else:
            products = [multiplier.product(m, a, b) for a, b in zip(weights, x, strict=True)]
            total = self._sum(m, is_kind, x, products)
        found = Signal(signed(sum_bits(self.shape)), name="total")
        m.d.comb += found.eq(total)
        m.d.sync += me.sum.eq(found)
        return m

    def _dual(
        self, m: Module, is_kind: dict[str, Value], x: list[Value], w: list[Value]
    ) -> tuple[Value, Value]:
        """Return the sums of a row of a dual core: of low or single products, and of high products.

        wide : two pixels, two kernels, or a 16-bit number
        narrow : the common factor
        """
        me: Any = self
        firsts, seconds = [], []
        kernels, halves = is_kind["DUAL_KERNEL"], is_kind["INT16"]
        first, others = _bytes(me.w), _bytes(me.v)
        for c, pixel in enumerate(x):
            low, high = pixel[:8].as_signed(), pixel[8:].as_signed()
            two_pixels = multiplier.pair(m, high, low)
            two_kernels = multiplier.pair(m, others[c], first[c])
            number = Cat(first[c], others[c]).as_signed()
            wide = multiplier.chosen(
                m, halves, number, Mux(kernels, two_kernels, two_pixels), multiplier.WIDE
            )
            narrow = multiplier.chosen(m, halves, pixel, Mux(kernels, low, w[c]), multiplier.NARROW)
            found = multiplier.dual_product(m, wide, narrow)
            up, down = multiplier.parted(found)
            # A single product of bytes is the low one of a pair whose high one is ignored.
            firsts.append(multiplier.chosen(m, halves, found, down, 32))
            seconds.append(up)
        return self._sum(m, is_kind, x, firsts), _tree(m, seconds)

    def _sum(
        self, m: Module, is_kind: dict[str, Value], x: list[Value], products: list[Value]
    ) -> Value:
        """Return the sum of all products; depthwise, the product of the row's own column.

        In binary mode, equal bits count 1 and different bits -1.
        """
        me: Any = self
        columns = len(x)
        binary = is_kind["BINARY"] if self.shape.binary else Const(0)
        others = Signal()
        m.d.comb += others.eq(is_kind["DEPTHWISE"] | binary)
        gone = [binary, *[others] * (columns - 1)]
        if not self.shape.binary:
            return _tree(m, _instead(m, gone, products, [Const(0)] * columns))
        m.submodules.binary = unit = BinaryProduct(columns)
        b: Any = unit
        m.d.comb += [b.one.eq(me.w), b.other.eq(Cat(*(each[:8] for each in x)))]
        counts = b.agreement & binary.replicate(len(b.agreement))
        parts = [counts[COUNT_BITS * number :][:COUNT_BITS] for number in range(columns)]
        total = _tree(m, _instead(m, gone, products, parts))
        # Twice the number of equal bits minus all bits: at most 9 bits.
        half = (8 * columns).bit_length() - 1
        found = Signal(signed(len(total)), name="with_bits")
        upper = total[half:]
        less = Cat(~total[half], (~upper.any()).replicate(len(total) - half - 1))
        m.d.comb += found.eq(Cat(total[:half], Mux(binary, less, upper)))
        return found


def _instead(
    m: Module, gone: list[Value], products: list[Value], counts: list[Value]
) -> list[Value]:
    """Return the products, replaced by twice a count where `gone`."""
    found = []
    for away, product, count in zip(gone, products, counts, strict=True):
        one = Signal(signed(len(product)), name="kept")
        m.d.comb += one.eq(Mux(away, count << 1, product))
        found.append(one)
    return found


def _bytes(weights: Value) -> list[Value]:
    return [weights[first : first + 8].as_signed() for first in range(0, len(weights), 8)]


def _tree(m: Module, values: list[Value]) -> Value:
    """Return the sum of signed numbers by a binary tree."""
    while len(values) > 1:
        sums = []
        for one, other in zip(values[::2], values[1::2], strict=True):
            found = Signal(signed(max(len(one), len(other)) + 1), name="sum")
            m.d.comb += found.eq(one + other)
            sums.append(found)
        values = sums
    return values[0]
