"""The tick kernel takes exactly the cycles of the Amaranth chip when the same neurons spike."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes
from chipsim.ticks.run import TickSimulator
from hw.chip import Borders, ChipDesign
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import ChipTables, make_tables
from tests.hw.networks import layered, random_inputs, random_network, recurrent, ring

CORE = CoreShape(neurons=64, axons=256, routes=512, synapses=1024)
TICKS = 12
SIZES = [(2, 1), (3, 3), (4, 2)]
NETWORKS = {
    "ring": ring,
    "layered": layered,
    "recurrent": recurrent,
    "dense": lambda: random_network(np.random.default_rng(1), 60, 600, CORE, inputs=3),
    "few": lambda: random_network(np.random.default_rng(2), 9, 40, CORE, inputs=3),
}


@cache
def chip(width: int, height: int) -> ChipSimulator:
    return ChipSimulator(ChipDesign(width, height, CORE, borders=Borders(output=True)))


@cache
def wide() -> ChipSimulator:
    """Return a row of cores with more neurons."""
    return ChipSimulator(ChipDesign(4, 1, replace(CORE, neurons=256)))


def simulator(tables: ChipTables) -> TickSimulator:
    """Return the tick simulator for the routes in the tables of the cores."""
    mesh = Mesh(tables.width, tables.height)
    used = [core.used for core in tables.cores]
    packets = [
        core.routes[core.route_indptr[n] : core.route_indptr[n + 1]].tolist()
        for core in tables.cores
        for n in range(core.used)
    ] + [list(map(list, sent)) for sent in tables.input_packets]
    rows = np.array(
        [
            (slot, y * mesh.width + x, axon)
            for slot, sent in enumerate(packets)
            for x, y, axon in sent
        ]
    ).reshape(-1, 3)
    events = [core.lists[:, 1] for core in tables.cores]
    events.append(np.zeros(tables.shape.axons, np.int64))  # of the host
    made = np.array([events[core][axon] for _, core, axon in rows.tolist()], np.int64)
    origin = np.r_[np.repeat(np.arange(mesh.nodes), used), np.zeros(len(tables.input_packets), int)]
    first = np.r_[0, np.cumsum(used)]
    routes = core_routes(mesh, origin, first, rows[:, 0].copy(), rows[:, 1].copy(), made)
    return TickSimulator(mesh, ChipTime(), routes)


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([one for each in lists for one in each], np.int64)
    return values, np.cumsum([0, *map(len, lists)]).astype(np.int64)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", NETWORKS)
def test_cycles_are_equal(name: str, size: tuple[int, int]) -> None:
    network = NETWORKS[name]()
    rng = np.random.default_rng(len(name))
    most = 2 * -(-network.neurons // (size[0] * size[1]))
    if most > CORE.neurons or 2 * network.source.size > CORE.synapses * size[0] * size[1]:
        pytest.skip("more than the cores hold")
    places = np.repeat(np.arange(size[0] * size[1]), most)
    core = rng.permutation(places)[: network.neurons]
    watched = rng.permutation(network.neurons)[::3].tolist()
    tables = make_tables(network, core, *size, chip(*size).chip.shape, watched)
    inputs = random_inputs(rng, network, TICKS)
    run = chip(*size).run(tables, TICKS, inputs)
    order = np.concatenate([core.neurons for core in tables.cores])
    spikes = [np.flatnonzero(row[order]).tolist() for row in run.spikes]
    host = [[network.neurons + one for one in told] for told in inputs] or [[] for _ in spikes]
    found = simulator(tables).run(*ragged(spikes), *ragged(host))
    assert np.array_equal(found.cycles, run.cycles)
    assert found.heard == sum(map(len, run.heard))
    assert found.taken.sum() + found.heard == run.packets


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_bursts_are_equal(seed: int) -> None:
    """All neurons spike in every tick: queues fill, and routers wait for each other."""
    rng = np.random.default_rng(seed)
    neurons = (24, 48, 96, 120)[seed]
    source, target = rng.integers(0, neurons, (2, 6 * neurons))
    weight = np.ones(source.size, np.int64)
    network = SpikingNetwork(neurons, source, target, weight, np.full(neurons, -1000))
    core = rng.permutation(np.arange(neurons) % 4)
    tables = make_tables(network, core, 2, 2, chip(2, 2).chip.shape)
    run = chip(2, 2).run(tables, 3)
    assert run.spikes.all()
    spikes, none = ragged([list(range(neurons))] * 3), ragged([[]] * 3)
    found = simulator(tables).run(*spikes, *none)
    assert np.array_equal(found.cycles, run.cycles)
    assert found.taken.sum() == run.packets


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("spiking", [16, 22, 28])
def test_a_stalled_sender_stalls_its_neurons(spiking: int) -> None:
    """Core 0 keeps core 2 busy; packets of core 1 wait after its packets.

    Core 1 still has neurons to update when the last of its spikes enters the queue: the tick ends
    with them.
    """
    slow, silent, targets = 8, 200, 20
    core = np.repeat([0, 1, 2, 3], [slow, spiking + silent, targets, 1])
    fire = np.r_[0:slow, slow : slow + spiking]
    first_target = slow + spiking + silent
    synapses = [(n, first_target + t) for n in range(slow) for t in range(targets)]
    synapses += [(slow + n, core.size - 1) for n in range(spiking)]
    source, target = np.array(synapses).T
    threshold = np.full(core.size, 1000)
    threshold[fire] = -1000
    network = SpikingNetwork(core.size, source, target, np.ones(source.size, int), threshold)
    tables = make_tables(network, core, 4, 1, wide().chip.shape)
    run = wide().run(tables, 2)
    spikes, none = ragged([fire.tolist()] * 2), ragged([[], []])
    found = simulator(tables).run(*spikes, *none)
    assert np.array_equal(found.cycles, run.cycles)
    assert found.swept.max() > found.received.max()
