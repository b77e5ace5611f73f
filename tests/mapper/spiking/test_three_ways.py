"""Random networks in numpy, in the kernels and in Amaranth: the same spikes, states and cycles.

The host receives the same packets of outputs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.spiking.play import HostSpikes, SpikingRun
from chipsim.ticks.run import TickSimulator
from hw.chip import Borders, ChipDesign
from hw.core.arithmetic import simulate
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.run import ChipSimulator
from hw.tables import make_tables
from mapper.spiking.slots import Slots
from tests.hw.networks import TINY, random_inputs, random_network, with_kernels

TICKS, EACH = 12, 20
SHAPES: dict[str, tuple[tuple[int, int], CoreShape]] = {
    "tiny": ((2, 1), TINY),
    "no delays": ((3, 1), replace(TINY, delay_slots=2, state_bits=12, decay_bits=8)),
    "long delays": (
        (2, 2), CoreShape(neurons=16, axons=64, routes=64, synapses=256, delay_slots=64)
    ),
}  # fmt: skip
"""Chips and cores."""


@cache
def chip(name: str) -> ChipSimulator:
    (width, height), shape = SHAPES[name]
    return ChipSimulator(ChipDesign(width, height, shape, borders=Borders(output=True)))


def check(name: str, seed: int) -> tuple[int, int]:
    """Compare a random network; return its spikes, and the synapses that share words."""
    rng = np.random.default_rng([11, seed])
    hardware = chip(name)
    shape, (width, height) = hardware.chip.shape, SHAPES[name][0]
    cores = width * height
    network = random_network(
        rng, int(rng.integers(1, cores * shape.neurons * 3 // 4)), int(rng.integers(0, 60)), shape
    )
    if rng.random() < 0.4:
        network = with_kernels(rng, network)
    core = np.sort(rng.permutation(np.arange(network.neurons) % cores))
    if rng.random() < 0.5:
        core = rng.permutation(core)
    watched = rng.permutation(network.neurons)[: rng.integers(0, 12)]
    try:
        tables = make_tables(network, core, width, height, shape, watched.tolist())
    except HwError:  # more axons or profiles than a core has
        return 0, 0
    inputs = random_inputs(rng, network, TICKS) or [[] for _ in range(TICKS)]
    spikes, state = simulate(network, shape, TICKS, inputs)
    found = hardware.run(tables, TICKS, inputs)
    assert np.array_equal(found.spikes, spikes)
    assert np.array_equal(found.states, np.column_stack(state))
    heard = [sorted(axons) for axons in found.heard]
    assert heard == [np.flatnonzero(fired[watched]).tolist() for fired in spikes]

    slots = Slots.of(tables)
    told = [network.neurons + np.array(each, np.int64) for each in inputs]
    ends = np.cumsum([0, *map(len, told)])
    sender = slots.sender[np.concatenate(told)]
    run = SpikingRun(slots.cores)
    log = run.run(HostSpikes(sender, ends), np.zeros(0, np.int64))
    tick = np.repeat(np.arange(TICKS), np.diff(log.ends))
    fired = np.zeros_like(spikes)
    fired[tick, slots.neurons[log.slot]] = True
    assert np.array_equal(fired, spikes)
    assert np.array_equal(run.states[slots.sender[: network.neurons]], found.states)

    mesh = Mesh(width, height)
    timed = TickSimulator(mesh, ChipTime(), slots.routes(mesh, tree=False))
    ticks = timed.run(log.slot.astype(np.int64), log.ends, sender + network.neurons, ends)
    assert np.array_equal(ticks.cycles, found.cycles)
    assert ticks.heard == sum(map(len, heard))
    words = sum(len(part.synapses) for part in tables.cores)
    return int(spikes.sum()), network.source.size - words


@pytest.mark.heavy
@pytest.mark.sample(0.1)
@pytest.mark.parametrize("block", range(17))
@pytest.mark.parametrize("name", SHAPES)
def test_three_ways(name: str, block: int) -> None:
    """1,020 networks in all, of all kinds of neurons, delays and lists."""
    found = [check(name, block * EACH + seed) for seed in range(EACH)]
    spikes, shared = zip(*found, strict=True)
    assert np.count_nonzero(spikes) > EACH // 2
    assert any(shared)
