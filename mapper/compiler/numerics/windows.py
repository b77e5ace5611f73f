"""Sliding windows, im2col and convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mapper.compiler.ir.node import Conv, Operator, Window

MOST_NUMBERS = 1 << 24  # maximum elements of windows per matrix product


def kernel_of(operator: Operator, weights: NDArray[Any]) -> tuple[Window, int]:
    """Return the window and the groups of a layer with weights."""
    if isinstance(operator, Conv):
        return operator.window, operator.groups
    return Window((weights.shape[1], weights.shape[2])), 1  # dense: it covers the whole map


def padded(maps: NDArray[Any], window: Window, value: float) -> NDArray[Any]:
    """Return maps, shape (frames, rows, columns, channels), padded with a constant."""
    pad = window.pad
    if not any(pad):
        return maps
    around = ((0, 0), (pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
    return np.pad(maps, around, constant_values=value)


def windows(maps: NDArray[Any], window: Window, value: float) -> NDArray[Any]:
    """Return a view of shape (frames, rows, columns, channels, kernel rows, kernel columns).

    value : value of padding
    """
    (sh, sw), (dh, dw) = window.stride, window.dilation
    found = sliding_window_view(padded(maps, window, value), window.reach, axis=(1, 2))
    return found[:, ::sh, ::sw, :, ::dh, ::dw]


def pixels_of_windows(maps: NDArray[Any], window: Window, value: float) -> NDArray[Any]:
    """Return the pixels of each window as channels: kernel rows, kernel columns, channels."""
    found = windows(maps, window, value)
    frames, rows, columns = found.shape[:3]
    return found.transpose(0, 1, 2, 4, 5, 3).reshape(frames, rows, columns, -1)


GROUP = 4
"""Channels that the window unit processes together."""


def columns_of_windows(maps: NDArray[Any], window: Window, value: int) -> NDArray[Any]:
    """Return the pixels of each window as channels: group of four channels, kernel rows, kernel
    columns, channel in the group. Padding channels of the last group hold the value of padding."""
    more = -maps.shape[3] % GROUP
    whole = np.pad(maps, ((0, 0), (0, 0), (0, 0), (0, more)), constant_values=value)
    found = windows(whole, window, value)
    frames, rows, columns, channels = found.shape[:4]
    grouped = found.reshape(frames, rows, columns, channels // GROUP, GROUP, *window.size)
    return grouped.transpose(0, 1, 2, 3, 5, 6, 4).reshape(frames, rows, columns, -1)


def columns_of_kernels(weights: NDArray[Any]) -> NDArray[Any]:
    """Return kernels (outputs, rows, columns, inputs) in that order, shape (outputs, 1, 1, all)."""
    more = -weights.shape[3] % GROUP
    whole = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, more)))
    outputs, kh, kw, channels = whole.shape
    grouped = whole.reshape(outputs, kh, kw, channels // GROUP, GROUP)
    return grouped.transpose(0, 3, 1, 2, 4).reshape(outputs, 1, 1, -1)


def convolve(
    maps: NDArray[Any], weights: NDArray[Any], window: Window, groups: int, value: float
) -> NDArray[Any]:
    """Return sums of products, shape (frames, rows, columns, outputs), in the type of the maps.

    weights : shape (outputs, kernel rows, kernel columns, inputs / groups)
    """
    found = windows(maps, window, value).transpose(0, 1, 2, 4, 5, 3)  # channels innermost
    frames, rows, columns, kh, kw, channels = found.shape
    share, outputs = channels // groups, weights.shape[0] // groups
    made = np.empty((frames, rows, columns, weights.shape[0]), maps.dtype)
    if share == 1:
        _each_channel(found, weights, made)
        return made
    step = max(MOST_NUMBERS // max(rows * columns * share * kh * kw, 1), 1)
    for group in range(groups):
        kernels = weights[group * outputs : (group + 1) * outputs]
        matrix = kernels.reshape(outputs, -1).T.astype(maps.dtype)
        for at in range(0, frames, step):
            taken = found[at : at + step, ..., group * share : (group + 1) * share]
            pixels_of_some = taken.reshape(-1, matrix.shape[0])
            made[at : at + step, ..., group * outputs : (group + 1) * outputs] = (
                pixels_of_some @ matrix
            ).reshape(-1, rows, columns, outputs)
    return made


def _each_channel(found: NDArray[Any], weights: NDArray[Any], made: NDArray[Any]) -> None:
    """Compute the sums of single-channel groups, one kernel position at a time.

    found : shape (frames, rows, columns, kernel rows, kernel columns, channels)
    """
    kh, kw, channels = found.shape[3:]
    kernels = weights.reshape(channels, -1, kh, kw).transpose(2, 3, 0, 1).astype(made.dtype)
    for sums, maps in zip(made, found, strict=True):  # per frame, so that sums stay in caches
        split = sums.reshape(*sums.shape[:2], channels, -1)
        split[:] = 0
        for ky in range(kh):
            for kx in range(kw):
                split += maps[:, :, ky, kx, :, None] * kernels[ky, kx]


def pixels(height: int, width: int, window: Window) -> NDArray[np.int64]:
    """Return the number of pixels inside the map per window, shape (rows, columns)."""
    ones = np.ones((1, height, width, 1), np.int64)
    return windows(ones, window, 0)[0, :, :, 0].sum((2, 3))
