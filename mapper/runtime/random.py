"""Random numbers for kernels, whose state is an array of one number: xorshift64*.

Vigna, ACM Transactions on Mathematical Software 42, 2016.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SCALE = 2.0**31  # random numbers are below


@njit(cache=True, nogil=True)
def next_random(state):
    """xorshift64*: a random number, and the state moves on."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33))


@njit(cache=True, nogil=True)
def accepted(change, heat, state):
    """Metropolis: always what is no worse, else with probability exp(-change / heat)."""
    if change <= 0:
        return True
    return heat > 0 and np.exp(-change / heat) * SCALE > next_random(state)
