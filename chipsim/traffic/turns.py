"""Traffic of each router by input and output.

Routes are recorded where they leave their core and where they turn; together with the link loads
this gives the load of every pair of an input and an output. Counts are int64 of shape (turns, rows,
columns of routers): 0 to 3 leave the core east, west, south and north; 4 to 7 turn from east to
south, from east to north, from west to south, from west to north. If links are broken, four more
count turns from south to east, from south to west, from north to east, from north to west. A spike
of a multicast tree may do several of these in one router, and counts for each.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray, Int64Array

Summed = TypeVar("Summed", Int64Array, FloatArray)

EAST, WEST, SOUTH, NORTH, LOCAL = range(5)
"""Ways through a router: in the order of `chipsim.traffic.links.DIRECTIONS`, and to or from the
core."""


def legs_of(
    links: Int64Array, turns: Int64Array, came: Int64Array, entered: Int64Array
) -> Int64Array:
    """Return loads by input and output, shape (5, 5, rows, columns).

    links, came : shape (4, rows, columns), in the form of `chipsim.traffic.links`, and by
        destination router, from `entering`
    turns : as above
    entered : shape (rows, columns), from the cores

    Entry [i, o] counts spikes that travel in direction i (LOCAL: from the core) and leave in
    direction o (LOCAL: to the core). Arrivals are computed as inputs minus continuing outputs, so
    entries [i, LOCAL] are wrong for trees: use one packet per destination core instead.
    """
    legs = np.zeros((5, 5, *links.shape[1:]), np.int64)
    legs[LOCAL, :LOCAL] = turns[:4]
    legs[LOCAL, LOCAL] = entered - turns[:4].sum(axis=0)  # for other cores of the tile
    legs[EAST, SOUTH], legs[EAST, NORTH], legs[WEST, SOUTH], legs[WEST, NORTH] = turns[4:8]
    if len(turns) > 8:
        legs[SOUTH, EAST], legs[SOUTH, WEST], legs[NORTH, EAST], legs[NORTH, WEST] = turns[8:]
    for way in range(4):
        legs[way, way] = links[way] - legs[:, way].sum(axis=0)
        legs[way, LOCAL] = came[way] - legs[way, :LOCAL].sum(axis=0)
    return legs


def entering(links: Int64Array) -> Int64Array:
    """Return loads by destination router of a link, shape (4, rows, columns)."""
    steps = ((1, 1), (-1, 1), (1, 0), (-1, 0))  # links that leave the mesh have no load
    return np.stack([np.roll(links[way], *step) for way, step in enumerate(steps)])


def of_routers(chip: Chip, values: Summed) -> Summed:
    """Sum values of shape (cores,) over the cores of each router; return shape (rows, columns)."""
    columns, rows = chip.routers
    tiles = values.reshape(rows, chip.height // rows, columns, chip.width // columns)
    found: Summed = tiles.sum(axis=(1, 3))
    return found
