"""Spiking simulation of a mapped network: the tables of its cores, tick by tick, bit-exact.

The arithmetic is `hw.core.arithmetic`, on the tables that the cores would load, so the mapping
itself is executed, not the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.ticks.events import SynapseLists, add_events
from chipsim.ticks.routes import core_routes, tree_routes
from chipsim.ticks.run import TickRun, TickSimulator
from chipsim.ticks.state import Routes
from hw.core.arithmetic import update
from hw.core.network import NO_LEAK, SpikingNetwork
from hw.integers import wrap
from hw.tables import ChipTables
from mapper.evaluation.ticks import MODEL, tick_facts
from mapper.monitoring.callbacks import OnFraction, ignore
from storage.formats.trains import Trains

Int64 = NDArray[np.int64]
AT_ONCE = 256
"""Ticks per call of the cycle count."""
SOURCES = "the spikes of the network itself, and those that were given"


@dataclass(frozen=True, slots=True)
class Slots:
    """The tables of all cores, concatenated: slot after slot, core by core.

    neurons : ndarray[int64], shape (slots,), the neuron of each slot
    slot : ndarray[int64], shape (neurons,), the slot of each neuron
    first : ndarray[int64], shape (cores + 1,), first slot of each core
    lists : routes, axons and synapses
    parameters : of the neurons, by slot
    """

    neurons: Int64
    slot: Int64
    first: Int64
    lists: SynapseLists
    parameters: SpikingNetwork

    @classmethod
    def of(cls, tables: ChipTables) -> Slots:
        """Concatenate the tables of a chip."""
        cores = tables.cores
        first = _ends([core.used for core in cores])
        axons = _ends([core.axons.size for core in cores])
        routes = _joined([core.routes for core in cores], 3)
        neurons = np.concatenate([core.neurons for core in cores])
        synapses = _joined([core.synapses for core in cores], 2)
        counts = np.repeat(first[:-1], [len(core.synapses) for core in cores])
        parameters = _joined([core.parameters for core in cores], 4)
        threshold, bias, leak, subtract = parameters.T
        slot = np.empty_like(neurons)
        slot[neurons] = np.arange(neurons.size)
        none = np.zeros(0, np.int64)
        return cls(
            neurons,
            slot,
            first,
            SynapseLists(
                _indptr([core.route_indptr for core in cores]),
                axons[routes[:, 1] * tables.width + routes[:, 0]] + routes[:, 2],
                _indptr([core.synapse_indptr for core in cores]),
                synapses[:, 0] + counts,
                np.ascontiguousarray(synapses[:, 1]),
            ),
            SpikingNetwork(
                neurons.size, none, none, none, threshold=threshold, bias=bias,
                leak=np.where(leak == tables.shape.no_leak, NO_LEAK, leak), subtract=subtract,
                potential=np.concatenate([core.potentials for core in cores]),
            ),
        )  # fmt: skip

    def routes(self, tables: ChipTables, mesh: Mesh, tree: bool) -> Routes:
        """Return the packet routes of all slots, followed by the same packets from the host."""
        lists, slots = self.lists, self.neurons.size
        sender = np.repeat(np.arange(slots), np.diff(lists.route))
        axons = _ends([core.axons.size for core in tables.cores])
        target = np.searchsorted(axons, lists.axon, side="right") - 1
        events = np.diff(lists.synapse)[lists.axon]
        cores = np.repeat(np.arange(mesh.cores), np.diff(self.first))
        make = tree_routes if tree else core_routes
        return make(
            mesh, np.r_[cores, np.zeros(slots, np.int64)], self.first,
            np.r_[sender, sender + slots], np.r_[target, target], np.r_[events, events],
        )  # fmt: skip


class SpikingRun:
    """State of the neurons of all cores.

    potential : ndarray[int64], shape (slots,); events : number of synaptic events so far
    """

    def __init__(self, tables: ChipTables) -> None:
        self.slots = Slots.of(tables)
        self.shape = tables.shape
        self.potential = self.slots.parameters.potential.copy()
        self.events = 0
        self._fired = np.zeros(0, np.int64)

    def tick(self, told: Int64) -> Int64:
        """Run one tick; return the slots that spike, sorted.

        told : slots with external spikes, which charge their targets in this tick
        """
        total = np.zeros(self.potential.size, np.int64)
        self.events += int(add_events(self.slots.lists, np.r_[self._fired, told], total))
        total = wrap(total, self.shape.sum_bits)
        self.potential, fires = update(self.slots.parameters, self.shape, self.potential, total)
        self._fired = np.flatnonzero(fires).astype(np.int64)
        return self._fired


def _ends(counts: list[int]) -> Int64:
    return np.cumsum([0, *counts]).astype(np.int64)


def _indptr(parts: list[Int64]) -> Int64:
    """Concatenate index pointers of several cores."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part) for part in parts]))])


def _joined(parts: list[Any], columns: int) -> Int64:
    return np.concatenate([np.zeros((0, columns), np.int64), *parts])


@dataclass(frozen=True, slots=True)
class Played:
    """Result of a spiking simulation.

    trains : spikes of the network; rate : spikes per tick of each neuron, including external ones
    facts : the entry `ticks` of report.json
    """

    trains: Trains
    rate: NDArray[np.float64]
    facts: dict[str, Any]


def play(
    tables: ChipTables, chip: Chip, given: Trains, ticks: int, depth: int,
    progress: OnFraction = ignore,
) -> Played:  # fmt: skip
    """Run the tables of a chip for some ticks.

    given : external spikes; a spike in tick t charges the neuron's targets in that tick, as packets
        that a host sends before the tick

    Cycles are counted if the chip has times and sends packets to cores or trees.
    """
    run = SpikingRun(tables)
    slots = run.slots
    simulator = None
    if chip.time is not None and chip.delivery != "synapse":
        mesh = Mesh.of(chip, depth)
        routes = slots.routes(tables, mesh, chip.delivery == "tree")
        simulator = TickSimulator(mesh, chip.time, routes)
    counted = given.before(ticks)
    told, ends = slots.slot[counted.neuron], given.ends(ticks)
    fired: list[Int64] = []
    runs: list[TickRun] = []
    for first in range(0, ticks, AT_ONCE):
        last = min(ticks, first + AT_ONCE)
        some = [run.tick(told[ends[tick] : ends[tick + 1]]) for tick in range(first, last)]
        fired += some
        if simulator is not None:
            spikes = np.concatenate(some)
            host = told[ends[first] : ends[last]] + slots.neurons.size
            own = _ends([one.size for one in some])
            runs.append(simulator.run(spikes, own, host, ends[first : last + 1] - ends[first]))
        progress(last / ticks)
    tick = np.repeat(np.arange(ticks), [one.size for one in fired])
    neuron = slots.neurons[np.concatenate(fired)]
    order = np.lexsort((neuron, tick))
    count = np.bincount(np.r_[neuron, counted.neuron], minlength=slots.neurons.size)
    facts = {
        "model": {**MODEL, "sources": SOURCES},
        "depth": depth,
        "ticks": ticks,
        "spikes": int(neuron.size),
        "given": int(counted.neuron.size),
        "given_later": int(given.neuron.size - counted.neuron.size),
        "events": run.events,
        **tick_facts(runs),
    }
    return Played(Trains(neuron[order], tick[order]), count / ticks, facts)
