"""Spikes of models on cores, as sets that tests compare."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hw.tables import make_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.spiking.integer_run import IntegerRun
from mapper.spiking.integers import IntegerModel
from mapper.spiking.model import SpikingModel
from mapper.spiking.schedule import Schedule
from mapper.spiking.simulate import InputSpikes, simulate_samples
from mapper.spiking.slots import Slots
from storage.samples.spikes import SpikeSamples


def chip_spikes(
    model: SpikingModel,
    integers: IntegerModel,
    times: Schedule,
    samples: SpikeSamples,
    core: np.ndarray,
    size: tuple[int, int],
) -> list[set[tuple[int, int, int]]]:
    """Return (sample, tick, neuron) of the spikes of each population on cores, at model ticks."""
    slots = Slots.of(make_tables(integers.network, core, *size, integers.shape))
    given = InputSpikes.of(samples)
    found: list[set[tuple[int, int, int]]] = [set() for _ in model.populations]
    none = np.zeros(0, np.int64)
    with ThreadTeam(1) as team:
        runs = simulate_samples(slots, given, samples.ticks + times.last, none, team)
        for sample, run in enumerate(runs):
            for tick, (begin, end) in enumerate(pairwise(run.ends)):
                for neuron in run.neuron[begin:end].tolist():
                    number = max(
                        n for n, each in enumerate(model.populations)
                        if each.dynamics is not None and model.first[n] <= neuron
                    )  # fmt: skip
                    at = tick - times.latency[number]
                    if 0 <= at < samples.ticks:
                        found[number].add((sample, at, neuron - model.first[number]))
    return found


def as_sets(model: SpikingModel, run: IntegerRun) -> list[set[tuple[int, int, int]]]:
    return [
        set(zip(*(part.tolist() for part in run.spikes[number]), strict=True))
        for number in range(len(model.populations))
    ]
