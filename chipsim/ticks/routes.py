"""Routes of the packets of each neuron: one packet per destination core, or one per tree.

Trees are the multicast trees of the metrics: the union of the XY routes of a neuron to its cores,
each link once, on a torus the shorter way round.
"""

from __future__ import annotations

import numpy as np

from chipsim.noc.mesh import Mesh
from chipsim.noc.moves import EAST, LOCAL, NORTH, SOUTH, WEST
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
    nodes, width = mesh.nodes + 1, mesh.width
    root, end = mesh.router[origin], _ends_of(mesh)[target]
    y0, x0 = np.divmod(root[slot], width)
    dx, dy = mesh.steps(root[slot], end)
    across, down = np.abs(dx), np.abs(dy)
    # Every router on the way to every core: first along the row, then along the column.
    length = across + down + 1
    pair = np.repeat(np.arange(len(slot)), length)
    step = np.arange(len(pair)) - np.repeat(np.cumsum(length) - length, length)
    along = np.minimum(step, across[pair])
    x = (x0[pair] + np.sign(dx)[pair] * along) % width
    y = y0[pair] + np.sign(dy)[pair] * (step - along)
    if mesh.torus:
        y %= mesh.height
    key = slot[pair] * nodes + y * width + x
    places, place = np.unique(key, return_inverse=True)
    mask = np.zeros(len(places), np.int64)
    child = np.full((len(places), 5), NONE, np.int64)
    leads = np.flatnonzero(step[1:] > 0)  # pairs of consecutive routers
    on, row = pair[leads], step[leads] < across[pair[leads]]
    output = np.where(row, np.where(dx[on] > 0, EAST, WEST), np.where(dy[on] > 0, SOUTH, NORTH))
    np.bitwise_or.at(mask, place[leads], 1 << output)
    child[place[leads], output] = place[leads + 1]
    ends = np.searchsorted(places, slot * nodes + end)
    mask[ends] |= 1 << LOCAL
    order = np.argsort(ends, kind="stable")  # cores of a tile share a place and are contiguous
    heard = np.searchsorted(ends[order], np.arange(len(places) + 1)).astype(np.int64)
    senders = np.unique(slot)
    roots = np.searchsorted(places, senders * nodes + root[senders])
    indptr = np.searchsorted(senders, np.arange(len(origin) + 1)).astype(np.int64)
    return Routes(
        slots, indptr, roots.astype(np.int64), target[order], events[order], mask.astype(np.int8),
        child, heard,
    )  # fmt: skip


def _ends_of(mesh: Mesh) -> Int64Array:
    """Return the destination router of each core, and of the host."""
    return np.r_[mesh.router, mesh.host]
