"""Quantisation levels defined by a model: Quant, BipolarQuant and Trunc of QONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.compiler.ir.requantisation import Int64
from mapper.compiler.numerics.binary import Steps, applied, signs, steps_of
from mapper.errors import MapperError

ROUNDED = {"even": np.rint, "floor": np.floor}


def levels_of(values: ArrayLike, steps: Steps, how: Any) -> Int64:
    """Return the stored integers of real numbers, to which `steps` are applied first, in float64.

    how : a `Levels`
    """
    found = ROUNDED[how.rounding](applied(steps, values) / how.divisor)
    low, high = how.stored_low - how.stored_zero, how.stored_high - how.stored_zero
    return np.clip(found, low, high).astype(np.int64) + how.stored_zero


def stored_input(node: Any, values: ArrayLike) -> Int64:
    """Return signs or levels that the host stores for real numbers. node : a `Sign` or `Levels`"""
    steps = steps_of(node)
    if node.operator.name == "sign":
        return signs(applied(steps, values))
    return levels_of(values, steps, node.operator)


def quant(
    x: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any], bits: float,
    kind: tuple[bool, bool], rounding: str,
) -> NDArray[np.float32]:  # fmt: skip
    """Compute Quant of QONNX; kind : signed, narrow"""
    low, high = ends(bits, *kind)
    whole = np.clip(x / scale.astype(np.float64) + zero, low, high)
    return np.asarray((_rounder(rounding)(whole) - zero) * scale, np.float32)


def bipolar(x: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.float32]:
    """Compute BipolarQuant of QONNX; zero becomes +1."""
    return np.asarray(signs(x) * scale, np.float32)


def trunc(
    x: NDArray[Any], scale: NDArray[Any], zero: NDArray[Any], bits: tuple[float, float],
    rounding: str,
) -> NDArray[np.float32]:  # fmt: skip
    """Compute Trunc of QONNX, which removes the lowest bits. bits : before, after"""
    whole = np.rint(x / scale.astype(np.float64) + zero)
    cut = _rounder(rounding)(whole / 2.0 ** (bits[0] - bits[1]))
    return np.asarray((cut - zero) * scale, np.float32)


def ends(bits: float, signed: bool, narrow: bool) -> tuple[float, float]:
    """Return the range of integers with some bits; narrow ranges have one level less."""
    if signed:
        return -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1 - narrow


def _rounder(name: str) -> Any:
    found = {"ROUND": np.rint, "HALF_EVEN": np.rint, "FLOOR": np.floor, "CEIL": np.ceil,
             "ROUND_TO_ZERO": np.trunc, "DOWN": np.trunc}.get(name.upper())  # fmt: skip
    if found is None:
        raise MapperError(f"rounding_mode is {name!r}; use ROUND, FLOOR, CEIL or ROUND_TO_ZERO")
    return found
