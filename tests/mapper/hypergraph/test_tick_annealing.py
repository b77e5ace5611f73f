"""Annealing by cycles per tick: its bounds against the reference and the metric."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.traffic.ticks import tick_bounds
from mapper import map_network
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import UsageError
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.hypergraph import Hypergraph, make_hypergraph
from mapper.hypergraph.net_rows import read_nets
from mapper.hypergraph.thin_nets import _receive, receive, thin_nets, whole_nets
from mapper.hypergraph.tick_annealing import (
    TickCosts,
    TickSchedule,
    anneal_ticks,
    most_cycles,
    move,
    tick_state,
)
from mapper.hypergraph.tick_refinement import DELIVERIES, _work, per_unit, tick_costs
from mapper.planning.plan import Plan
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network
from tests.mapper.hypergraph.test_refinement_kernels import SEEDS, case, tight_mesh
from tests.reference import hypergraph as naive

KINDS = ("neurons", "out", "in", "east", "west", "south", "north")
COSTS = {
    "neuron": 2.0, "packet_out": 0.5, "packet_in": 0.25, "event": 1.5, "link": 0.75,
    "barrier": 9.0, "begin": 20.0,
}  # fmt: skip
TIME = ChipTime(tick=0.25, packet_in=1.0)


def costs_of(delivery: str) -> TickCosts:
    return TickCosts(**COSTS, delivery=DELIVERIES[delivery], links=True)


def bounds_of(nets: Any, core: Any, delivery: str) -> list[list[float]]:
    found = naive.tick_bounds(nets, core.tolist(), 4, 12, delivery, COSTS)
    return [[found[kind, c] for c in range(12)] for kind in KINDS]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_moves_update_all_bounds(seed: int, delivery: str) -> None:
    nets, graph, _, rng = case(seed)
    core = rng.integers(0, 12, graph.vertices).astype(np.int32)
    costs = costs_of(delivery)
    ones = np.ones(graph.vertices, np.int64)
    seen = whole_nets(graph, ones, costs.delivery)
    trees, loads = tick_state(seen, core, CoreMesh(4, 3, np.full(12, 100)), costs)
    assert np.allclose(loads.cycles, bounds_of(nets, core, delivery))
    loads.scale[0] = 1 / most_cycles(loads, costs)
    for _ in range(12):
        before = ((loads.cycles * loads.scale[0]) ** 16).sum()
        price = move(trees, costs, loads, rng.integers(graph.vertices), rng.integers(12))
        after = ((loads.cycles * loads.scale[0]) ** 16).sum()
        assert np.allclose(loads.cycles, bounds_of(nets, core, delivery))
        assert price == pytest.approx(after - before, abs=1e-9)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_bounds_equal_the_metric(folder: Path, delivery: str) -> None:
    """Links of multicast trees are counted as links of packets to cores."""
    path = random_network(folder / "net.bin", 90, 500)
    chip = Chip("c", 4, 3, delivery=delivery, time=TIME)
    core = np.random.default_rng(3).integers(0, 12, 90).astype(np.int32)
    with NetworkFile(path) as network, ThreadTeam(1) as team:
        sizes = network.vertex_sizes()
        nets = read_nets(network, sizes, team)
        costs = tick_costs(chip, network.meta.weight_unit)
        if delivery == "synapse":  # each synapse with the rate of its neuron
            chip = replace(chip, delivery="core")
        expected = tick_bounds(chip, measure_network(network, chip, core), TIME)
    seen = whole_nets(nets, sizes, costs.delivery)
    _, loads = tick_state(seen, core, CoreMesh(4, 3, np.full(12, 90)), costs)
    assert loads.cycles[0].max() == pytest.approx(expected.neurons.max())
    if delivery != "synapse":
        assert loads.cycles[1].max() == pytest.approx(expected.packets_out.max())
        assert loads.cycles[2].max() == pytest.approx(expected.events.max())
    if delivery == "core":
        assert loads.cycles[3:].max() == pytest.approx(expected.links.max())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_tick_gets_longer_and_no_core_overfull(seed: int) -> None:
    _, graph, _, rng = case(seed)
    core, mesh = tight_mesh(graph, rng)
    costs = costs_of("core")
    seen = whole_nets(graph, graph.sizes, costs.delivery)

    def found() -> Any:
        return anneal_ticks(seen, core, mesh, costs, TickSchedule(100), seed)

    some = found()
    assert some.tolist() == found().tolist()
    before = most_cycles(tick_state(seen, core.copy(), mesh, costs)[1], costs)
    after = most_cycles(tick_state(seen, some.copy(), mesh, costs)[1], costs)
    assert after <= before
    assert np.all(np.bincount(some, weights=graph.sizes, minlength=6) <= mesh.capacities)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_sampled_targets_represent_all(seed: int, delivery: str) -> None:
    """Outgoing packets and events are exact; links and incoming packets are estimates."""
    _, graph, _, rng = case(seed)
    core = rng.integers(0, 12, graph.vertices).astype(np.int32)
    costs = costs_of(delivery)
    ones = np.ones(graph.vertices, np.int64)
    mesh = CoreMesh(4, 3, np.full(12, 100))
    half = graph.start[graph.net_count // 2]
    cut = graph.net_count // 2
    lists = [
        (graph.start[: cut + 1], graph.pins[:half], graph.weights[:cut]),
        (graph.start[cut:] - half, graph.pins[half:], graph.weights[cut:]),
    ]
    _, loads = tick_state(whole_nets(graph, ones, costs.delivery), core, mesh, costs)
    for most in (2, 9):
        received = [receive(some, core) for some in lists]
        thin = thin_nets(received, graph.sizes, ones, core, most, costs.delivery, seed)
        degree = np.diff(graph.start) - 1
        assert (np.diff(thin.graph.start) - 1).tolist() == np.minimum(degree, most).tolist()
        pins = [graph.pins[a:b] for a, b in pairwise(graph.start)]
        some = [thin.graph.pins[a:b] for a, b in pairwise(thin.graph.start)]
        for all_of, few in zip(pins, some, strict=True):
            assert few[0] == all_of[0]
            assert len(set(few)) == few.size
            assert set(few) <= set(all_of)
        _, seen = tick_state(thin, core, mesh, per_unit(costs, thin.unit))
        assert np.allclose(seen.cycles[:2], loads.cycles[:2], rtol=0.02)
        events = thin.events / thin.unit
        assert np.allclose(events, whole_nets(graph, ones, costs.delivery).events)
        if most == 9:  # no net has more
            assert np.allclose(seen.cycles, loads.cycles)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("streamed", [False, True])
def test_large_networks_are_refined_by_sampled_targets(
    folder: Path, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("MOST_SLOTS", 2_000_000), ("LEAST", 20_000)):
        monkeypatch.setattr(f"mapper.hypergraph.tick_refinement.{name}", value)
    path = random_network(folder / "net.bin", 300, 6000)
    chip = Chip("c", 4, 4, neurons=100, delivery="core", time=TIME)
    given: Any = {"objective": "time", "preset": "fast", "seed": 1}
    given |= {"net_pins": 0} if streamed else {}
    left = map_network(path, chip, tick_proposals=0, **given)
    found = map_network(path, chip, **given)
    assert found.metrics["tick_cycles"] < left.metrics["tick_cycles"]
    again = map_network(path, chip, threads=3, **given)
    assert found.core.tolist() == again.core.tolist()


def test_no_nets() -> None:
    none = np.zeros(0, np.int64)
    graph = Hypergraph(
        np.zeros(1, np.int64), none.astype(np.int32), none, np.zeros(4, np.int64),
        none.astype(np.int32), np.ones(3, np.int64),
    )  # fmt: skip
    core = np.zeros(3, np.int32)
    costs = costs_of("core")
    seen = whole_nets(graph, graph.sizes, costs.delivery)
    found = anneal_ticks(seen, core, CoreMesh(2, 2, np.full(4, 9)), costs, TickSchedule(9), 1)
    assert found.tolist() == [0, 0, 0]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_run_has_shorter_ticks_on_more_cores(folder: Path, delivery: str) -> None:
    path = random_network(folder / "net.bin", 300, 1500)
    chip = Chip("c", 4, 4, neurons=100, delivery=delivery, time=TIME, unavailable=(3,))
    by = {
        name: map_network(path, chip, objective=name, seed=1, preset="fast")
        for name in ("hops", "time")
    }
    assert by["time"].metrics["tick_cycles"] < by["hops"].metrics["tick_cycles"]
    assert by["hops"].metrics["cores_used"] < by["time"].metrics["cores_used"] == 15
    assert 3 not in by["time"].core


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("objective", "preset"),
    [(each, "fast") for each in ("hops", "time", "unicast", "multicast", "cut")]
    + [("unicast", "classic")],
)
def test_cores_and_fill_set_the_number_of_cores(folder: Path, objective: str, preset: str) -> None:
    path = random_network(folder / "net.bin", 300, 1500)
    chip = Chip("c", 4, 4, neurons=100, delivery="core", time=TIME)
    given: Any = {"objective": objective, "preset": preset}
    few = map_network(path, chip, objective="hops", preset="fast").metrics["cores_used"]
    assert few < map_network(path, chip, cores=8, **given).metrics["cores_used"] <= 8
    found = map_network(path, chip, fill=0.3, **given)
    assert np.bincount(found.core).max() <= 30
    with pytest.raises(UsageError, match=r"chip c has 16 usable cores; give fewer"):
        map_network(path, chip, cores=17, **given)


def test_a_chip_without_times_is_refused(folder: Path) -> None:
    path = random_network(folder / "net.bin", 30, 100)
    with pytest.raises(
        UsageError, match=r"needs cycles, but chip c has none; give a chip file with a table"
    ):
        map_network(path, Chip("c", 4, 4), objective="time")


@pytest.mark.parametrize("seed", SEEDS)
def test_received_events_and_reached_cores(seed: int) -> None:
    _, graph, _, rng = case(seed)
    core = rng.integers(0, 5, graph.vertices).astype(np.int32)
    events, reached = np.zeros(graph.vertices), np.empty(graph.net_count, np.int64)
    marks = np.full(5, -1, np.int64)
    _receive(graph.start, graph.pins, graph.weights, core, marks, events, reached)
    expected = [0] * graph.vertices
    for e, (low, high) in enumerate(pairwise(graph.start.tolist())):
        targets = graph.pins[low + 1 : high].tolist()
        for v in targets:
            expected[v] += int(graph.weights[e])
        assert reached[e] == len({int(core[v]) for v in targets})
    assert events.tolist() == expected


def test_with_little_time_the_nets_of_the_slowest_cores_are_preferred() -> None:
    """Half of the proposals are vertices on such cores."""
    nets = 40
    pins = np.array([[e % 8, 8 + e % 2] for e in range(nets)], np.int32).ravel()
    start, weights = np.arange(0, 2 * nets + 1, 2), np.ones(nets, np.int64)
    graph = make_hypergraph(start, pins, weights, np.ones(10, np.int64))
    core = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2], np.int32)
    mesh = CoreMesh(3, 1, np.full(3, 10))
    seen = whole_nets(graph, np.ones(10, np.int64), DELIVERIES["core"])
    plan = Plan(1 << 30, {"read": 1}, 0, 0, True, 0, 1 << 20, 0, 1, nets_held=True)
    usual, little = (
        _work(seen, core, mesh, SimpleNamespace(plan=replace(plan, net_work=share)))  # type: ignore[arg-type]
        for share in (1.0, 0.5)
    )
    of_all, of_slowest = nets * 2 / 10, nets / 2  # nets per vertex
    assert little / usual == pytest.approx((of_all + of_slowest) / 2 / of_all)
