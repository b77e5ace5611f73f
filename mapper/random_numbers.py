"""Random numbers and hashes for kernels; the state of a generator is an array of one number.

Mappings depend on the exact numbers, so each use must keep its generator:

- `next_random`, xorshift64* (Vigna, ACM Transactions on Mathematical Software 42, 2016), 31 bits;
  `draw_star`, its upper half scaled to a range
- `draw`, xorshift64 (Marsaglia, Journal of Statistical Software 8, 2003), also scaled
- `hashed` and `mixed`, hashes of one and of two numbers by splitmix64 (`storage.hashing`)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from storage.hashing import scrambled

SCALE = 2.0**31  # exclusive upper bound of random numbers
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio, the increment of splitmix64


@njit(cache=True, nogil=True)
def next_random(state):
    """Return the next 31-bit number of xorshift64* and update the state."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.int64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33))


@njit(cache=True, nogil=True)
def accepted(change, temperature, state):
    """Metropolis criterion: accept change <= 0, else with probability exp(-change / T)."""
    if change <= 0:
        return True
    return temperature > 0 and np.exp(-change / temperature) * SCALE > next_random(state)


@njit(cache=True, nogil=True)
def draw_star(state, below):
    """Return a number 0 .. below-1 by xorshift64* and update the state."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    high = (x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(32)
    return np.int64((high * np.uint64(below)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def draw(state, below):
    """Return a number 0 .. below-1 by xorshift64 and update the state."""
    s = state[0]
    s ^= s << np.uint64(13)
    s ^= s >> np.uint64(7)
    s ^= s << np.uint64(17)
    state[0] = s
    return np.int64(((s >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def hashed(number):
    """Return a hash of a number, not negative."""
    return scrambled(np.uint64(number + 1) * np.uint64(GOLDEN))


@njit(cache=True, nogil=True)
def mixed(a, b, seed):
    """Return a hash of two numbers for a seed."""
    x = np.uint64(a) * np.uint64(GOLDEN) ^ np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
    return scrambled(x ^ np.uint64(seed))
