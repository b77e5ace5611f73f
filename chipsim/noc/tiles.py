"""Cores of a tile share the ports of their router: who sends in a cycle.

A tile has one port into its router and one out of it, each for a flit a cycle (a concentrator;
Dally and Towles, 2004, section 3.3). The cores of a tile that have a packet take turns: in a cycle
in which the router has room it takes that of the first core at or after the turn, in the order of
their rows and columns, and the turn goes to the core behind it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NOBODY = -1


@njit(cache=True, nogil=True, inline="always")
def router_of(tiles, core):
    """The router of a core: without tiles the one with its number."""
    v = np.int64(core)
    if len(tiles.router) > 0:
        v = np.int64(tiles.router[core])
    return v


@njit(cache=True, nogil=True, inline="always")
def offer(tiles, core):
    """Note that a core has a packet for its router in this cycle; `sends` is to be asked of it."""
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
    """Whether a core is the one of its tile that sends in this cycle, if its router has room."""
    v = tiles.router[core]
    chosen = tiles.first[v] == core
    if chosen:
        tiles.first[v] = NOBODY
        if room:
            tiles.turn[v] = (tiles.place[core] + 1) % tiles.size
    return chosen and room
