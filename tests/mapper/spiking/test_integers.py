"""Integers of a model: exact where they can be, equal on every chip, and settled at the start."""

from __future__ import annotations

import numpy as np
import pytest

from hw.core.arithmetic import NeuronStates, update
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from mapper.errors import DoesNotFitError
from mapper.spiking.integer_run import run_integers
from mapper.spiking.integers import IntegerModel, IntegerOptions, to_integers
from mapper.spiking.model import SpikingModel
from mapper.spiking.pipeline import measured_activity
from mapper.spiking.reference import run_reference
from mapper.spiking.scales import (
    RealSynapses,
    largest_scales,
    rounded_weights,
    weight_table,
    weight_units,
)
from mapper.spiking.schedule import Schedule, schedule
from mapper.spiking.starts import LateNeurons, start_states
from storage.samples.spikes import SpikeSamples
from tests.mapper.spiking.models import connected, inputs_and, spikes_of
from tests.mapper.spiking.runs import as_sets, chip_spikes

SAMPLES, TICKS = 4, 10
SHAPE = CoreShape(neurons=64, state_bits=32, sum_bits=20, delay_slots=8)
GRAPHS = {
    "layers": [(0, 1, 0), (1, 2, 0), (2, 3, 0)],
    "skip": [(0, 1, 0), (1, 2, 0), (0, 3, 0), (1, 3, 1), (2, 3, 0)],
    "recurrent": [(0, 1, 0), (1, 1, 0), (1, 2, 0), (2, 2, 2), (2, 3, 0)],
}


def model_of(graph: str, seed: int, exact: bool) -> SpikingModel:
    """Return a model of 3 populations; `exact` neurons lose nothing but whole halves."""
    model = connected(inputs_and(5, 7, 6, 4, seed=seed), GRAPHS[graph], seed)
    if not exact:
        return model
    populations = [
        each
        if each.dynamics is None
        else each._replace(
            dynamics=each.dynamics._replace(
                # A neuron with a leak that subtracts keeps a rounded threshold.
                subtract=each.dynamics.subtract & (each.dynamics.potential_decay == 1)
            )
        )
        for each in model.populations
    ]
    return model._replace(populations=tuple(populations))


def integers_of(
    model: SpikingModel, samples: SpikeSamples, shape: CoreShape
) -> tuple[IntegerModel, Schedule]:
    times = schedule(model)
    measured = measured_activity(model, samples, run_reference(model, samples))
    options = IntegerOptions(input_spikes=2)
    return to_integers(model, times, shape, options, measured), times


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("graph", GRAPHS)
def test_integers_of_exact_models_spike_as_their_reals(graph: str, seed: int) -> None:
    model = model_of(graph, seed, exact=True)
    samples = spikes_of(model, SAMPLES, TICKS, seed)
    integers, _ = integers_of(model, samples, SHAPE)
    assert integers.counts[1:] == (0, 0, 0, 0, 0)
    real, whole = run_reference(model, samples), run_integers(integers, model, samples)
    for expected, found in zip(real.spikes, whole.spikes, strict=True):
        for one, other in zip(expected, found, strict=True):
            assert np.array_equal(one, other)
    assert any(each.tick.size for each in whole.spikes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("graph", GRAPHS)
def test_cores_spike_as_the_integer_reference(graph: str, seed: int) -> None:
    """On any mapping; inputs that spike twice per tick, and neurons that subtract."""
    model = model_of(graph, seed, exact=False)
    samples = spikes_of(model, SAMPLES, TICKS, seed)
    shape = CoreShape(neurons=64, sum_bits=12, state_bits=14, delay_slots=8)
    integers, times = integers_of(model, samples, shape)
    expected = as_sets(model, run_integers(integers, model, samples))
    core = np.random.default_rng(seed).integers(0, 4, integers.network.neurons)
    assert chip_spikes(model, integers, times, samples, core, (2, 2)) == expected


@pytest.mark.parametrize("seed", range(40))
def test_late_neurons_are_at_rest_when_they_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = CoreShape(state_bits=16, decay_bits=6)
    size, unity = 30, shape.unity
    subtract = rng.random(size) < 0.4
    neurons = LateNeurons(
        latency=rng.integers(0, 6, size),
        current_decay=rng.choice([0, 40, 60, unity], size),
        potential_decay=rng.choice([0, 30, 62, unity], size),
        current_bias=rng.integers(-3, 4, size) * rng.integers(0, 2, size),
        potential_bias=rng.integers(-3, 4, size) * rng.integers(0, 2, size),
        threshold=rng.integers(20, 60, size),
        reset=np.where(subtract, -1, rng.choice([0, 5], size)),
        origin=np.where(subtract, -1, 0),
    )
    start = start_states(neurons, shape)
    none = np.zeros(0, np.int64)
    network = SpikingNetwork(
        size, none, none, none, threshold=neurons.threshold, reset=neurons.reset,
        current_decay=neurons.current_decay, potential_decay=neurons.potential_decay,
        current_bias=neurons.current_bias, potential_bias=neurons.potential_bias,
        subtract=subtract.astype(np.int64), current=start.current, potential=start.potential,
        waits=start.waits,
    )  # fmt: skip
    state = NeuronStates.of(network)
    for tick in range(int(neurons.latency.max()) + 1):
        ready = (neurons.latency == tick) & ~start.misses
        # A neuron without a current, or without a potential, forgets it.
        at_rest = (state.current == 0) | (neurons.current_decay == 0)
        at_rest &= (state.potential == neurons.origin) | (neurons.potential_decay == 0)
        assert at_rest[ready].all()
        assert (state.waits[ready] == 0).all()
        state, fires = update(network, shape, state, np.zeros(size, np.int64))
        assert not fires[(neurons.latency > tick) & ~start.misses].any()
    assert start.misses.mean() < 0.5


def test_what_does_not_fit_is_named() -> None:
    model = model_of("skip", 0, exact=False)
    times = schedule(model)
    narrow = CoreShape(delay_slots=2)
    with pytest.raises(DoesNotFitError, match=r"p0 to p3: .* delay of 2 ticks"):
        to_integers(model, times, narrow, IntegerOptions())
    late = times._replace(latency=(-1, 0, 1, 70))
    with pytest.raises(DoesNotFitError, match="p3: it starts 70 ticks late"):
        to_integers(model, late, SHAPE, IntegerOptions())


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_weight_has_the_largest_integer(seed: int) -> None:
    """Weights without a common unit use the whole range; others are whole multiples of it."""
    rng = np.random.default_rng(seed)
    units = rng.uniform(0.01, 1, (40, 1))
    steps = np.c_[np.ones(40), rng.integers(-12, 13, (40, 8))]
    weight = np.concatenate([rng.normal(size=(40, 9)), units * steps])
    group = np.repeat(np.arange(80), 9)
    synapses = RealSynapses(group * 0, group, weight.ravel(), group * 0)
    table = weight_table(synapses, np.arange(80), None)
    scale = largest_scales(table, 127, False, weight_units(table, 127))
    found = rounded_weights(synapses, scale).reshape(80, 9)
    assert (np.abs(found[:40]).max(axis=1) == 127).all()
    assert np.array_equal(found[40:], found[40:, :1] * steps)
