"""Hash function for integers."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def scrambled(x):
    """Mix the bits of a uint64 bijectively: finaliser of splitmix64.

    G. L. Steele, D. Lea and C. H. Flood, OOPSLA 2014.
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
