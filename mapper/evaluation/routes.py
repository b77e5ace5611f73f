"""Packets of a mapped network: for each neuron the packets of a spike, and its mean spike rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes, tree_routes
from chipsim.ticks.state import Routes
from storage.store.network import RATE, NetworkFile


@dataclass(frozen=True, slots=True)
class MappedRoutes:
    """The neurons of all cores, and the targets of their packets.

    routes : by slot; slots number the neurons core by core, in the order of their ids
    neurons : ndarray[int64], shape (slots,), the neuron of each slot
    slot : ndarray[int64], shape (neurons,), the slot of each neuron
    rate : ndarray[float64], shape (neurons,), spikes per unit of time: the firing rate, or without
        rates the largest weight of the neuron's synapses
    """

    routes: Routes
    neurons: NDArray[np.int64]
    slot: NDArray[np.int64]
    rate: NDArray[np.float64]


def mapped_routes(
    network: NetworkFile, core: NDArray[np.int32], mesh: Mesh, tree: bool
) -> MappedRoutes:
    """Return the routes of a network, read block by block.

    core : of every neuron; tree : one multicast tree per spike instead of one packet per core

    Memory holds one number per pair of a neuron and a core that it reaches. The packets of the host
    equal the neurons' packets: they follow the slots' packets, with core 0 as source.
    """
    order = np.argsort(core, kind="stable").astype(np.int64)
    slot = np.empty_like(order)
    slot[order] = np.arange(order.size)
    attribute = network.attribute(RATE) if RATE in network.meta.attributes else None
    rate = np.zeros(core.size)
    if attribute is not None:
        rate[:] = attribute.stored * attribute.unit
    keys, events = [], []
    for index in range(network.block_count):
        indptr, targets, weights = network.read_outgoing(index)
        first, end = network.block_bounds(index)
        source = np.repeat(np.arange(first, end), np.diff(indptr))
        if attribute is None:
            np.maximum.at(rate, source, weights * network.meta.weight_unit)
        pairs, made = np.unique(slot[source] * mesh.cores + core[targets], return_counts=True)
        keys.append(pairs)
        events.append(made)
    key, made = np.concatenate([[], *keys]).astype(np.int64), np.concatenate([[], *events])
    arranged = np.argsort(key, kind="stable")
    sender, target = np.divmod(key[arranged], mesh.cores)
    made = made[arranged].astype(np.int64)
    origin = np.r_[core[order].astype(np.int64), np.zeros(order.size, np.int64)]
    begins = np.searchsorted(core[order], np.arange(mesh.cores + 1)).astype(np.int64)
    make = tree_routes if tree else core_routes
    routes = make(
        mesh, origin, begins, np.r_[sender, sender + order.size], np.r_[target, target],
        np.r_[made, made],
    )  # fmt: skip
    return MappedRoutes(routes, order, slot, rate)
