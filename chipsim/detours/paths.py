"""Links of many routes at once, from their starts to their ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from chipsim.detours.search import ARRIVES, REACHED
from chipsim.detours.tables import Detours
from chipsim.protocols import Int64Array


class RouteSteps(NamedTuple):
    """The next links of routes that have not ended, each of shape (moving routes,).

    route : index of each
    router, way : router that the link leaves, and its direction
    """

    route: Int64Array
    router: Int64Array
    way: Int64Array


def unreached(detours: Detours, source: Int64Array, target: Int64Array) -> Int64Array:
    """Return the indices of the pairs of routers without a route."""
    return np.flatnonzero(detours.routes_back[target, source] >> REACHED & 1 == 0)


def route_steps(detours: Detours, source: Int64Array, target: Int64Array) -> Iterator[RouteSteps]:
    """Yield the links of routes between routers, step by step; every pair must have a route."""
    table = detours.routes_back
    moving = np.flatnonzero(source != target)
    here, goal = source[moving].astype(np.int64), target[moving].astype(np.int64)
    way = _towards(table[goal, here], ARRIVES // 2)
    while moving.size:
        yield RouteSteps(moving, here, way)
        here = detours.after[here, way].astype(np.int64)
        on = here != goal
        moving, here, goal, way = moving[on], here[on], goal[on], way[on]
        way = _towards(table[goal, here], way ^ 1)


def _towards(entries: np.ndarray, place: Int64Array | int) -> Int64Array:
    """Return the directions in which packets leave; place : of their input in an entry"""
    return (entries.astype(np.int64) >> 2 * np.int64(place) & 3) ^ 1
