"""Simulation of samples in threads, each from the states before the first tick."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.tables import make_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import MapperError
from mapper.spiking.simulate import InputSpikes, simulate_samples
from mapper.spiking.slots import Slots
from tests.reference.spiking_cores import run_network

TICKS, SAMPLES, INPUTS, NEURONS = 9, 7, 4, 30
SHAPE = CoreShape(neurons=16, delay_slots=4)
WATCHED = np.array([3, 29, 0])


def network() -> SpikingNetwork:
    rng = np.random.default_rng(2)
    return SpikingNetwork(
        NEURONS, rng.integers(0, NEURONS + INPUTS, 200), rng.integers(0, NEURONS, 200),
        rng.integers(-40, 100, 200), threshold=np.full(NEURONS, 100),
        delay=rng.integers(0, 3, 200), potential_decay=np.full(NEURONS, 3500),
        potential=rng.integers(0, 90, NEURONS), inputs=INPUTS,
    )  # fmt: skip


def slots() -> Slots:
    return Slots.of(make_tables(network(), np.arange(NEURONS) % 4, 2, 2, SHAPE))


def random_spikes() -> InputSpikes:
    """Spikes of all samples but the third."""
    rng = np.random.default_rng(4)
    sample, tick, neuron = rng.integers(0, [[SAMPLES], [TICKS], [INPUTS]], (3, 150))
    sample[sample == 2] = 3
    order = np.lexsort((tick, sample))
    return InputSpikes(sample[order], tick[order], neuron[order], SAMPLES)


def spikes_of(given: InputSpikes, sample: int) -> list[list[int]]:
    """Return the spikes of the host before each tick."""
    inside = [(given.sample == sample) & (given.tick == tick) for tick in range(TICKS)]
    return [(NEURONS + given.neuron[one]).tolist() for one in inside]


@pytest.mark.parametrize("threads", [1, 3])
def test_samples_are_independent(threads: int) -> None:
    given = random_spikes()
    with ThreadTeam(threads) as team:
        runs = list(simulate_samples(slots(), given, TICKS, WATCHED, team))
    assert len(runs) == SAMPLES
    for sample, run in enumerate(runs):
        expected = run_network(network(), SHAPE, spikes_of(given, sample))
        fired = [run.neuron[a:b].tolist() for a, b in pairwise(run.ends)]
        assert fired == [np.flatnonzero(row).tolist() for row in expected.spikes]
        assert np.array_equal(run.potential, expected.potentials[:, WATCHED])
        assert np.array_equal(run.state, np.column_stack(expected.states))
        assert np.array_equal(run.saturated, expected.saturated)
        assert run.events == expected.events


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("neuron", 4, "spike 2 (from 0) has input 4; there are 4, numbered from 0"),
        ("sample", -1, "spike 2 (from 0) has sample -1; there are 7"),
        ("tick", 9, "spike 2 (from 0) has tick 9; there are 9"),
    ],
)
def test_spikes_that_do_not_exist(name: str, value: int, said: str) -> None:
    given = random_spikes()
    getattr(given, name)[2] = value
    with ThreadTeam(1) as team, pytest.raises(MapperError) as caught:
        simulate_samples(slots(), given, TICKS, WATCHED, team)
    assert f"input spikes: {said}" in str(caught.value)


def values(*given: float) -> Any:
    """Return samples in which inputs 0, 1, .. have these values in tick 5."""
    here = np.arange(len(given))
    return SimpleNamespace(
        sample=0 * here, tick=0 * here + 5, neuron=here, value=np.array(given), samples=2
    )


def test_values_are_numbers_of_spikes() -> None:
    found = InputSpikes.of(values(1, 0, 3))
    assert found.neuron.tolist() == [0, 2, 2, 2]
    assert (found.tick.tolist(), found.sample.tolist(), found.samples) == ([5] * 4, [0] * 4, 2)
    with pytest.raises(MapperError, match="of input 1 in tick 5 of sample 0; a chip"):
        InputSpikes.of(values(1, 0.5))
