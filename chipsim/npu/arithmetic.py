"""Lane arithmetic of the NPU and address checks, shared by the kernels."""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.npu.state import ADDRESS, CAUSE, EARLY, OUTSIDE, SIZE, WHERE

AWAY, UP, EVEN, FLOOR = range(4)


@njit(cache=True, nogil=True)
def _round(x, n, mode):
    """Return x / 2^n, rounded to nearest (ties away from zero, up or to even) or down."""
    if n == 0:
        return x
    if mode == FLOOR:
        return x >> n
    half = np.int64(1) << (n - 1)
    if mode == UP:
        return (x + half) >> n
    if mode == AWAY:
        return (x + half - (x < 0)) >> n
    low = x >> n
    rest = x - (low << n)
    return low + (rest > half or (rest == half and low & 1 == 1))


@njit(cache=True, nogil=True)
def _wrap(x, bits):
    """Return the low bits as a signed number."""
    return (np.int64(x) << (64 - bits)) >> (64 - bits)


@njit(cache=True, nogil=True)
def _low(x):
    """Return the low byte of a lane as a signed number."""
    return ((np.int64(x) & 255) ^ 128) - 128


@njit(cache=True, nogil=True)
def _too_early(fault, entry, last):
    """Return True, and set the fault, if the result of an entry is not written yet."""
    if entry != last:
        return False
    fault[CAUSE], fault[ADDRESS] = EARLY, entry
    return True


@njit(cache=True, nogil=True)
def _outside(fault, where, address, size):
    """Return True, and set the fault, if an address is outside a memory of the given size."""
    if 0 <= address < size:
        return False
    fault[CAUSE], fault[WHERE], fault[ADDRESS], fault[SIZE] = OUTSIDE, where, address, size
    return True
