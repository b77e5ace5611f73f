"""Check scales and constants as models store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.tensor import Type
from mapper.errors import MapperError

OFFSET = {np.dtype(np.uint8): 128, np.dtype(np.uint16): 1 << 15}
MOST_STEPS = 2.0**53  # above this, float64 does not hold all integers
STORED: dict[np.dtype[Any], Type] = {
    np.dtype(np.int8): "int8", np.dtype(np.uint8): "int8",
    np.dtype(np.int16): "int16", np.dtype(np.uint16): "int16",
}  # fmt: skip


WIDE_WEIGHTS = "its weights minus their zero point exceed 8 bits"


def is_wide(weights: NDArray[Any]) -> bool:
    """Return whether integer weights, minus their zero points, exceed 8 bits."""
    return bool(weights.min(initial=0) < -128 or weights.max(initial=0) > 127)


class Scale(NamedTuple):
    """Scale, zero point and storage type of a stored map."""

    scale: float
    zero_point: int
    type: Type


def scales_of(scale: Any, zero_point: Any, size: int | None = None) -> NDArray[np.float32]:
    """Return the checked scales of a constant; size : channels that may each have a scale, or
    None."""
    if isinstance(scale, View) or isinstance(zero_point, View):
        raise MapperError("its scale or zero point is computed; export it with constants")
    found = np.asarray(scale, np.float32).reshape(-1)
    if found.size not in (1, size):
        raise MapperError(
            f"has {found.size} scales; give one" + (f", or {size}, one per channel" if size else "")
        )
    if not np.isfinite(found).all() or (found <= 0).any():
        wrong = found[~(np.isfinite(found) & (found > 0))][0]
        raise MapperError(f"its scale is {wrong:g}; scales are larger than 0")
    if zero_point is not None and np.size(zero_point) not in (1, found.size):
        raise MapperError(f"has {found.size} scales and {np.size(zero_point)} zero points")
    return found


def scale_of(scale: Any, zero_point: Any) -> Scale:
    """Return the scale of a quantised map; the type of the zero point is the type of the integers.

    Raises `MapperError` for types that cores cannot store.
    """
    (found,) = scales_of(scale, zero_point).tolist()
    zero = np.zeros((), np.uint8) if zero_point is None else np.asarray(zero_point)
    if zero.dtype not in STORED:
        raise MapperError(f"stores {zero.dtype}; cores store 8 or 16 bits")
    return Scale(found, int(zero.reshape(())) - OFFSET.get(zero.dtype, 0), STORED[zero.dtype])


class Stored(NamedTuple):
    """A constant as the model stores it: integers, scales, zero points and their axis."""

    values: NDArray[Any]
    scale: NDArray[np.float32]
    zero_point: NDArray[Any] = np.zeros((), np.int64)
    axis: int = 0


def stored_constant(inputs: Sequence[Any], axis: int) -> Stored:
    """Return the constant of a DequantizeLinear; the axis is used if there are several scales."""
    values, scale, *rest = inputs
    zero_point = rest[0] if rest and rest[0] is not None else np.zeros((), np.int64)
    if np.size(scale) > 1 and not -values.ndim <= axis < values.ndim:
        raise MapperError(f"its axis is {axis}; the constant has {values.ndim} axes")
    axis = axis % values.ndim if np.size(scale) > 1 else 0
    size = values.shape[axis] if values.ndim else None
    return Stored(values, scales_of(scale, zero_point, size), np.asarray(zero_point), axis)


def steps_of(bias: NDArray[Any], unit: NDArray[np.float32], label: str) -> NDArray[np.float64]:
    """Return a real bias in steps of its scales; raise `MapperError` if it has too many."""
    with np.errstate(divide="ignore", invalid="ignore"):  # the product of two small scales may be 0
        steps: NDArray[np.float64] = bias.astype(np.float64) / unit.astype(np.float64)
    if not (np.abs(steps) < MOST_STEPS).all():
        raise MapperError(f"{label}: its scales are too small for its bias; check the scales")
    return steps
