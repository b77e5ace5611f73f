"""Kernel of spiking cores against numpy: every spike, state, event and saturation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chipsim.spiking.play import HostSpikes, SpikingRun
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.tables import ChipTables, make_tables
from mapper.spiking.slots import Slots
from tests.reference.spiking_cores import ExpectedRun, run_network
from tests.tiers import Some

TICKS = 12
Rng = np.random.Generator


def random_shape(rng: Rng, neurons: int) -> CoreShape:
    weight_bits = int(rng.integers(2, 17))
    deep = dict.fromkeys(("axons", "routes", "synapses"), 1 << 14)
    return CoreShape(
        neurons=max(2, 1 << (neurons - 1).bit_length()), **deep, profiles=256,
        delay_slots=1 << int(rng.integers(1, 7)), state_bits=int(rng.integers(4, 33)),
        decay_bits=int(rng.integers(1, 17)), weight_bits=weight_bits,
        sum_bits=weight_bits + int(rng.integers(2, 33)), shift_bits=int(rng.integers(1, 6)),
        refractory_bits=int(rng.integers(1, 5)),
    )  # fmt: skip


def mixed(rng: Rng, low: int, high: int, size: int) -> np.ndarray:
    """Return extreme, small and arbitrary values between low and high, both included."""
    small = np.clip(rng.integers(-3, 4, size), low, high)
    kinds = [np.full(size, low), np.full(size, high), small, rng.integers(low, high + 1, size)]
    return np.choose(rng.choice(4, size, p=rng.dirichlet(np.ones(4))), kinds)


def random_network(rng: Rng, shape: CoreShape, neurons: int) -> SpikingNetwork:
    """Return neurons of all kinds, with synapses that repeat from source to source."""
    inputs = int(rng.integers(0, 4))
    top = (1 << (shape.state_bits - 1)) - 1
    heavy = (1 << (shape.weight_bits - 1)) - 1
    synapses = int(rng.integers(0, 5 * neurons))
    source, target = rng.integers(0, neurons + inputs, synapses), rng.integers(0, neurons, synapses)
    if rng.random() < 0.5:  # lists that differ in their first neuron alone
        step = rng.integers(0, 3, synapses)
        target = (source + step) % neurons
    room = ((1 << (shape.sum_bits - 1)) - 1) // max(1, np.bincount(target).max(initial=0))
    bound = min(heavy, room)

    def value(chance: float = 1.0) -> np.ndarray:
        return mixed(rng, -top - 1, top, neurons) * (rng.random() < chance)

    return SpikingNetwork(
        neurons, source, target,
        np.full(synapses, bound) if rng.random() < 0.3 else mixed(rng, -bound, bound, synapses),
        threshold=np.maximum(value(), 1) if rng.random() < 0.6 else value(),
        delay=rng.integers(0, shape.longest_delay + 1, synapses),
        reset=value(0.5),
        current_decay=mixed(rng, 0, shape.unity, neurons) * (rng.random() < 0.6),
        potential_decay=mixed(rng, 0, shape.unity, neurons) if rng.random() < 0.7 else None,
        current_bias=value(0.4),
        potential_bias=value(0.4),
        shift=rng.integers(0, 1 << shape.shift_bits, neurons) * (rng.random() < 0.5),
        refractory=rng.integers(0, 1 << shape.refractory_bits, neurons) * (rng.random() < 0.5),
        subtract=rng.integers(0, 2, neurons),
        silent=(rng.random(neurons) < 0.2).astype(np.int64),
        current=value(0.5), potential=value(0.5),
        waits=rng.integers(0, 1 << shape.refractory_bits, neurons) * (rng.random() < 0.3),
        inputs=inputs,
    )  # fmt: skip


def random_told(rng: Rng, senders: int) -> list[list[int]]:
    """Return neurons and inputs that the host has spike; some repeat within a tick."""
    rate = rng.choice([0, 0.2, 2])
    return [rng.integers(0, senders, rng.poisson(rate)).tolist() for _ in range(TICKS)]


def rotated(rng: Rng, tables: ChipTables) -> ChipTables:
    """Return the same tables with other bases, and neurons that pass the last one."""
    highest, cores = tables.shape.neurons - 1, []
    for core in tables.cores:
        turn = int(rng.integers(0, highest + 1))
        lists, synapses = core.lists.copy(), core.synapses.copy()
        lists[:, 2] = (lists[:, 2] + turn) & highest
        synapses[:, 0] = (synapses[:, 0] - turn) & highest
        cores.append(replace(core, lists=lists, synapses=synapses))
    return replace(tables, cores=tuple(cores))


def check(
    slots: Slots, run: SpikingRun, network: SpikingNetwork, told: list[list[int]],
    expected: ExpectedRun, cut: int,
) -> None:  # fmt: skip
    """Run a part of the ticks, then the rest, and compare with the reference."""
    spikes = np.zeros((TICKS, network.neurons), bool)
    watched = np.arange(network.neurons)[:: 1 + cut % 3]
    for first, last in pairwise([0, cut, TICKS]):
        ends = np.cumsum([0, *(len(one) for one in told[first:last])]).astype(np.int64)
        given = np.array([one for row in told[first:last] for one in row], np.int64)
        log = run.run(HostSpikes(slots.sender[given], ends), slots.sender[watched])
        for tick, (begin, end) in enumerate(pairwise(log.ends)):
            assert (np.diff(log.slot[begin:end]) > 0).all()
            spikes[first + tick, slots.neurons[log.slot[begin:end]]] = True
        assert np.array_equal(log.potential, expected.potentials[first:last, watched])
    assert np.array_equal(spikes, expected.spikes)
    own = slots.sender[: network.neurons]
    assert np.array_equal(run.states[own], np.column_stack(expected.states))
    assert np.array_equal(run.saturated[own], expected.saturated)
    assert run.events == expected.events


def test_random_networks(some: Some) -> None:
    """All kinds of neurons, delays and lists, on random mappings; sums of repeated spikes wrap."""
    for seed in some(range(1000), 12):
        rng = np.random.default_rng(seed)
        neurons = int(rng.choice([2, 5, 9, 70], p=[0.3, 0.3, 0.35, 0.05]))
        shape = random_shape(rng, neurons)
        network = random_network(rng, shape, neurons)
        width, height = (int(n) for n in rng.integers(1, 4, 2))
        cores = width * height
        seen = rng.permutation(neurons)[: rng.integers(0, 3)].tolist()
        core = rng.integers(0, cores, neurons)
        tables = make_tables(network, core, width, height, shape, seen)
        slots = Slots.of(rotated(rng, tables))
        told = random_told(rng, neurons + network.inputs)
        expected = run_network(network, shape, told)
        run = SpikingRun(slots.cores)
        check(slots, run, network, told, expected, int(rng.integers(0, TICKS + 1)))
        run.restart()
        check(slots, run, network, told, expected, int(rng.integers(0, TICKS + 1)))


@pytest.mark.parametrize("leak", [None, 0])
def test_the_log_grows(leak: int | None) -> None:
    """All neurons fire in every tick, which exceeds the first allocation of the log."""
    shape = replace(CoreShape(), neurons=16)
    none = np.zeros(0, np.int64)
    kept = None if leak is None else np.full(20, leak)
    network = SpikingNetwork(
        20, none, none, none, threshold=np.zeros(20, np.int64), potential_decay=kept
    )
    slots = Slots.of(make_tables(network, np.arange(20) % 2, 2, 1, shape))
    log = SpikingRun(slots.cores).run(HostSpikes(none, np.zeros(101, np.int64)), none)
    assert np.array_equal(log.slot, np.tile(np.arange(20), 100))
    assert np.array_equal(log.ends, 20 * np.arange(101))
