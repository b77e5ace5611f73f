"""Spikes of the first sample, on the cores and in the model, for the report page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import SpikeTrains

MOST_NEURONS, MOST_TICKS = 64, 512
"""Neurons of a population and ticks that are kept."""


def first_sample(
    model: SpikingModel, ticks: int, cores: Sequence[SpikeTrains], real: Sequence[SpikeTrains]
) -> list[dict[str, Any]]:
    """Return (tick, neuron) of the spikes of each population in sample 0, as objects for JSON.

    cores, real : spikes of all samples by population, on the cores and in the model
    """
    kept = min(ticks, MOST_TICKS)
    found = []
    for number, each in enumerate(model.populations):
        if each.dynamics is None or each.silent:
            continue
        neurons = min(each.size, MOST_NEURONS)
        found.append(
            {
                "population": each.name,
                "neurons": neurons,
                "of": each.size,
                "ticks": kept,
                "chip": _spikes(cores[number], kept, neurons),
                "model": _spikes(real[number], kept, neurons),
            }
        )
    return found


def _spikes(trains: SpikeTrains, ticks: int, neurons: int) -> list[list[int]]:
    own = (trains.sample == 0) & (trains.tick < ticks) & (trains.neuron < neurons)
    rows: list[list[int]] = np.column_stack([trains.tick[own], trains.neuron[own]]).tolist()
    return rows
