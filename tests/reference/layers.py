"""Reference implementation of layers: {(output, input): weight}, by loops over every element."""

from __future__ import annotations

from itertools import product
from typing import Any

from storage.formats.layers.linear import WindowPositions

Entries = dict[tuple[int, int], float]


def flat(place: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Return the row-major number of a place."""
    number = 0
    for index, size in zip(place, shape, strict=True):
        number = number * size + index
    return number


def window_count(w: WindowPositions) -> tuple[int, ...]:
    """Count windows by sliding: windows that fit whole.

    With `ceil` the last window may exceed the input by less than a stride, but must start inside
    it.
    """
    counts = []
    for axis, size in enumerate(w.size):
        extent = w.dilation[axis] * (w.kernel[axis] - 1) + 1
        end = size + w.after[axis] + (w.stride[axis] - 1 if w.ceil else 0)
        starts = [-w.before[axis]]
        while starts[-1] + w.stride[axis] + extent <= end:
            starts.append(starts[-1] + w.stride[axis])
        if w.ceil and starts[-1] >= size:
            starts.pop()
        counts.append(len(starts))
    return tuple(counts)


def covered(
    w: WindowPositions, place: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return (place in the kernel, place in the input) of all existing inputs of a window."""
    found = []
    for offset in product(*(range(k) for k in w.kernel)):
        at = tuple(
            p * s - b + d * o
            for p, s, b, d, o in zip(place, w.stride, w.before, w.dilation, offset, strict=True)
        )
        if all(0 <= a < size for a, size in zip(at, w.size, strict=True)):
            found.append((offset, at))
    return found


def convolution(weight: Any, w: WindowPositions, groups: int) -> Entries:
    """weight : array, shape (out, channels / groups, *kernel)"""
    out, channels = weight.shape[:2]
    count, entries = window_count(w), {}
    for o in range(out):
        group = o // (out // groups)
        for place in product(*(range(n) for n in count)):
            row = flat((o, *place), (out, *count))
            for c in range(channels):
                for offset, at in covered(w, place):
                    column = flat((group * channels + c, *at), (channels * groups, *w.size))
                    entries[row, column] = float(weight[(o, c, *offset)])
    return entries


def pooling(channels: int, w: WindowPositions, mean: str) -> Entries:
    count, entries = window_count(w), {}
    for c in range(channels):
        for place in product(*(range(n) for n in count)):
            row = flat((c, *place), (channels, *count))
            pairs = covered(w, place)
            whole = 1
            for k in w.kernel:
                whole *= k
            value = {"": 1.0, "kernel": 1 / whole, "inside": 1 / max(len(pairs), 1)}[mean]
            for _, at in pairs:
                entries[row, flat((c, *at), (channels, *w.size))] = value
    return entries


def composed(second: Entries, first: Entries) -> Entries:
    """Return the product: outputs of `second`, inputs of `first`; sums of zero are kept."""
    found: Entries = {}
    for (row, middle), outer in second.items():
        for (other, column), inner in first.items():
            if middle == other:
                found[row, column] = found.get((row, column), 0.0) + outer * inner
    return found
