"""Expected load of every router when spikes spread over all minimal paths.

A spike on its way to its target core moves only closer. At a router where both a horizontal and a
vertical step bring it closer it takes either with probability 1/2; elsewhere it goes straight.
The step depends on the place and the target alone, so all flows to one target are pushed through
the mesh together, from the farthest rows inwards: O(bounding box of the sources) per target.
The cost is therefore O(cores in use * box): 17 million steps for a 64x64 mesh where every core
sends to every other, and less for a mapping that keeps traffic local.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.chip import Chip
from chipsim.protocols import FloatArray, Int64Array


def router_loads(
    chip: Chip, source: Int64Array, target: Int64Array, weight: Int64Array
) -> FloatArray:
    """Expected load per router, float64 of shape (height, width), in weight units.

    ``source``, ``target`` (core ids) and ``weight`` have shape (flows,). A flow loads the routers
    of its source and target too; flows within a core load none. The result is the same to the bit
    for the same flows in the same order.
    """
    start = np.zeros(chip.cores + 1, dtype=np.int64)
    np.cumsum(np.bincount(target, minlength=chip.cores), out=start[1:])
    by_source = np.empty(len(source), dtype=np.int64)
    by_weight = np.empty(len(source), dtype=np.float64)
    _group_by_target(source, target, weight, start[:-1].copy(), by_source, by_weight)
    load = np.zeros((chip.height, chip.width), dtype=np.float64)
    flow = np.zeros_like(load)
    _spread(start, by_source, by_weight, flow, load)
    return load


@njit(cache=True, nogil=True)
def _group_by_target(
    source: Int64Array,
    target: Int64Array,
    weight: Int64Array,
    cursor: Int64Array,
    by_source: Int64Array,
    by_weight: FloatArray,
) -> None:
    """Stable counting sort by target; ``cursor`` holds the first free place of each target."""
    for i in range(len(source)):
        at = cursor[target[i]]
        cursor[target[i]] = at + 1
        by_source[at] = source[i]
        by_weight[at] = weight[i]


@njit(cache=True, nogil=True)
def _spread(
    start: Int64Array,
    source: Int64Array,
    weight: FloatArray,
    flow: FloatArray,
    load: FloatArray,
) -> None:
    """Add the router loads of all flows to ``load``; ``flow`` is zero before and after."""
    width = load.shape[1]
    for t in range(len(start) - 1):
        ty = t // width
        tx = t - ty * width
        west = tx
        east = tx
        north = ty
        south = ty
        for i in range(start[t], start[t + 1]):
            s = source[i]
            if s == t:
                continue
            y = s // width
            x = s - y * width
            flow[y, x] += weight[i]
            west = min(west, x)
            east = max(east, x)
            north = min(north, y)
            south = max(south, y)
        for y in range(north, ty):
            _push_row(flow, load, y, 1, tx, west, east)
        for y in range(south, ty, -1):
            _push_row(flow, load, y, -1, tx, west, east)
        # In the row of the target all that is left is to go straight.
        for x in range(west, tx):
            flow[ty, x + 1] += flow[ty, x]
            load[ty, x] += flow[ty, x]
            flow[ty, x] = 0.0
        for x in range(east, tx, -1):
            flow[ty, x - 1] += flow[ty, x]
            load[ty, x] += flow[ty, x]
            flow[ty, x] = 0.0
        load[ty, tx] += flow[ty, tx]
        flow[ty, tx] = 0.0


@njit(cache=True, nogil=True)
def _push_row(
    flow: FloatArray, load: FloatArray, y: int, step: int, tx: int, west: int, east: int
) -> None:
    """Move all flow out of row y: towards column tx along the row, and to row y + step."""
    for x in range(west, tx):
        f = flow[y, x]
        if f != 0.0:
            half = 0.5 * f
            flow[y, x + 1] += half
            flow[y + step, x] += half
            load[y, x] += f
            flow[y, x] = 0.0
    for x in range(east, tx, -1):
        f = flow[y, x]
        if f != 0.0:
            half = 0.5 * f
            flow[y, x - 1] += half
            flow[y + step, x] += half
            load[y, x] += f
            flow[y, x] = 0.0
    flow[y + step, tx] += flow[y, tx]
    load[y, tx] += flow[y, tx]
    flow[y, tx] = 0.0
