"""Binary numbers, +1 and -1: their storage in cores, and their computation from sums; and levels.

In memory 1 represents +1 and 0 represents -1. A vector holds one bit per channel, for as many
channels as it has bits (128); channel c is bit c mod 128. Bits after the last channel are 0 in
feature maps and in weights, so that each counts as a product of +1. Models define levels of few
bits by Quant, BipolarQuant and Trunc of QONNX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.compiler.ir.requantisation import Int64
from mapper.errors import MapperError

Floats = NDArray[np.float64]
LEAST, INT32_MOST = -(1 << 31), (1 << 31) - 1  # range of an accumulator
TOLERANCE = 1e-4  # relative tolerance for the magnitudes in a binary kernel


def signs(values: ArrayLike, zero_point: int = 0) -> Int64:
    """Return +1 for numbers that are at least zero (`zero_point`), else -1."""
    return np.where(np.asarray(values) >= zero_point, 1, -1).astype(np.int64)


def packed(values: NDArray[Any], vector: int) -> NDArray[np.uint8]:
    """Pack +1 and -1, shape (..., channels), into vectors of `vector` bytes.

    Returns shape (..., vectors, bytes); padding bits of the last vector are 0.
    """
    channels, width = values.shape[-1], 8 * vector
    vectors = -(-channels // width)
    bits = np.zeros((*values.shape[:-1], vectors * width), bool)
    bits[..., :channels] = values > 0
    made = np.packbits(bits.reshape(*values.shape[:-1], vectors, width), -1, "little")
    return np.asarray(made, np.uint8)


def unpacked(vectors: NDArray[Any], channels: int) -> Int64:
    """Return +1 and -1, shape (..., channels), from packed shape (..., vectors, bytes)."""
    bits = np.unpackbits(vectors.view(np.uint8), axis=-1, bitorder="little")
    whole = bits.reshape(*vectors.shape[:-2], -1)[..., :channels]
    return 2 * whole.astype(np.int64) - 1


def unused_bits(kernel: tuple[int, int], channels: int, vector: int) -> int:
    """Return the contribution of the unused bits of a kernel to its sums, +1 each.

    kernel : rows, columns; vector : bytes per vector
    """
    width = 8 * vector
    return kernel[0] * kernel[1] * (-channels % width)


class Thresholds(NamedTuple):
    """Thresholds per channel: the bit is (sum >= least), or (sum < least) if `flip` is 1.

    least, flip : int64, shape (channels,)
    """

    least: Int64
    flip: Int64

    def bits(self, sums: ArrayLike) -> Int64:
        """Return +1 and -1 from sums, shape (..., channels)."""
        above = np.asarray(sums, np.int64) >= self.least
        return signs(np.where(above != (self.flip == 1), 0, -1))


Steps = Sequence[tuple[Floats, Floats]]
"""Pairs of factors and offsets, shape (channels,) each, applied in sequence."""


def steps_of(node: Any) -> list[tuple[Floats, Floats]]:
    """Return the pairs of factors and offsets before a sign: the constant inputs of its node."""
    values = [np.asarray(tensor.value, np.float64) for tensor in node.inputs[1:]]
    return list(zip(values[::2], values[1::2], strict=True))


def applied(steps: Steps, sums: ArrayLike) -> Floats:
    """Return the real numbers of sums, shape (..., channels), in float64."""
    found = np.asarray(sums, np.float64)
    for factor, offset in steps:
        found = found * factor + offset
    return found


def thresholds(steps: Steps, where: str) -> Thresholds:
    """Return the thresholds at which the sign of the real number of an integer sum changes.

    steps : conversion of a sum to the real number: scale of the sums, bias, batch normalisation
    Verified at the threshold and at its neighbours. Raises `MapperError` with the layer and the
    channel if a factor is not finite or if there is no exact threshold.
    """
    factor, zero = math.prod(one[0] for one in steps), np.zeros(())
    with np.errstate(all="ignore"):
        for by, offset in reversed(steps):
            zero = (zero - offset) / by
        constant = applied(steps, 0)
    factor, constant = np.broadcast_arrays(np.asarray(factor, np.float64), constant)
    if not (np.isfinite(factor).all() and np.isfinite(constant).all()):
        raise MapperError(f"{where}: factors before its signs are not finite; check the model")
    rising, flat = factor > 0, factor == 0
    zero = np.where(flat, 0.0, zero)
    least = np.where(rising, np.ceil(zero), np.floor(zero) + 1)
    # a constant has the same sign for all sums
    least = np.where(flat, float(LEAST), np.clip(least, LEAST, INT32_MOST)).astype(np.int64)
    flip = np.where(flat, constant < 0, ~rising).astype(np.int64)
    inside = ~flat & (least > LEAST + 2) & (least < INT32_MOST - 2)
    settled = np.zeros(least.shape, bool)
    best = least
    for step in (0, -1, 1, -2, 2):  # rounding in float64 may shift the threshold
        tried = Thresholds(least + step, flip)
        agrees = np.ones(least.shape, bool)
        for beside in (-1, 0, 1):
            at = tried.least + beside
            agrees &= tried.bits(at) == signs(applied(steps, at))
        best = np.where(agrees & ~settled, tried.least, best)
        settled |= agrees
    wrong = inside & ~settled
    if wrong.any():
        raise MapperError(
            f"{where}: no exact integer threshold for the sign of channel "
            f"{int(np.argmax(wrong))}; check its factors"
        )
    return Thresholds(np.where(inside, best, least), flip)


def kernel_signs(weights: NDArray[Any]) -> tuple[Int64, Floats] | None:
    """Return binary weights as +1 and -1 with the magnitude per kernel; None if not binary.

    weights : shape (outputs, ...), with constant magnitude over each kernel; all-zero kernels
        become +1 with magnitude 0
    """
    flat = np.abs(np.asarray(weights, np.float64).reshape(weights.shape[0], -1))
    least, most = flat.min(1), flat.max(1)
    if not np.isfinite(most).all() or (most - least > TOLERANCE * most).any():
        return None
    return signs(weights), flat.mean(1)


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
