"""Distances along an axis of a machine; see `chipsim.chip.machine`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def along(a, b, around):
    """Return the distance of two coordinates; on a torus, the shorter way.

    around : circumference of the torus, larger than any distance if there is none
    """
    straight = abs(a - b)
    return min(straight, np.int64(around) - straight)


@njit(cache=True, nogil=True)
def towards(a, b, around):
    """Return the signed distance from a to b, negative towards lower coordinates."""
    straight = b - a
    if 2 * abs(straight) <= around:
        return straight
    return straight - around if straight > 0 else straight + around
