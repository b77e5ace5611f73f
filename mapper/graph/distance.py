"""Distances along an axis of a machine; see `chipsim.chip.machine`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def along(a, b, around):
    """How far two coordinates are apart, on a torus the shorter way round.

    around : length of the way round, beyond any distance where there is none
    """
    straight = abs(a - b)
    return min(straight, np.int64(around) - straight)


@njit(cache=True, nogil=True)
def towards(a, b, around):
    """The same from a to b, negative where the way leads to lower coordinates."""
    straight = b - a
    if 2 * abs(straight) <= around:
        return straight
    return straight - around if straight > 0 else straight + around
