"""Arbitration between cores of a tile for the port of their router.

A tile has one port into its router and one out of it, each for a flit per cycle (a concentrator;
Dally and Towles, 2004, section 3.3). Cores of a tile with a packet take turns: when the router has
room, it accepts the packet of the first core at or after the turn, in the order of rows and
columns, and the turn moves to the following core.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NOBODY = -1


@njit(cache=True, nogil=True, inline="always")
def router_of(tiles, core):
    """Return the router of a core: without tiles, the node of the same number."""
    v = np.int64(core)
    if len(tiles.router) > 0:
        v = np.int64(tiles.router[core])
    return v


@njit(cache=True, nogil=True, inline="always")
def offer(tiles, core):
    """Register that a core has a packet for its router in this cycle; call `sends` afterwards."""
    v = tiles.router[core]
    first = tiles.first[v]
    size = tiles.size
    if (
        first == NOBODY
        or (tiles.place[core] - tiles.turn[v]) % size < (tiles.place[first] - tiles.turn[v]) % size
    ):
        tiles.first[v] = core


@njit(cache=True, nogil=True, inline="always")
def sends(tiles, core, room):
    """Return True if a core wins arbitration in its tile and its router has room."""
    v = tiles.router[core]
    chosen = tiles.first[v] == core
    if chosen:
        tiles.first[v] = NOBODY
        if room:
            tiles.turn[v] = (tiles.place[core] + 1) % tiles.size
    return chosen and room
