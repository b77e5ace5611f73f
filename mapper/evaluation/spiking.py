"""Spiking simulation of a mapped network: the tables of its cores, tick by tick, bit-exact.

The mapping itself is executed, not the network: routes, axons and synapse lists as the cores would
load them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.noc.mesh import Mesh
from chipsim.spiking.play import HostSpikes, SpikingRun
from chipsim.ticks.run import TickRun, TickSimulator
from hw.tables import ChipTables
from mapper.evaluation.ticks import MODEL, tick_facts
from mapper.monitoring.callbacks import OnFraction, ignore
from mapper.spiking.slots import Slots
from storage.formats.trains import Trains

AT_ONCE = 256
"""Ticks per call of the simulators."""
SOURCES = "the spikes of the network itself, and those that were given"


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
    slots = Slots.of(tables)
    run = SpikingRun(slots.cores)
    simulator = None
    if chip.time is not None and chip.delivery != "synapse":
        mesh = Mesh.of(chip, depth)
        simulator = TickSimulator(mesh, chip.time, slots.routes(mesh, chip.delivery == "tree"))
    counted = given.before(ticks)
    told, ends = slots.sender[counted.neuron], given.ends(ticks)
    nobody = np.zeros(0, np.int64)
    found: list[NDArray[np.int64]] = []
    tick_of: list[NDArray[np.int64]] = []
    runs: list[TickRun] = []
    for first in range(0, ticks, AT_ONCE):
        last = min(ticks, first + AT_ONCE)
        here, own = told[ends[first] : ends[last]], ends[first : last + 1] - ends[first]
        log = run.run(HostSpikes(here, own), nobody)
        fired = log.slot.astype(np.int64)
        found.append(slots.neurons[fired])
        tick_of.append(np.repeat(np.arange(first, last), np.diff(log.ends)))
        if simulator is not None:
            runs.append(simulator.run(fired, log.ends, here + slots.neurons.size, own))
        progress(last / ticks)
    neuron, tick = np.concatenate(found), np.concatenate(tick_of)
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
