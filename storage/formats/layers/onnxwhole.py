"""Operators of integer networks by ONNX operators, as Deeploy and quantlib define them.

Such networks (domain PACTOps) compute with whole numbers in floating point. Here float64 holds
them, which is exact below 2^53: all quotients of such numbers round to the right whole number.

    RequantShift   clip(floor((x mul + add) / div + 1/2))
    iLayerNorm     clip(floor((trunc(d weight / s) + bias) / D)) of d = x - trunc(mean(x)),
                   s = floor(sqrt(floor(mean(d^2)) + 1)); means over the last axis
    ITAMax         floor(floor(L (L - 1) / sum(L / 2^k)) / 2^k), k = floor((max(x) - x + 16) / 32),
                   L = 256; sum and maximum over the last axis (Islam et al., 2023)
    iGELU          x floor((one + sign(x) (one - (min(|x|, -b) + b)^2)) / 2) (Kim et al., 2021)
    IntegerMean    mean, rounded to the nearest: halves up for 2^k numbers, else away from zero
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from storage.formats.layers.onnxexpanded import Expanded, version_of

LEVELS = 256
"""Levels of ITAMax, whose shifts are whole for this number only."""


class _Whole:
    """Arithmetic of whole numbers in float64, as nodes."""

    def __init__(self, expanded: Expanded) -> None:
        from onnx import TensorProto

        self.e, self._types = expanded, TensorProto
        self.x = self.real(expanded.proto.input[0])

    def real(self, value: str) -> str:
        return self.e.node("Cast", value, to=self._types.DOUBLE)

    def number(self, value: Any) -> str:
        return self.e.constant(np.asarray(value, np.float64))

    def floor_of(self, a: str, b: str) -> str:
        """Add floor(a / b)."""
        return self.e.node("Floor", self.e.node("Div", a, b))

    def trunc_of(self, a: str, b: str) -> str:
        """Add a / b, rounded to zero: Sign is missing in old opsets."""
        value, zero = self.e.node("Div", a, b), self.number(0)
        above = self.e.node("Floor", self.e.node("Max", value, zero))
        below = self.e.node("Floor", self.e.node("Max", self.e.node("Neg", value), zero))
        return self.e.node("Sub", above, below)

    def clipped(self, value: str, low: float, high: float) -> str:
        return self.e.node("Min", self.e.node("Max", value, self.number(low)), self.number(high))

    def sum(self, value: str, axes: Sequence[int], keepdims: int = 1) -> str:
        return self.e.reduced("ReduceSum", value, axes, keepdims)

    def count(self, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add the number of elements of x along axes."""
        ones = self.e.node("Add", self.e.node("Mul", self.x, self.number(0)), self.number(1))
        return self.sum(ones, axes, keepdims)

    def end(self, value: str) -> None:
        self.e.node("Cast", value, to=self._types.FLOAT, output=self.e.proto.output[0])


def _requant_shift(e: Expanded) -> None:
    w = _Whole(e)
    levels = e.number("n_levels_out")
    low = -(levels // 2) if e.number("signed") else 0.0
    factor, offset = (w.real(e.proto.input[at]) for at in (1, 2))
    value = e.node("Add", e.node("Mul", w.x, factor), offset)
    value = e.node("Div", value, w.number(e.number("div")))
    value = e.node("Floor", e.node("Add", value, w.number(0.5)))
    w.end(w.clipped(value, low, low + levels - 1))


def _layer_norm(e: Expanded) -> None:
    w = _Whole(e)
    levels = e.number("n_levels")
    weight, bias = (w.real(e.proto.input[at]) for at in (1, 2))
    count = w.count([-1])
    less = e.node("Sub", w.x, w.trunc_of(w.sum(w.x, [-1]), count))
    variance = w.floor_of(w.sum(e.node("Mul", less, less), [-1]), count)
    deviation = e.node("Floor", e.node("Sqrt", e.node("Add", variance, w.number(1))))
    value = e.node("Add", w.trunc_of(e.node("Mul", less, weight), deviation), bias)
    value = w.floor_of(value, w.number(e.number("D")))
    w.end(w.clipped(value, -(levels // 2), levels // 2 - 1))


def _ita_max(e: Expanded) -> None:
    w = _Whole(e)
    if e.number("n_levels") != LEVELS:
        raise KeyError("n_levels")
    most = w.real(e.reduced("ReduceMax", e.proto.input[0], [-1]))
    less = e.node("Add", e.node("Sub", most, w.x), w.number(16))
    power = e.node("Pow", w.number(2), w.floor_of(less, w.number(32)))
    total = w.sum(w.floor_of(w.number(LEVELS), power), [-1])
    w.end(w.floor_of(w.floor_of(w.number(LEVELS * (LEVELS - 1)), total), power))


def _gelu(e: Expanded) -> None:
    w = _Whole(e)
    b, one = e.number("b"), w.number(e.number("one"))
    near = e.node("Add", e.node("Min", e.node("Abs", w.x), w.number(-b)), w.number(b))
    error = e.node("Sub", one, e.node("Mul", near, near))
    error = e.node("Mul", w.clipped(w.x, -1, 1), error)
    half = w.floor_of(e.node("Add", one, error), w.number(2))
    w.end(e.node("Mul", w.x, half))


def _mean(e: Expanded) -> None:
    w = _Whole(e)
    axes, keep = e.attributes["axes"], int(e.attributes.get("keepdims", 1))
    total, count = w.sum(w.x, axes, keep), w.count(axes, keep)
    twice = e.node("Mul", count, w.number(2))
    doubled = e.node("Mul", total, w.number(2))
    up = w.floor_of(e.node("Add", doubled, count), twice)
    away = e.node(
        "Mul",
        w.clipped(total, -1, 1),
        w.floor_of(e.node("Add", e.node("Abs", doubled), count), twice),
    )
    # 2^k divides the large power of two without a rest
    parts = e.node("Div", w.number(2.0**52), count)
    rest = e.node("Sub", parts, e.node("Floor", parts))
    other = e.node("Ceil", rest)  # 1 for other counts
    w.end(e.node("Add", up, e.node("Mul", other, e.node("Sub", away, up))))


WHOLE: dict[str, Callable[[Expanded], None]] = {
    "RequantShift": _requant_shift,
    "iLayerNorm": _layer_norm,
    "ITAMax": _ita_max,
    "iGELU": _gelu,
    "IntegerMean": _mean,
}
"""Adds the nodes of an operator, by its name; raises `KeyError` if its integers are undefined."""


def expanded(proto: Any, opsets: Iterable[tuple[str, int]]) -> Expanded | None:
    """Return a node of an integer network as ONNX nodes with constants; None for other nodes.

    opsets : domains and versions of the operators of the model
    """
    if proto.op_type not in WHOLE:
        return None
    made = Expanded(proto, {}, f"{proto.output[0]}.whole", version_of(opsets))
    try:
        WHOLE[proto.op_type](made)
    except KeyError:
        return None
    return made
