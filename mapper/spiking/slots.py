"""Tables of all cores of a chip, concatenated for the kernel of spiking cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.noc.mesh import Mesh
from chipsim.spiking.events import SynapseLists, list_words
from chipsim.spiking.neurons import PARAMETERS, STATES, NeuronWidths, blocks_of
from chipsim.spiking.play import SpikingCores
from chipsim.ticks.routes import core_routes, tree_routes
from chipsim.ticks.state import Routes
from hw.tables import ChipTables, CoreTables

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slots:
    """The tables of all cores, concatenated: slot after slot, core by core.

    neurons : ndarray[int64], shape (slots,), the neuron of each slot
    sender : ndarray[int64], shape (neurons + inputs,), the sender of each neuron, which is its
        slot, and of each input
    first : ndarray[int64], shape (cores + 1,), first slot of each core
    target : ndarray[int64], shape (routes,), core of each route; the number of cores is the host
    cores : lists, parameters and states, by slot
    """

    neurons: Int64
    sender: Int64
    first: Int64
    target: Int64
    cores: SpikingCores

    @classmethod
    def of(cls, tables: ChipTables) -> Slots:
        """Concatenate the tables of a chip."""
        cores, shape = tables.cores, tables.shape
        first = _ends([core.used for core in cores])
        neurons = np.concatenate([core.neurons for core in cores])
        sender = np.arange(neurons.size + len(tables.input_packets))
        sender[neurons] = np.arange(neurons.size)
        route, target, axon = _routes(tables)
        heads = _joined([core.lists for core in cores], 3)
        heads[:, 0] += np.repeat(
            _ends([len(core.synapses) for core in cores])[:-1],
            [core.axons.size for core in cores],
        )
        heads = np.r_[heads, np.zeros((1, 3), np.int64)]  # the list of the host
        first_word, count, base = heads[axon].T
        words = list_words(*_joined([core.synapses for core in cores], 3).T)
        at, words = _in_order(first_word, count, words)
        return cls(
            neurons, sender, first, target,
            SpikingCores(
                SynapseLists(
                    route, np.column_stack([at, count, base, first[target]]), words,
                    shape.neurons - 1,
                ),
                blocks_of(_joined([_parameters(core) for core in cores], len(PARAMETERS))),
                blocks_of(_joined([core.states for core in cores], len(STATES))),
                NeuronWidths(shape.state_bits, shape.decay_bits, shape.sum_bits),
                neurons.size, shape.delay_slots,
            ),
        )  # fmt: skip

    def routes(self, mesh: Mesh, tree: bool) -> Routes:
        """Return the packet routes of all slots, followed by the packets that the host sends.

        The host sends packets of inputs, and the same packets as any neuron: sender s of
        `SynapseLists` is at slots + s.
        """
        lists, slots = self.cores.lists, self.neurons.size
        senders = lists.route.size - 1
        sender = np.repeat(np.arange(senders), np.diff(lists.route))
        own = int(lists.route[slots])
        target, events = self.target, lists.heads[:, 1]
        cores = np.repeat(np.arange(mesh.cores), np.diff(self.first))
        make = tree_routes if tree else core_routes
        return make(
            mesh, np.r_[cores, np.zeros(senders, np.int64)], self.first,
            np.r_[sender[:own], sender + slots], np.r_[target[:own], target],
            np.r_[events[:own], events],
        )  # fmt: skip


def _parameters(core: CoreTables) -> Int64:
    """Return the `PARAMETERS` of a core's neurons, shape (used, parameters)."""
    return np.concatenate([core.profiles[core.parameters[:, 0]], core.parameters[:, 1:]], axis=1)


def _routes(tables: ChipTables) -> tuple[Int64, Int64, Int64]:
    """Return the routes of all senders.

    They are index pointers by sender, and the core and the axon, counted over all cores, of each.
    Packets to the host have the axon after the last.
    """
    packets = np.array([p for one in tables.input_packets for p in one], np.int64).reshape(-1, 3)
    routes = np.concatenate([_joined([core.routes for core in tables.cores], 3), packets])
    counts = [np.diff(core.route_indptr) for core in tables.cores]
    counts.append(np.array([len(one) for one in tables.input_packets], np.int64))
    route = np.r_[0, np.cumsum(np.concatenate(counts))]
    x, y, axon = routes.T
    core = y * tables.width + x
    first = _ends([core.axons.size for core in tables.cores])
    return route, core, first[core] + axon * (y < tables.height)


def _in_order(first: Int64, count: Int64, words: Int64) -> tuple[Int64, Int64]:
    """Store lists in the order of their first routes, so that lists of one sender are adjacent.

    first, count : first word and number of words of the list of each route

    Returns the new first words, and the words.
    """
    _, earliest, of = np.unique(
        np.column_stack([first, count]), axis=0, return_index=True, return_inverse=True
    )
    turn = np.argsort(earliest)
    own = earliest[turn]
    ends = np.r_[0, np.cumsum(count[own])]
    place = np.repeat(first[own] - ends[:-1], count[own]) + np.arange(ends[-1])
    at = np.empty_like(earliest)
    at[turn] = ends[:-1]
    return at[of.reshape(-1)], words[place]


def _ends(counts: list[int]) -> Int64:
    return np.cumsum([0, *counts]).astype(np.int64)


def _joined(parts: list[Any], columns: int) -> Int64:
    return np.concatenate([np.zeros((0, columns), np.int64), *parts])
