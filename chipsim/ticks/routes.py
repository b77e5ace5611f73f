"""Routes of the packets of each neuron: one packet per destination core, or one per tree.

Trees are the multicast trees of the metrics: the union of the XY routes of a neuron to its cores,
each link once, on a torus the shorter way round, or of the routes around broken links.
"""

from __future__ import annotations

import numpy as np

from chipsim.detours.paths import route_steps
from chipsim.noc.mesh import Mesh
from chipsim.noc.moves import EAST, LOCAL, NORTH, SOUTH, WEST
from chipsim.noc.rings import OUTPUTS
from chipsim.protocols import Int64Array
from chipsim.ticks.state import NONE, Routes


def core_routes(
    mesh: Mesh, origin: Int64Array, slots: Int64Array, slot: Int64Array, target: Int64Array,
    events: Int64Array,
) -> Routes:  # fmt: skip
    """Return routes with one packet per pair of a slot and a destination core.

    Parameters
    ----------
    mesh
    origin : shape (slots + inputs,), core of each slot, increasing over the slots of neurons;
        inputs follow and belong to the host, at core 0
    slots : shape (cores + 1,), as `Routes.first`
    slot, target, events : shape (pairs,), sorted by slot and core, unique pairs: synaptic events
        per spike of the slot in the core; the core after the last is the host
    """
    indptr = np.searchsorted(slot, np.arange(len(origin) + 1)).astype(np.int64)
    none = np.zeros((0, 5), np.int64)
    mask, heard = np.zeros(0, np.int8), np.zeros(0, np.int64)
    return Routes(slots, indptr, _ends_of(mesh)[target], target, events, mask, none, heard)


def tree_routes(
    mesh: Mesh, origin: Int64Array, slots: Int64Array, slot: Int64Array, target: Int64Array,
    events: Int64Array,
) -> Routes:  # fmt: skip
    """Return routes with one tree per slot that has destinations; arguments as in `core_routes`."""
    root, end = mesh.router[origin], _ends_of(mesh)[target]
    pair, at, output = (_ways if mesh.detours is None else _detours)(mesh, root[slot], end)
    span = 4 * mesh.nodes + mesh.nodes + 1
    places, place = np.unique(slot[pair] * span + at, return_inverse=True)
    mask = np.zeros(len(places), np.int64)
    child = np.full((len(places), 5), NONE, np.int64)
    leads = np.flatnonzero(output != LOCAL)
    np.bitwise_or.at(mask, place, 1 << output)
    child[place[leads], output[leads]] = place[leads + 1]
    ends = place[output == LOCAL]
    order = np.argsort(ends, kind="stable")  # cores of a tile share a place and are contiguous
    heard = np.searchsorted(ends[order], np.arange(len(places) + 1)).astype(np.int64)
    senders, first = np.unique(slot, return_index=True)
    roots = place[np.searchsorted(pair, first)]
    indptr = np.searchsorted(senders, np.arange(len(origin) + 1)).astype(np.int64)
    return Routes(
        slots, indptr, roots.astype(np.int64), target[order], events[order], mask.astype(np.int8),
        child, heard,
    )  # fmt: skip


Walked = tuple[Int64Array, Int64Array, Int64Array]
"""The places on some routes, route by route: route, place within its tree, and output there."""


def _ways(mesh: Mesh, source: Int64Array, target: Int64Array) -> Walked:
    """Return the places on XY routes: routers; first along the row, then along the column."""
    y0, x0 = np.divmod(source, mesh.width)
    dx, dy = mesh.steps(source, target)
    across, down = np.abs(dx), np.abs(dy)
    length = across + down + 1
    pair = np.repeat(np.arange(len(source)), length)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(length) - length, length)
    along = np.minimum(step, across[pair])
    x = (x0[pair] + np.sign(dx)[pair] * along) % mesh.width
    y = y0[pair] + np.sign(dy)[pair] * (step - along)
    if mesh.torus:
        y %= mesh.height
    row = np.where(dx[pair] > 0, EAST, WEST)
    column = np.where(dy[pair] > 0, SOUTH, NORTH)
    output = np.where(step < across[pair], row, column)
    output[np.cumsum(length) - 1] = LOCAL
    return pair, y * mesh.width + x, output


def _detours(mesh: Mesh, source: Int64Array, target: Int64Array) -> Walked:
    """Return the places on routes around broken links: the link that leads there, or the source.

    A tree may pass a router by several links.
    """
    assert mesh.detours is not None
    to_host = target == mesh.nodes  # below the last router of column 0
    last = np.where(to_host, mesh.nodes - mesh.width, target)
    mesh.require_routes(source, last)
    steps = list(route_steps(mesh.detours, source, last))
    none = np.zeros(0, np.int64)
    links = np.bincount(np.concatenate([none, *(one.route for one in steps)]), None, len(source))
    places = links + to_host + 1
    begin, pair = np.cumsum(places) - places, np.repeat(np.arange(len(source)), places)
    place, output = np.empty(len(pair), np.int64), np.full(len(pair), LOCAL)
    place[begin] = 4 * mesh.nodes + source
    for step, (index, router, way) in enumerate(steps):
        output[begin[index] + step] = np.array(OUTPUTS)[way]
        place[begin[index] + step + 1] = 4 * router + way
    leaves = begin[to_host] + links[to_host]
    output[leaves] = SOUTH
    place[leaves + 1] = 4 * last[to_host] + OUTPUTS.index(SOUTH)
    return pair, place, output


def _ends_of(mesh: Mesh) -> Int64Array:
    """Return the destination router of each core, and of the host."""
    return np.r_[mesh.router, mesh.host]
