"""Simulation of samples on the cores of a chip: many independent runs, in threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.spiking.play import HostSpikes, SpikingRun
from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.errors import MapperError
from mapper.spiking.slots import Slots

if TYPE_CHECKING:
    from storage.samples.spikes import SpikeSamples

Int64 = NDArray[np.int64]


class InputSpikes(NamedTuple):
    """Spikes of the inputs in all samples, sorted by sample, then by tick.

    sample, tick, neuron : ndarray[int64], shape (spikes,); `neuron` counts the inputs of the
        network from 0. Each spike counts in its tick, and repeated spikes count repeatedly.
    samples : number of samples
    """

    sample: Int64
    tick: Int64
    neuron: Int64
    samples: int

    @classmethod
    def of(cls, given: SpikeSamples) -> InputSpikes:
        """Return spikes that repeat as often as their values require.

        Raises `MapperError` for values that are not whole numbers from 0.
        """
        wrong = np.flatnonzero((given.value < 0) | (given.value != np.floor(given.value)))
        if wrong.size:
            first = wrong[0]
            raise MapperError(
                f"samples: value {given.value[first]} of input {given.neuron[first]} in tick "
                f"{given.tick[first]} of sample {given.sample[first]}; a chip receives whole "
                "numbers of spikes from 0, so encode other values"
            )
        times = given.value.astype(np.int64)
        sample, tick, neuron = (
            np.repeat(one, times) for one in (given.sample, given.tick, given.neuron)
        )
        return cls(sample, tick, neuron, given.samples)


class SampleRun(NamedTuple):
    """Run of one sample from the states before the first tick.

    neuron : ndarray[int32], shape (spikes,), neurons that fire, tick by tick, ascending in each
    ends : ndarray[int64], shape (ticks + 1,): tick k has neuron[ends[k]:ends[k + 1]]
    potential : ndarray[int32], shape (ticks, watched), of the watched neurons after each tick
    state : ndarray[int64], shape (neurons, 3), current, potential and refractory ticks at the end
    saturated : ndarray[int64], shape (neurons,), ticks in which a value of the neuron was clipped
    events : number of synaptic events
    """

    neuron: NDArray[np.int32]
    ends: Int64
    potential: NDArray[np.int32]
    state: Int64
    saturated: Int64
    events: int


def simulate_samples(
    slots: Slots, given: InputSpikes, ticks: int, watched: Int64, team: ThreadTeam
) -> Iterator[SampleRun]:
    """Yield the run of each sample, in order; at most two per thread are held in memory.

    Parameters
    ----------
    slots : of the chip's tables
    given : spikes of the inputs
    ticks : ticks per sample
    watched : ndarray[int64], neurons whose potentials are recorded
    team : threads

    Raises `MapperError` for spikes of inputs, samples or ticks that do not exist.
    """
    neurons = slots.neurons.size
    _require(given.neuron, slots.sender.size - neurons, "input")
    _require(given.sample, given.samples, "sample")
    _require(given.tick, ticks, "tick")
    sender = slots.sender[neurons + given.neuron]
    key = given.sample * ticks + given.tick
    ends = np.searchsorted(key, np.arange(given.samples * ticks + 1)).astype(np.int64)
    pool = WorkspacePool(lambda: SpikingRun(slots.cores))
    chosen = slots.sender[watched]

    def simulate(sample: int) -> SampleRun:
        own = ends[sample * ticks : (sample + 1) * ticks + 1]
        host = HostSpikes(sender[own[0] : own[-1]], own - own[0])
        with pool.borrow() as run:
            run.restart()
            return _run(slots, run, host, chosen)

    return team.stream(simulate, range(given.samples))


def _run(slots: Slots, run: SpikingRun, host: HostSpikes, chosen: Int64) -> SampleRun:
    log = run.run(host, chosen)
    neurons = slots.neurons.size
    tick = np.repeat(np.arange(log.ends.size - 1), np.diff(log.ends))
    found = np.sort(tick * neurons + slots.neurons[log.slot])
    found -= tick * neurons
    own = slots.sender[:neurons]
    return SampleRun(
        found.astype(np.int32), log.ends, log.potential, run.states[own], run.saturated[own],
        run.events,
    )  # fmt: skip


def _require(values: Int64, count: int, name: str) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if wrong.size:
        raise MapperError(
            f"input spikes: spike {wrong[0]} (from 0) has {name} {values[wrong[0]]}; there are "
            f"{count}, numbered from 0"
        )
