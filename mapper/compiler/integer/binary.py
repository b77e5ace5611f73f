"""Numbers of one bit: +1 and -1, as the cores store them, and as sums become them.

In memory 1 is +1 and 0 is -1. A vector holds one bit of each of so many channels as its bytes have
bits (128); channel c is bit c mod 128. Bits behind the last channel are 0 in maps and in weights,
so that each counts as a product of +1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.errors import MapperError

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]
LEAST, MOST = -(1 << 31), (1 << 31) - 1  # of an accumulator
TOLERANCE = 1e-4  # relative, of the magnitudes of a binary kernel


def signs(values: ArrayLike, zero_point: int = 0) -> Int64:
    """+1 where a number is at least zero, which is +1 itself, else -1."""
    return np.where(np.asarray(values) >= zero_point, 1, -1).astype(np.int64)


def packed(values: NDArray[Any], vector: int) -> NDArray[np.uint8]:
    """+1 and -1 of channels, shape (..., channels), as vectors of so many bytes.

    Shape (..., vectors, bytes); channels that fill the last vector are 0.
    """
    channels, width = values.shape[-1], 8 * vector
    vectors = -(-channels // width)
    bits = np.zeros((*values.shape[:-1], vectors * width), bool)
    bits[..., :channels] = values > 0
    made = np.packbits(bits.reshape(*values.shape[:-1], vectors, width), -1, "little")
    return np.asarray(made, np.uint8)


def unpacked(vectors: NDArray[Any], channels: int) -> Int64:
    """Undoes `packed`: shape (..., vectors, bytes) as +1 and -1, shape (..., channels)."""
    bits = np.unpackbits(vectors.view(np.uint8), axis=-1, bitorder="little")
    whole = bits.reshape(*vectors.shape[:-2], -1)[..., :channels]
    return 2 * whole.astype(np.int64) - 1


def unused_bits(kernel: tuple[int, int], channels: int, vector: int) -> int:
    """By how much the unused bits of a kernel, of which each counts +1, raise its sums.

    kernel : rows, columns; vector : bytes
    """
    width = 8 * vector
    return kernel[0] * kernel[1] * (-channels % width)


class Thresholds(NamedTuple):
    """Of each channel: the bit is (sum >= least) unless `flip` is 1, then (sum < least).

    least, flip : int64, shape (channels,)
    """

    least: Int64
    flip: Int64

    def bits(self, sums: ArrayLike) -> Int64:
        """+1 and -1 of sums, shape (..., channels)."""
        above = np.asarray(sums, np.int64) >= self.least
        return signs(np.where(above != (self.flip == 1), 0, -1))


Steps = Sequence[tuple[Floats, Floats]]
"""Factors and offsets, shape (channels,) each, one applied behind the other."""


def steps_of(node: Any) -> list[tuple[Floats, Floats]]:
    """Factors and offsets before a sign, which its node takes behind its map, in pairs."""
    values = [np.asarray(tensor.value, np.float64) for tensor in node.inputs[1:]]
    return list(zip(values[::2], values[1::2], strict=True))


def applied(steps: Steps, sums: ArrayLike) -> Floats:
    """The real number behind sums, shape (..., channels), in float64."""
    found = np.asarray(sums, np.float64)
    for factor, offset in steps:
        found = found * factor + offset
    return found


def thresholds(steps: Steps, where: str) -> Thresholds:
    """Where the sign of a real number behind whole sums changes, by channel.

    steps : from a sum to the real number: scale of the sums, bias, batch normalisation
    Checked against the real number at the threshold, and one below and above. Raises `MapperError`
    that names the layer and the channel if it is not finite or cannot be told there.
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
    # a constant has one sign, whatever the sum is
    least = np.where(flat, float(LEAST), np.clip(least, LEAST, MOST)).astype(np.int64)
    flip = np.where(flat, constant < 0, ~rising).astype(np.int64)
    inside = ~flat & (least > LEAST + 2) & (least < MOST - 2)
    settled = np.zeros(least.shape, bool)
    best = least
    for step in (0, -1, 1, -2, 2):  # float64 may round the zero to the wrong side
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
            f"{where}: the sign of channel {int(np.argmax(wrong))} changes at no whole sum that "
            "can be told; check its factors"
        )
    return Thresholds(np.where(inside, best, least), flip)


def kernel_signs(weights: NDArray[Any]) -> tuple[Int64, Floats] | None:
    """Binary weights as +1 and -1, and the magnitude of each kernel; None if they are not binary.

    weights : shape (outputs, ...), whose magnitude must be constant over each kernel; kernels of
        zeros are +1 with magnitude 0
    """
    flat = np.abs(np.asarray(weights, np.float64).reshape(weights.shape[0], -1))
    least, most = flat.min(1), flat.max(1)
    if not np.isfinite(most).all() or (most - least > TOLERANCE * most).any():
        return None
    return signs(weights), flat.mean(1)
