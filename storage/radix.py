"""Least-significant-digit radix sort of 64-bit keys that carry 64-bit values (numba)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

DIGIT = 11  # bits a pass: 2048 counters and write cursors stay in the first-level cache


@njit(cache=True, nogil=True)
def _sort_pass(keys, values, out_keys, out_values, shift, mask):
    """One stable counting sort by a digit; returns whether all keys share it (nothing moved)."""
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
    """Both arrays in increasing order of the keys, stable. The inputs may be overwritten.

    keys : ndarray[int64], not negative; bits below `low_bit` are not looked at
    values : ndarray[int64], same shape
    """
    bits = int(keys.max()).bit_length() if keys.size else 0
    spare_keys, spare_values = np.empty_like(keys), np.empty_like(values)
    for shift in range(low_bit, bits, DIGIT):
        if not _sort_pass(keys, values, spare_keys, spare_values, shift, (1 << DIGIT) - 1):
            keys, spare_keys = spare_keys, keys
            values, spare_values = spare_values, values
    return keys, values
