"""The Pareto front: runs with fewer hops, fewer cores or a less busy link than each other run.

Time is no criterion, as it varies from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CRITERIA = ("hops", "cores_used", "link_load_max")
"""Figures of a run that should be low."""


def pareto_front(points: Sequence[Sequence[float]]) -> list[bool]:
    """Return for each point whether no other is at most as high in all places and lower in one."""
    if not points:
        return []
    table = np.array(points, np.float64)
    front: list[int] = []
    kept = np.empty_like(table)
    # Points that dominate another come before it in lexicographic order.
    for index in np.lexsort(table.T[::-1]):
        point, before = table[index], kept[: len(front)]
        below = (before <= point).all(axis=1) & (before < point).any(axis=1)
        if not below.any():
            kept[len(front)] = point
            front.append(int(index))
    found = np.zeros(len(table), np.bool_)
    found[front] = True
    return [bool(one) for one in found]
