"""The schedule: a simulation of chips, shifted by the latencies, has the spikes of frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.errors import MapperError
from mapper.spiking.model import SpikingModel
from mapper.spiking.order import execution_order
from mapper.spiking.schedule import Schedule, schedule
from tests.mapper.spiking.models import connected, inputs_and, inputs_of, spikes_of
from tests.reference.spiking import as_in_frameworks, as_on_chips

TICKS = 12


def random_model(seed: int) -> SpikingModel:
    """Return a model with skips, inputs at several depths, and loops that a chip can run."""
    rng = np.random.default_rng(seed)
    inputs, layers = int(rng.integers(0, 3)), int(rng.integers(2, 5))
    count = inputs + layers
    populations = inputs_and(*rng.integers(1, 4, count).tolist(), inputs=inputs, seed=seed)
    order = [*range(inputs), *(inputs + rng.permutation(layers)).tolist()]
    pairs = []
    for at, source in enumerate(order):
        later = [each for each in order[max(at, inputs) :] if rng.random() < 0.5]
        pairs += [(source, each, int(rng.choice([0, 0, 0, 1, 4]))) for each in later]
    for _ in range(int(rng.integers(0, 3))):
        late, early = sorted(rng.integers(inputs, count, 2).tolist(), reverse=True)
        pairs.append((order[late], order[early], count + int(rng.integers(0, 3))))
    return connected(populations, pairs, seed)


@pytest.mark.parametrize("seed", range(40))
def test_shifted_spikes_of_a_chip_equal_the_spikes_of_the_framework(seed: int) -> None:
    model = random_model(seed)
    samples = spikes_of(model, 1, TICKS, seed)
    inputs = inputs_of(model, samples, 0)
    expected = as_in_frameworks(model, inputs, TICKS).spikes
    found = schedule(model)
    ran = as_on_chips(model, found.delays, found.latency, inputs, TICKS + found.last)
    shifted = [
        {(tick - latency, neuron) for tick, neuron in spikes if tick - latency < TICKS}
        for spikes, latency in zip(ran, found.latency, strict=True)
    ]
    assert shifted == expected


@pytest.mark.parametrize("seed", range(20))
def test_latencies_are_the_least(seed: int) -> None:
    """No population could be earlier by a tick, alone; loops could not be so together either."""
    model = random_model(seed)
    found = schedule(model)
    assert min(found.delays, default=0) >= 0
    inputs = set(model.inputs)
    assert all(found.latency[number] == -1 for number in inputs)
    tight = set(inputs) | {n for n, each in enumerate(found.latency) if each == 0}
    for _ in model.populations:
        for each, delay in zip(model.connections, found.delays, strict=True):
            if delay == 0 and each.source in tight:
                tight.add(each.target)
    assert tight == set(range(len(model.populations)))


def test_paths_of_different_lengths_are_balanced() -> None:
    pairs = [(0, 1, 0), (1, 2, 0), (2, 3, 0), (0, 3, 0), (1, 3, 2), (3, 3, 0)]
    model = connected(inputs_and(2, 2, 2, 2), pairs)
    assert schedule(model) == Schedule((-1, 0, 1, 2), (0, 0, 0, 2, 3, 0), 2)


def test_models_without_connections() -> None:
    assert schedule(connected(inputs_and(2, 3), [])) == Schedule((-1, 0), (), 0)
    assert schedule(connected(inputs_and(2), [])) == Schedule((-1,), (), 0)


LOOPS = [
    ([(0, 1, 0), (1, 2, 0), (2, 1, 0)], "p1 -> p2 -> p1", 1, 2),
    ([(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 1, 1)], "p1 -> p2 -> p3 -> p1", 2, 3),
    ([(0, 1, 0), (1, 2, 3), (2, 3, 0), (3, 2, 0), (3, 1, 0)], "p2 -> p3 -> p2", 1, 2),
]


@pytest.mark.parametrize(("pairs", "loop", "given", "needed"), LOOPS)
def test_a_loop_that_is_too_fast_is_named(
    pairs: list[tuple[int, int, int]], loop: str, given: int, needed: int
) -> None:
    with pytest.raises(MapperError) as raised:
        schedule(connected(inputs_and(2, 2, 2, 2), pairs))
    ticks = "1 tick" if given == 1 else f"{given} ticks"
    assert str(raised.value) == (
        f"loop {loop}: its delays sum to {ticks}, but a chip needs {needed}, one per connection; "
        f"add a delay of {needed - given} to a connection of the loop"
    )


@pytest.mark.parametrize("delay", [1, 3])
def test_a_loop_with_enough_delay_is_scheduled(delay: int) -> None:
    model = connected(inputs_and(2, 2, 2), [(0, 1, 0), (1, 2, 0), (2, 1, delay)])
    assert schedule(model) == Schedule((-1, 0, 1), (0, 0, delay - 1), 1)


def test_delays_beyond_the_ring_are_refused() -> None:
    layers = inputs_and(2, 2, 2)
    fits = connected(layers, [(0, 1, 0), (1, 2, 63)])
    assert schedule(fits).delays == (0, 62)
    with pytest.raises(MapperError) as raised:
        schedule(connected(layers, [(0, 1, 0), (1, 2, 64)]))
    assert str(raised.value) == (
        "p1 -> p2: its delay of 64 ticks needs synapses of delay 63, but the longest delay of the "
        "core is 62; use a longer tick or more delay slots"
    )
    skip = connected(inputs_and(2, 2, 2, 2), [(0, 1, 0), (1, 2, 0), (2, 3, 0), (0, 3, 0)])
    assert schedule(skip, 2).delays[-1] == 2
    with pytest.raises(
        MapperError, match=r"^p0 -> p3: other, longer paths need synapses of delay 2"
    ):
        schedule(skip, 1)


def test_a_recurrent_connection_adds_a_tick() -> None:
    model = connected(inputs_and(2, 2), [(0, 1, 0), (1, 1, 0), (1, 1, 5)])
    assert execution_order(model).delays == (0, 1, 6)
    assert schedule(model).delays == (0, 0, 5)
