"""Cycles of a tick on core and mesh equal the defaults of the `[time]` table."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from chipsim.chip.time import ChipTime
from hw.chip import ChipDesign
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import make_tables

CORE = CoreShape(neurons=32, axons=64, routes=128, synapses=256)
TIME = ChipTime()


@cache
def simulator(width: int, height: int) -> ChipSimulator:
    return ChipSimulator(ChipDesign(width, height, CORE))


def cycles(
    size: tuple[int, int], core: list[int], spiking: list[int], synapses: list[tuple[int, int]]
) -> int:
    """Return the cycles of a tick in which given neurons spike.

    core : core of each neuron
    synapses : source, target
    """
    source, target = np.array(synapses, np.int64).reshape(-1, 2).T
    threshold = np.full(len(core), 1000)
    threshold[spiking] = -1000
    network = SpikingNetwork(len(core), source, target, np.ones(source.size, int), threshold)
    chip = simulator(*size)
    tables = make_tables(network, np.array(core), *size, chip.chip.shape)
    run = chip.run(tables, 2)
    assert run.spikes.sum(axis=1).tolist() == [len(spiking)] * 2
    assert run.cycles[0] == run.cycles[1]
    return int(run.cycles[0])


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("neurons", [1, 2, 9, 32])
def test_neurons(neurons: int) -> None:
    """The neurons of the fullest core, one by one, and the barrier."""
    core = [*[0] * neurons, *[1] * (neurons // 2)]
    assert cycles((4, 1), core, [], []) == TIME.barrier + neurons * TIME.neuron


def test_a_spike() -> None:
    """From the update of the neuron to the sum of its target, in its own core."""
    assert cycles((4, 1), [0], [0], [(0, 0)]) == TIME.barrier + TIME.spike


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_hops(hops: int) -> None:
    found = cycles((4, 1), [0, hops], [0], [(0, 1)])
    assert found == TIME.barrier + TIME.spike + hops * TIME.hop


@pytest.mark.parametrize("events", [2, 10, 30])
def test_events(events: int) -> None:
    """One packet with several events."""
    core = [0, *[1] * events]
    found = cycles((4, 1), core, [0], [(0, n) for n in range(1, events + 1)])
    expected = TIME.barrier + TIME.spike + TIME.hop + (events - 1) * TIME.event
    assert found == max(expected, TIME.barrier + events * TIME.neuron)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_packets_out() -> None:
    """A neuron sends to four cores; the last one is its own."""
    found = cycles((2, 2), [3, 0, 1, 2], [0], [(0, n) for n in (1, 2, 3, 0)])
    assert found == TIME.barrier + TIME.spike + 3 * TIME.packet_out


@pytest.mark.parametrize(("packets", "events"), [(2, 8), (8, 4), (16, 2)])
def test_packets_in(packets: int, events: int) -> None:
    """From a row of neurons; each has the same number of events, without idle cycles between."""
    core = [*[0] * packets, *[1] * events]
    synapses = [(n, packets + e) for n in range(packets) for e in range(events)]
    found = cycles((4, 1), core, list(range(packets)), synapses)
    work = packets * (TIME.packet_in + events * TIME.event)
    assert found == TIME.barrier + TIME.spike + TIME.hop + work - TIME.event


@pytest.mark.parametrize("each", [8, 12])
def test_a_link(each: int) -> None:
    """Two cores send over the same link, alternating between two cores after it."""
    core = [*[0] * each, *[1] * each, 2, 3]
    synapses = [(n, 2 * each + (n + n // each) % 2) for n in range(2 * each)]
    found = cycles((4, 1), core, list(range(2 * each)), synapses)
    least = TIME.barrier + TIME.spike + TIME.hop + (2 * each - 1) * TIME.link
    assert least <= found <= least + TIME.hop
