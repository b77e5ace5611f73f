"""Streamed refinement by connectivity against its reference, and whole runs in both modes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import UsageError
from mapper.graph.affinity import favourites
from mapper.graph.csr import Chunk
from mapper.graph.rows import StreamedRows
from mapper.hypergraph.hypergraph import connectivity
from mapper.hypergraph.net_rows import NetReader, net_traffic, read_nets
from mapper.hypergraph.streamed import (
    _add_gains,
    refine_streamed,
    streamed_traffic,
)
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.planning.strategy import make_plan
from mapper.scoring.measure import measure_network
from mapper.settings import HOPS, Settings, preset
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import hypergraph as naive

SEEDS = range(8)


def write(path: Path, neurons: int, fanout: int, seed: int, undirected: bool = False) -> Path:
    """Write neurons on a line with nearby targets; some are silent, some have size 0."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(neurons), fanout)
    target = (source + rng.integers(1, 8, source.size)) % neurons
    with NetworkWriter(path, neurons, undirected=undirected, block_size=16) as writer:
        writer.add(source, target, rng.integers(1, 9, source.size))
        writer.set_attribute("rate", rng.integers(0, 5, neurons))
        writer.set_attribute("size", (np.arange(neurons) % 7 > 0).astype(np.int64))
        writer.finish()
    return path


