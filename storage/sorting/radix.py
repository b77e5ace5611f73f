"""Least-significant-digit radix sort of 64-bit keys (numba), alone or with 64-bit values."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

DIGIT = 11  # bits per pass: 2048 counters and write cursors fit in the L1 cache


@njit(cache=True, nogil=True)
def _sort_pass(keys, values, out_keys, out_values, shift, mask):
    """Do one stable counting sort by a digit; return whether all keys share it (no move)."""
    counts = np.zeros(mask + 2, np.int64)
    for i in range(keys.size):
        counts[((keys[i] >> shift) & mask) + 1] += 1
    for digit in range(1, mask + 2):
        if counts[digit] == keys.size:
            return True
    for digit in range(mask + 1):
        counts[digit + 1] += counts[digit]
    for i in range(keys.size):
        digit = (keys[i] >> shift) & mask
        at = counts[digit]
        counts[digit] = at + 1
        out_keys[at] = keys[i]
        out_values[at] = values[i]
    return False


def sort_pairs(
    keys: NDArray[np.int64], values: NDArray[np.int64], low_bit: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both arrays in increasing order of the keys, stable. Inputs may be overwritten.

    keys : ndarray[int64], not negative; bits below `low_bit` are ignored
    values : ndarray[int64], same shape
    """
    bits = int(keys.max()).bit_length() if keys.size else 0
    spare_keys, spare_values = np.empty_like(keys), np.empty_like(values)
    for shift in range(low_bit, bits, DIGIT):
        if not _sort_pass(keys, values, spare_keys, spare_values, shift, (1 << DIGIT) - 1):
            keys, spare_keys = spare_keys, keys
            values, spare_values = spare_values, values
    return keys, values


@njit(cache=True, nogil=True)
def _sort_packed(keys, spare, low, digit, passes):
    """Sort `keys` in place by `passes` digits of `digit` bits, starting at bit `low`.

    keys : ndarray[int64], not negative
    spare : ndarray[int64], at least as long
    """
    size = keys.size
    ordered = True  # sorted input costs only this check
    for i in range(1, size):
        if keys[i - 1] >> low > keys[i] >> low:
            ordered = False
            break
    if ordered:
        return
    mask = (np.int64(1) << digit) - 1
    counts = np.zeros((passes, mask + 1), np.int64)
    for i in range(size):
        rest = keys[i] >> low
        for k in range(passes):
            counts[k, rest & mask] += 1
            rest >>= digit
    swapped = False
    for k in range(passes):
        shift = low + k * digit
        if counts[k, (keys[0] >> shift) & mask] == size:
            continue  # all keys share this digit
        total = np.int64(0)
        for d in range(mask + 1):
            count = counts[k, d]
            counts[k, d] = total
            total += count
        if swapped:
            for i in range(size):
                d = (spare[i] >> shift) & mask
                keys[counts[k, d]] = spare[i]
                counts[k, d] += 1
        else:
            for i in range(size):
                d = (keys[i] >> shift) & mask
                spare[counts[k, d]] = keys[i]
                counts[k, d] += 1
        swapped = not swapped
    if swapped:
        for i in range(size):
            keys[i] = spare[i]


def sort_packed(keys: NDArray[np.int64], spare: NDArray[np.int64], low: int, high: int) -> None:
    """Sort `keys` in place by their bits `low` .. `high`-1, stable.

    keys : ndarray[int64], not negative
    spare : ndarray[int64], at least as long; overwritten
    """
    if keys.size > 1 and high > low:
        passes = -(-(high - low) // DIGIT)
        _sort_packed(keys, spare, low, -(-(high - low) // passes), passes)
