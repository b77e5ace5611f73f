"""Cycles per tick of the cores, mesh and barrier, for the spikes of a run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.ticks.run import TickRun, TickSimulator
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.simulate import InputSpikes, SampleRun
from mapper.spiking.slots import Slots
from storage.samples.spikes import SpikeSamples

DEPTH = 4  # flits per input buffer of a router, as in the hardware


class TickCycles(NamedTuple):
    """Cycles of all ticks of all samples.

    cycles : ndarray[int64], shape (samples * ticks,)
    ended_by_neurons : ticks in which the neuron updates end last, not the synaptic events
    sent, packets, heard : packets that cores send, that cores receive, also from the host, and that
        the host receives
    links : flits on each link, shape (4, height, width)
    """

    cycles: NDArray[np.int64]
    ended_by_neurons: int
    sent: int
    packets: int
    heard: int
    links: NDArray[np.int64]

    @property
    def busiest_link(self) -> int:
        """Flits on the busiest link."""
        return int(self.links.max(initial=0))


class CycleCounter:
    """Counts the cycles of the runs of samples.

    Cores send a packet to each core with a target, and one to the host for a spike of an output, or
    along a tree on chips that deliver so. The host sends the inputs of a tick before the tick. A
    chip without times has the defaults of `ChipTime`.
    """

    def __init__(self, folder: SpikingFolder, slots: Slots, samples: SpikeSamples) -> None:
        mesh = Mesh.of(folder.chip, DEPTH)
        routes = slots.routes(mesh, folder.chip.delivery == "tree")
        self._simulator = TickSimulator(mesh, folder.chip.time or ChipTime(), routes)
        self._sender = slots.sender
        self._neurons = slots.neurons.size
        given = InputSpikes.of(samples)
        self._ticks = samples.ticks + folder.last
        self._ends = given.ends(self._ticks)
        # Packets of the host follow the packets of the slots.
        self._host = slots.sender[self._neurons + given.neuron] + self._neurons
        self._runs: list[TickRun] = []

    def take(self, sample: int, run: SampleRun) -> None:
        """Count the ticks of a sample; samples arrive in order."""
        tick = np.repeat(np.arange(self._ticks), np.diff(run.ends))
        slots = self._sender[run.neuron]
        own = self._ends[sample * self._ticks : (sample + 1) * self._ticks + 1]
        self._runs.append(
            self._simulator.run(
                slots[np.lexsort((slots, tick))], run.ends, self._host[own[0] : own[-1]],
                own - own[0],
            )
        )  # fmt: skip

    def finish(self) -> TickCycles:
        """Return the cycles of all samples; there is at least one."""
        return TickCycles(
            np.concatenate([run.cycles for run in self._runs]),
            sum(int((run.swept >= run.received).sum()) for run in self._runs),
            sum(int(run.sent.sum()) for run in self._runs),
            sum(int(run.taken.sum()) for run in self._runs),
            sum(run.heard for run in self._runs),
            np.sum([run.links for run in self._runs], axis=0, dtype=np.int64),
        )
