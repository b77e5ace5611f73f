"""Routes on chips with broken links, followed from their ends to their starts.

Such routes are rows of `Routes.table`, in the form of `chipsim.detours.search`. A run is a part of
a route without turns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.chip.machine import STRAIGHT
from chipsim.detours.search import ARRIVES
from chipsim.traffic.routes import leg


@njit(cache=True, nogil=True, inline="always")
def arrival(routes, source, target):
    """Return the direction in which the route between two different routers arrives."""
    return np.int64(routes.table[source, target]) >> ARRIVES & 3


@njit(cache=True, nogil=True, inline="always")
def step_back(routes, router, way):
    """Return the router before a link that leads to `router` in direction `way`."""
    columns, rows = np.int64(routes.x.size), np.int64(routes.y.size)
    y = router // columns
    x = router - y * columns
    if way < 2:
        x += 2 * way - 1
        if x < 0:
            x += columns
        elif x >= columns:
            x -= columns
    else:
        y += 2 * way - 5
        if y < 0:
            y += rows
        elif y >= rows:
            y -= rows
    return y * columns + x


@njit(cache=True, nogil=True, inline="always")
def came_from(routes, source, router, way):
    """Return the direction in which the route from `source` comes to a link of `router`.

    It is the opposite of the direction `way` of the link if the route begins there.
    """
    return np.int64(routes.table[source, router]) >> (2 * way) & 3


@njit(cache=True, nogil=True, inline="always")
def add_run(diff, routes, router, way, links, weight):
    """Add links in one direction, the first from `router`, to differences of link loads."""
    columns = np.int64(routes.x.size)
    y = router // columns
    x = router - y * columns
    steps = -links if way & 1 else links
    if way < 2:
        leg(diff[0, y], diff[1, y], x, steps, weight)
    else:
        leg(diff[2, :, x], diff[3, :, x], y, steps, weight)


@njit(cache=True, nogil=True, inline="always")
def turn_place(came, way):
    """Return the array of `chipsim.traffic.turns` that counts a turn, after four of links."""
    return 8 + 2 * came + way - (2 if came < 2 else 0)


@njit(cache=True, nogil=True, inline="always")
def add_bend(diff, routes, router, came, way, weight):
    """Add the place where a route begins or turns into direction `way`."""
    if len(diff) > 4:
        columns = np.int64(routes.x.size)
        y = router // columns
        kind = 4 + way if came == way ^ 1 else turn_place(came, way)
        diff[kind, y, router - y * columns] += weight


@njit(cache=True, nogil=True)
def add_detour(diff, routes, source, target, weight):
    """Add a route to ``diff``, in the form of `chipsim.traffic.links`; return its links."""
    links = np.int64(0)
    if source == target:
        return links
    here, way = np.int64(target), arrival(routes, source, target)
    while True:
        run, came = np.int64(0), way
        while came == way:
            here = step_back(routes, here, way)
            came = came_from(routes, source, here, way)
            run += 1
        add_run(diff, routes, here, way, run, weight)
        add_bend(diff, routes, here, came, way, weight)
        links += run
        if came == way ^ 1:
            return links
        way = came


@njit(cache=True, nogil=True)
def add_branch(diff, routes, source, target, weight, marks, mark):
    """Add the part of a route that is not yet in a tree to ``diff``; return its links.

    marks : ndarray[int64], shape (routers, 4): `mark` for the links of the tree
    """
    links = np.int64(0)
    if source == target:
        return links
    here, way = np.int64(target), arrival(routes, source, target)
    while True:
        here = step_back(routes, here, way)
        if marks[here, way] == mark:
            return links
        marks[here, way] = mark
        came = came_from(routes, source, here, way)
        add_run(diff, routes, here, way, np.int64(1), weight)
        if came != way:
            add_bend(diff, routes, here, came, way, weight)
        links += 1
        if came == way ^ 1:
            return links
        way = came


@njit(cache=True, nogil=True)
def route_sums(routes, source, target):
    """Return the links of a route east-west and north-south, and their cost."""
    across, down, cost = np.int64(0), np.int64(0), np.int64(0)
    if source == target:
        return across, down, cost
    here, way = np.int64(target), arrival(routes, source, target)
    columns = np.int64(routes.x.size)
    while True:
        there = here
        here = step_back(routes, here, way)
        if way < 2:
            across += 1
            a, b = here % columns, there % columns
            cost += _link_cost(routes.x, routes.round_x, a, b, (b > a) == (way == 0))
        else:
            down += 1
            a, b = here // columns, there // columns
            cost += _link_cost(routes.y, routes.round_y, a, b, (b > a) == (way == 2))
        came = came_from(routes, source, here, way)
        if came == way ^ 1:
            return across, down, cost
        way = came


@njit(cache=True, nogil=True, inline="always")
def _link_cost(at, around, a, b, straight):
    """Return the cost of a link between adjacent columns (or rows), or one that closes a torus."""
    cost = abs(np.int64(at[b]) - at[a])
    # a ring whose links cost nothing has no circumference
    return cost if straight or around == STRAIGHT else around - cost


@njit(cache=True, nogil=True, inline="always")
def router_of(routes, core):
    """Return the router of a core."""
    width = routes.column.size
    y = core // width
    return np.int64(routes.row[y]) * routes.x.size + routes.column[core - y * width]


@njit(cache=True, nogil=True)
def extra_cost(routes, source, target):
    """Return the cost of a route between two cores beyond the distance of their routers."""
    a, b = router_of(routes, source), router_of(routes, target)
    columns = np.int64(routes.x.size)
    x = abs(np.int64(routes.x[a % columns]) - routes.x[b % columns])
    y = abs(np.int64(routes.y[a // columns]) - routes.y[b // columns])
    straight = min(x, routes.round_x - x) + min(y, routes.round_y - y)
    return route_sums(routes, a, b)[2] - straight


@njit(cache=True, nogil=True)
def links_of_flows(source, target, routes, across, down):
    """Fill the links of the routes between cores, east-west and north-south, shape (flows,)."""
    for i in range(len(source)):
        a, b = router_of(routes, source[i]), router_of(routes, target[i])
        across[i], down[i], _ = route_sums(routes, a, b)
