"""Tables of routes that are not XY routes: on a torus, and around broken links."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from chipsim.detours.search import ARRIVES, RouteTable
from chipsim.detours.tables import Detours
from chipsim.noc.moves import EAST, LOCAL, NORTH, SOUTH, WEST
from chipsim.noc.state import Rings
from chipsim.protocols import Int64Array
from chipsim.traffic.routes import Routes, way

OUTPUTS = (EAST, WEST, SOUTH, NORTH)
"""Outputs in the order of `chipsim.traffic.links.DIRECTIONS`."""
ROWS = 64
"""Destinations whose table is written at a time."""


class TorusSteps(NamedTuple):
    """Steps between columns of routers on a torus, and between rows.

    x, y : int64, shape (width, width) and (height, height), negative westwards and northwards
    axes : axes that are rings: "x", "y" or "xy"
    """

    x: Int64Array
    y: Int64Array
    axes: str

    @classmethod
    def of(cls, chip: Chip) -> TorusSteps | None:
        """Return the ways that the metrics assume, or None without a torus."""
        if chip.machine is None or not chip.machine.torus:
            return None
        routes = Routes.of(chip)
        x, y = (
            np.array([[way(a, b, at, around) for b in range(len(at))] for a in range(len(at))])
            for at, around in ((routes.x, routes.round_x), (routes.y, routes.round_y))
        )
        return cls(x.astype(np.int64), y.astype(np.int64), chip.machine.torus)


def rings_of(width: int, height: int, ways: TorusSteps | None, detours: Detours | None) -> Rings:
    """Return the tables of a mesh of routers; empty arrays for a mesh with XY routes."""
    none, grid = np.zeros(0, np.int64), np.zeros((0, 0), np.int8)
    found = Rings(np.zeros(0, np.uint16), np.zeros(0, np.int32), grid, grid, none, none)
    if ways is None and detours is None:
        return found
    found = found._replace(
        row=(np.arange(width * height) // width).astype(np.int32), enters=np.zeros(5, np.int64)
    )
    if ways is not None:
        found = found._replace(leads=fifos_after(width, height).ravel())
    if detours is not None:
        return found._replace(table=_outputs(detours, width))
    assert ways is not None
    inputs = 31  # five bits
    for axis, both in (("x", (EAST, WEST)), ("y", (SOUTH, NORTH))):
        if axis in ways.axes:
            for output, other in (both, both[::-1]):
                found.enters[output] = inputs & ~(
                    1 << other
                )  # all inputs but the one straight ahead
    return found._replace(
        east=np.sign(ways.x).astype(np.int8), south=np.sign(ways.y).astype(np.int8)
    )


def fifos_after(width: int, height: int) -> Int64Array:
    """Return the FIFO after each output, shape (nodes, 5), wrapping round at the edges."""
    y, x = np.divmod(np.arange(width * height), width)
    found = np.empty((width * height, 5), dtype=np.int64)
    for output, other, dx, dy in (
        (NORTH, SOUTH, 0, -1), (EAST, WEST, 1, 0), (SOUTH, NORTH, 0, 1), (WEST, EAST, -1, 0),
        (LOCAL, 0, 0, 0),
    ):  # fmt: skip
        there = (y + dy) % height * width + (x + dx) % width
        found[:, output] = 5 * there + other
    return found


@lru_cache(maxsize=1)
def _outputs(detours: Detours, width: int) -> RouteTable:
    """Return the outputs by destination and node; three bits for each input, shape (entries,).

    The destination after the last node is the host, south of the last router of column 0.
    """
    nodes = len(detours.after)
    table = np.empty((nodes + 1, nodes), np.uint16)
    for first in range(0, nodes, ROWS):
        last = min(nodes, first + ROWS)
        table[first:last] = _outputs_of(detours.routes_back[first:last])
        local = np.arange(first, last)
        table[local, local] = _everywhere(LOCAL)
    table[nodes] = table[nodes - width]
    table[nodes, nodes - width] = _everywhere(SOUTH)
    return table.ravel()


def _outputs_of(rows: RouteTable) -> RouteTable:
    """Return the same for rows of `Detours.routes_back`, without arrivals."""
    port_of = np.array(OUTPUTS, np.uint16)
    places = [(LOCAL, ARRIVES), *((port, 2 * way) for way, port in enumerate(OUTPUTS))]
    found = np.zeros_like(rows)
    for port, place in places:  # rows describe the routes backwards
        found |= port_of[(rows >> np.uint16(place) & np.uint16(3)) ^ np.uint16(1)] << np.uint16(
            3 * port
        )
    return found


def _everywhere(output: int) -> int:
    """Return the entry that sends flits of all inputs to an output."""
    return sum(output << 3 * port for port in range(5))