@pytest.mark.parametrize("seed", SEEDS)
def test_favourites(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        [(int(u), int(w)) for u, w in zip(rng.permutation(12)[:k], rng.integers(0, 5, k),
                                          strict=True)]
        for k in rng.integers(0, 6, 5)
    ]  # fmt: skip
    part = rng.integers(0, 4, 12).astype(np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    ids = np.array([u for row in rows for u, _ in row], np.int32)
    weights = np.array([w for row in rows for _, w in row], np.int32)
    affinity, touched = np.zeros((2, 4), np.int64)
    target, strength = np.empty((2, 5), np.int64)
    favourites(Chunk(3, indptr, ids, weights), part, affinity, touched, target, strength)
    assert not affinity.any()
    for i, row in enumerate(rows):
        found = naive.pulls(row, part.tolist(), int(part[3 + i]))
        if found:
            assert found[int(target[i])] == max(found.values()) == strength[i]
        else:
            assert target[i] == -1


@pytest.mark.parametrize("seed", SEEDS)
def test_gains_add_up_net_by_net(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nets = naive.random_nets(rng, 14, 20)
    graph = naive.as_graph(nets, [1] * 14)
    part = rng.integers(0, 4, 14).astype(np.int32)
    target = rng.integers(-1, 4, 14).astype(np.int32)
    target[target == part] = -1
    gain, count = np.zeros(14, np.int64), np.zeros(4, np.int64)
    cost = _add_gains(graph.start, graph.pins, graph.weights, part, target, count, gain)
    assert cost == naive.cost(nets, part.tolist())
    assert not count.any()
    for v in range(14):
        expected = naive.gains(nets, part.tolist(), 4, v)[target[v]] if target[v] >= 0 else 0
        assert gain[v] == expected


@pytest.mark.parametrize("undirected", [False, True])
def test_passes_save_connectivity_for_any_number_of_threads(
    undirected: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / "net.bin", 200, 4, 1, undirected)
    with NetworkFile(path) as network:
        sizes = network.vertex_sizes()
        start = (np.arange(200) // 40).astype(np.int32)
        start[::9] = np.random.default_rng(2).integers(0, 5, start[::9].size)
        room = np.full(5, 40)
        assert np.bincount(start, sizes).max() <= 40
        ends = []
        for threads in (1, 3):
            with ThreadTeam(threads) as team:
                graph = read_nets(network, sizes, team)
                part = start.copy()
                rows = StreamedRows(network, sizes, 0)
                costs = [
                    refine_streamed(rows, NetReader(network), part, room, 5, index, team)
                    for index in range(4)
                ]
                assert costs[0][0] > 0
                assert connectivity(graph, part, 5) < connectivity(graph, start, 5)
                assert np.bincount(part, sizes).max() <= 40
                exact = net_traffic(graph, part, 5)
                nets = NetReader(network)
                traffic = streamed_traffic(rows, nets, part, 5, 1 << 20, tmp_path, team)
                for name in ("indptr", "ids", "weights", "sizes"):
                    assert getattr(traffic, name).tolist() == getattr(exact, name).tolist()
                few = streamed_traffic(rows, nets, part, 5, 100, tmp_path, team)
                assert few.sizes.tolist() == exact.sizes.tolist()
                ends.append(part.tolist())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("undirected", [False, True])
def test_net_costs_equal_the_metric(undirected: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "net.bin", 60, 3, 4, undirected)
    chip = Chip(name="tiny", width=3, height=2, neurons=100)
    core = np.random.default_rng(0).integers(0, 6, 60).astype(np.int32)
    with NetworkFile(path) as network, ThreadTeam(1) as team:
        graph = read_nets(network, network.vertex_sizes(), team)
        measured = measure_network(network, chip, core)
        assert connectivity(graph, core, 6) == measured.connectivity
        nets = naive.as_nets(graph)
        assert naive.tree_cost(nets, core.tolist(), 3, 0) == measured.multicast_links.sum()


TINY = Chip(name="tiny", width=3, height=2, neurons=32)


def mapped(
    path: Path, folder: Path, settings: Settings, chip: Chip = TINY
) -> tuple[list[int], int, int]:
    with NetworkFile(path) as network, Scratch(folder) as scratch:
        found = map_network(network, chip, settings, scratch, Monitor())
        loads = np.bincount(found.core, network.vertex_sizes())
    assert loads.max() <= chip.neurons
    return found.core.tolist(), found.traffic.connectivity, int(found.traffic.multicast_links.sum())


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("name", ["fast", "default", "strong"])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.usefixtures("light_placement")
def test_whole_runs(name: str, undirected: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "net.bin", 200, 4, 3, undirected)
    settings = preset(name, objective="multicast", memory_bytes=1 << 30, recuts=2, tree_cycles=1)
    first = mapped(path, tmp_path / "a", settings)
    assert first == mapped(path, tmp_path / "b", replace(settings, threads=3))
    unicast = mapped(path, tmp_path / "c", replace(settings, objective="unicast"))
    assert first[1] <= unicast[1]


@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
def test_runs_whose_nets_do_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.planning.memory.NET_BYTES", 1 << 40)
    path = write(tmp_path / "net.bin", 200, 4, 3)
    settings = preset("default", objective="multicast", memory_bytes=1 << 30)
    with NetworkFile(path) as network:
        plan = make_plan(network, Chip(name="tiny", width=3, height=2, neurons=32), settings)
        assert not plan.nets_held
        assert plan.stages["net refinement"] > 0
    first = mapped(path, tmp_path / "a", settings)
    assert first == mapped(path, tmp_path / "b", replace(settings, threads=3))


@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("objective", ["core", "multicast"])
def test_large_nets_are_refined_by_a_sample(objective: str, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    rng = np.random.default_rng(1)
    source = np.repeat(np.arange(300), 150)
    near = (source // 50 * 50 + rng.integers(0, 150, source.size)) % 300
    with NetworkWriter(path, 300) as writer:
        writer.add(source, near, np.ones(source.size, np.int64))
        writer.finish()
    changes = {"net_pins": 0, "level_budget": 0}
    settings = preset("fast", objective=objective, memory_bytes=1 << 30, **changes)
    chip = Chip(
        name="tiles", width=4, height=4, neurons=25, machine=Machine(4, 4, tile=Block(2, 2, 0.0))
    )
    with NetworkFile(path) as network:
        plan = make_plan(network, chip, settings)
        assert 0 < plan.net_share < 1
    first = mapped(path, tmp_path / "a", settings, chip)
    assert first == mapped(path, tmp_path / "b", replace(settings, threads=3), chip)


def test_objectives_are_checked() -> None:
    with pytest.raises(UsageError, match="objective is 'hop'; give hops, time, unicast, core"):
        preset("default", objective="hop")
    for name in ("core", "multicast"):
        with pytest.raises(UsageError, match=f"the preset classic has no objective {name}"):
            preset("classic", objective=name)


def test_hops_follow_the_delivery_of_the_chip() -> None:
    for delivery, objective in HOPS.items():
        assert preset("default").resolved(delivery).objective == objective
        assert preset("classic").resolved(delivery).objective == "unicast"
        assert preset("fast", objective="cut").resolved(delivery).objective == "cut"
