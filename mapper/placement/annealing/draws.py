"""Random numbers for kernels: a state array that is passed in."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _draw(state, below):
    """The next number of a xorshift generator (Marsaglia 2003), 0 .. below-1."""
    s = state[0]
    s ^= s << np.uint64(13)
    s ^= s >> np.uint64(7)
    s ^= s << np.uint64(17)
    state[0] = s
    return np.int64(((s >> np.uint64(32)) * np.uint64(below)) >> np.uint64(32))
