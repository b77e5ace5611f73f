"""Reference implementation of ONNX operators on stored integers, in loops and integer arithmetic.

It has no type offsets, no biases that include zero points, and no 24-bit multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class How(NamedTuple):
    """Scale, zero point and type of stored integers."""

    scale: np.float32
    zero: int
    kind: str

    @property
    def ends(self) -> tuple[int, int]:
        info = np.iinfo(self.kind)
        return int(info.min), int(info.max)


def quantised(values: Any, how: How) -> Array:
    steps = np.rint(np.asarray(values, np.float32) / how.scale) + how.zero
    return np.clip(steps, *how.ends).astype(how.kind)


def dequantised(stored: Array, how: How) -> Array:
    return (stored.astype(np.int32) - how.zero).astype(np.float32) * how.scale


def scaled(sums: Array, factor: Any, how: How) -> Array:
    """Return sums of fewer than 29 bits times a float32 factor: float64 holds the products."""
    steps = np.rint(sums.astype(np.float64) * np.asarray(factor, np.float64)) + how.zero
    return np.clip(steps, *how.ends).astype(how.kind)


def conv(
    x: Array, w: Array, bias: Array | None = None, pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1), dilations: Sequence[int] = (1, 1), group: int = 1,
) -> Array:  # fmt: skip
    """Return the sums of x and w minus their zero points, shape (1, outputs, rows, columns)."""
    outputs, share, kh, kw = w.shape
    top, left, bottom, right = pads
    height, width = x.shape[2:]
    rows = (height + top + bottom - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (width + left + right - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    made = np.zeros((1, outputs, rows, columns), np.int64)
    for o, r, c, ky, kx in np.ndindex(outputs, rows, columns, kh, kw):
        y = r * strides[0] + ky * dilations[0] - top
        z = c * strides[1] + kx * dilations[1] - left
        if 0 <= y < height and 0 <= z < width:
            first = o // (outputs // group) * share
            made[0, o, r, c] += int(x[0, first : first + share, y, z] @ w[o, :, ky, kx])
    return made if bias is None else made + bias.astype(np.int64).reshape(1, -1, 1, 1)


def pooled(
    x: Array, kernel: Sequence[int], pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
) -> list[tuple[tuple[int, int, int], Array]]:  # fmt: skip
    """Return the values under each window, by channel, row and column."""
    top, left, bottom, right = pads
    height, width = x.shape[2:]
    rows = (height + top + bottom - kernel[0]) // strides[0] + 1
    columns = (width + left + right - kernel[1]) // strides[1] + 1
    found = []
    for c, r, col in np.ndindex(x.shape[1], rows, columns):
        y, z = r * strides[0] - top, col * strides[1] - left
        part = x[0, c, max(y, 0) : y + kernel[0], max(z, 0) : z + kernel[1]]
        found.append(((c, r, col), part.reshape(-1).astype(np.int64)))
    return found
