"""Limits of a core: counted, bounded, repaired, and kept by whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.limits import violations
from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.limits.axons import _fitting, make_job
from mapper.limits.capacity import axon_bounds, demands
from mapper.limits.combined import combine_capacity
from mapper.limits.domains import Domains
from mapper.limits.enforce import Items, Load, RepairBudget, repair
from mapper.limits.exchange import (
    ExchangeSearch,
    Net,
    _count,
    _fill_table,
    _judge,
    _leaving,
    _move,
    _relief,
)
from mapper.limits.use import (
    BITS,
    NO_LIMIT,
    BitCosts,
    Use,
    count_fans,
    count_use,
    excess,
    weight_of_excess,
)
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.results.output import scratch_in
from mapper.settings import preset
from storage.store.memory import MemoryGraph
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network
from tests.reference import limits as twin

pytestmark = pytest.mark.usefixtures("light_placement")

SEEDS = range(20)


def directed(
    rng: np.random.Generator, n: int, m: int, undirected: bool = False
) -> tuple[MemoryGraph, twin.Edges]:
    """Return a random network and its synapses, in both directions for an undirected one."""
    source, target = rng.integers(0, n, (2, m))
    sizes = rng.integers(1, 4, n)
    graph = MemoryGraph.from_edges(
        n, source, target, sizes=sizes, undirected=undirected, block_size=8
    )
    edges = {(int(s), int(t)) for s, t in zip(source, target, strict=True) if s != t}
    if undirected:
        edges |= {(t, s) for s, t in edges}
    return graph, sorted(edges)


def random_items(rng: np.random.Generator, n: int, single: bool) -> Items:
    if single:
        return Items.single(n)
    item = np.unique(rng.integers(0, n, n), return_inverse=True)[1].astype(np.int32)
    return Items(item, np.zeros(int(item.max()) + 1, np.bool_))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_use_is_counted_as_defined(seed: int, undirected: bool, threads: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(1, 50)), int(rng.integers(1, 9))
    graph, edges = directed(rng, n, int(rng.integers(0, 200)), undirected)
    part = rng.integers(0, parts, n).astype(np.int32)
    fans = count_fans(graph)
    assert fans.into.tolist() == [sum(t == v for _, t in edges) for v in range(n)]
    assert fans.out.tolist() == [sum(s == v for s, _ in edges) for v in range(n)]
    copies = bool(seed % 2)
    bits = BitCosts(seed % 3, seed % 5)
    with ThreadTeam(threads) as team:
        use = count_use(graph, part, parts, graph.vertex_sizes(), fans.into, team, copies, bits)
    sizes = graph.vertex_sizes().tolist()
    assert use.table.tolist() == twin.use(edges, part.tolist(), parts, sizes, copies, bits)
    assert use.reach.tolist() == twin.reach(edges, part.tolist())


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_moves_update_all_sums(seed: int, single: bool) -> None:
    """After every move all sums equal recomputed ones, and the predicted changes are correct."""
    rng = np.random.default_rng(seed)
    n, parts = int(rng.integers(2, 30)), int(rng.integers(2, 7))
    graph, edges = directed(rng, n, int(rng.integers(0, 120)))
    items = random_items(rng, n, single)
    place = rng.integers(0, parts, items.count).astype(np.int32)
    limits = rng.integers(1, 20, 5).astype(np.int64)
    bits = BitCosts(seed % 3, seed % 5)
    weight = weight_of_excess(limits)
    fans = count_fans(graph)
    sizes, fan_in = items.total(graph.vertex_sizes()), items.total(fans.into)
    with ThreadTeam(1) as team:
        copies = bool(seed % 2)
        use = count_use(
            graph, place[items.item], parts, graph.vertex_sizes(), fans.into, team, copies, bits
        )
    sources: list[list[int]] = [[] for _ in range(items.count)]
    for s, t in edges:
        sources[items.item[t]].append(s)
    rows = np.array([s for row in sources for s in sorted(row)], np.int32)
    end = np.cumsum([len(row) for row in sources])
    start = end - [len(row) for row in sources]
    keys, counts = np.full(4096, -1, np.int64), np.zeros(4096, np.int32)
    every = np.arange(items.count)
    used = np.array([_fill_table(every, start, end, rows, place, parts, keys, counts), 4096])
    held = bits.of(sizes, fan_in)
    domains = Domains.of_fixed(items.fixed, parts)
    net = Net(
        items.item, *items.members(), sizes, fan_in, held, start, end, rows, items.fixed,
        domains.kind, domains.table,
    )  # fmt: skip
    search = ExchangeSearch(place, use.reach, use.table, limits, weight, keys, counts, used, copies)
    plain = graph.vertex_sizes().tolist()
    for _ in range(20):
        v, to = int(rng.integers(items.count)), int(rng.integers(parts))
        own = int(place[v])
        if own == to:
            continue
        before = twin.excess(use.table.tolist(), limits.tolist(), weight.tolist())
        leaving = _leaving(v, own, net, search)
        _, new = _judge(v, to, leaving, net, search)
        here = {s for s, t in edges if place[items.item[t]] == to}
        assert new == len(set(sources[v]) - here)
        relief = _relief(v, own, leaving, net, search)
        assert relief >= 0
        change = _move(v, to, net, search)
        part = place[items.item].tolist()
        assert place[v] == to
        assert use.table.tolist() == twin.use(edges, part, parts, plain, copies, bits)
        assert use.reach.tolist() == twin.reach(edges, part)
        after = twin.excess(use.table.tolist(), limits.tolist(), weight.tolist())
        assert change == after - before
    for s in range(n):
        for k in range(parts):
            there = sum(a == s and place[items.item[t]] == k for a, t in edges)
            assert _count(keys, counts, s * parts + k) == there


def random_load(seed: int, slack: float) -> tuple[Load, NDArray[np.int32], int]:
    """Return a network, a random partition, and limits about `slack` above the mean use."""
    rng = np.random.default_rng(seed)
    n, parts = 160, 16
    graph, _ = directed(rng, n, 1200)
    fan_in = count_fans(graph).into
    place = rng.integers(0, parts, n).astype(np.int32)
    with ThreadTeam(1) as team:
        use = count_use(graph, place, parts, graph.vertex_sizes(), fan_in, team)
    limits = np.ceil(use.table.mean(axis=1) * slack).astype(np.int64)
    limits[BITS] = NO_LIMIT
    return Load(graph, graph.vertex_sizes(), fan_in, limits), place, parts


@pytest.mark.jit
@pytest.mark.parametrize("memory", [1 << 14, 1 << 24])
@pytest.mark.parametrize("seed", range(6))
def test_repair_meets_all_limits_together(seed: int, memory: int) -> None:
    load, start, parts = random_load(seed, 1.18)
    found = []
    for threads in (1, 2):
        place = start.copy()
        allowed = np.ones(parts, np.bool_)
        with ThreadTeam(threads) as team:
            assert excess(load.count(place, parts, team).table, load.limits).any()
            items = Items.single(place.size)
            use = repair(load, items, place, parts, allowed, memory, 3, team)
        assert not excess(use.table, load.limits).any()
        found.append(place.tolist())
    assert found[0] == found[1]


@pytest.mark.jit
def test_repair_respects_fixed_vertices_and_forbidden_cores() -> None:
    load, place, parts = random_load(1, 1.3)
    rng = np.random.default_rng(0)
    fixed = rng.random(place.size) < 0.2
    allowed = np.ones(parts, np.bool_)
    allowed[3] = False
    place[place == 3] = 4  # far too many
    before = place.copy()
    items = Items(np.arange(place.size, dtype=np.int32), fixed)
    with ThreadTeam(1) as team:
        use = repair(load, items, place, parts, allowed, 1 << 24, 0, team)
    assert (use.table <= load.limits[:, None]).all()
    assert (place[fixed] == before[fixed]).all()
    assert not (place == 3).any()


def test_repairs_end_at_their_work_limit() -> None:
    """Regardless of time: all repairs together share the remaining work."""
    load, start, parts = random_load(1, 1.18)
    items, allowed = Items.single(start.size), np.ones(parts, np.bool_)
    spent, enough = RepairBudget(0), RepairBudget.of(load)
    synapses = int(load.fan_in.sum())
    assert enough.left == 2 * (100 * synapses + 50_000_000)
    place = start.copy()
    with ThreadTeam(1) as team:
        before = load.count(place, parts, team)
        use = repair(load, items, place, parts, allowed, 1 << 24, 3, team, spent)
        assert spent.stopped
        assert np.array_equal(place, start)
        assert np.array_equal(use.table, before.table)
        left = enough.left
        repair(load, items, place, parts, allowed, 1 << 24, 3, team, enough)
    assert not np.array_equal(place, start)
    assert enough.left < left
    assert not enough.stopped


def test_a_hopeless_repair_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 3 % gain per pass, too little is gained from the eighth pass on: six more passes."""
    load, place, parts = random_load(1, 1.18)
    made: list[int] = []

    def exchange(*_: object) -> None:
        made.append(1)

    def count(self: Load, part: object, parts: int, team: ThreadTeam) -> Use:
        table = np.zeros((5, parts), np.int64)
        table[0, 0] = load.limits[0] + int(10**6 * 0.97 ** len(made))
        return Use(table, np.zeros(0, np.int32))

    monkeypatch.setattr("mapper.limits.enforce._exchange", exchange)
    monkeypatch.setattr(Load, "count", count)
    effort, items = RepairBudget.of(load), Items.single(place.size)
    with ThreadTeam(1) as team:
        repair(load, items, place, parts, np.ones(parts, np.bool_), 1 << 24, 3, team, effort)
    assert len(made) == 7 + 6
    assert effort.stopped


@pytest.mark.parametrize("seed", range(8))
def test_bounds_hold_for_every_partition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, parts = 6, 3
    source, target = rng.integers(0, n, (2, 14))
    graph = MemoryGraph.from_edges(n, source, target)
    edges = sorted({(int(s), int(t)) for s, t in zip(source, target, strict=True) if s != t})
    fans = count_fans(graph)
    cap = int(rng.integers(2, 5))
    synapses = int(rng.integers(fans.into.max(), 15))
    chip = Chip("c", parts, 1, neurons=cap, synapses=synapses)
    bounds = axon_bounds(graph, chip, graph.vertex_sizes(), fans)
    least_in, least_out = twin.least_axons(edges, n, parts, cap, synapses)
    assert 0 < bounds.axons_in <= least_in
    assert np.maximum(bounds.spread - 1, 0).sum() <= least_out


def test_a_bound_that_proves_infeasibility() -> None:
    """100 neurons with four targets each: with one neuron per core, every synapse is an axon."""
    ring = np.arange(100)
    graph = MemoryGraph.from_edges(
        100, np.tile(ring, 4), np.concatenate([(ring + step) % 100 for step in (1, 2, 3, 4)])
    )
    chip = Chip("c", 10, 10, neurons=1, axons_in=4, axons_out=3)
    by_name = {demand.limit: demand for demand in demands(graph, chip)}
    assert by_name["axons_in"].needed == 400
    assert by_name["axons_in"].fits
    assert by_name["axons_out"].needed == 300
    assert by_name["axons_out"].fits
    chip = Chip("c", 10, 10, neurons=1, axons_in=3, axons_out=2)
    by_name = {demand.limit: demand for demand in demands(graph, chip)}
    assert not by_name["axons_in"].fits
    assert str(by_name["axons_in"]).startswith(
        "neuron 0 needs 4 axons_in; a core holds 3 (1 short); 99 more neurons do not fit either"
    )
    assert not by_name["axons_out"].fits


def test_combined_sizes_respect_additive_limits() -> None:
    rng = np.random.default_rng(0)
    sizes, fan_in = rng.integers(1, 5, 100), rng.integers(0, 9, 100)
    limits = np.array([50, 90, NO_LIMIT, NO_LIMIT, NO_LIMIT])
    demand = (sizes, fan_in, fan_in, fan_in, 3 * sizes + fan_in)
    combined = combine_capacity(demand, limits, np.zeros(2), 100)
    assert combined.exact
    assert (combined.sizes * 50 >= sizes * combined.capacity).all()
    assert (combined.sizes * 90 >= fan_in * combined.capacity).all()
    shared = combine_capacity(demand, np.array([50, 90, *[NO_LIMIT] * 2, 97]), np.zeros(2), 100)
    assert shared.exact
    assert (shared.sizes * 97 >= (3 * sizes + fan_in) * shared.capacity).all()
    tight = combine_capacity(demand, limits, np.zeros(2), -(-int(sizes.sum()) // 50))
    assert not tight.exact
    assert tight.sizes.sum() < combined.sizes.sum()


def test_the_model_of_shared_sources_is_solved() -> None:
    sources, fan, vertices = 5000.0, 40.0, 200.0
    axons = np.array([round(sources * (1 - (1 - fan / sources) ** vertices))])
    fits = _fitting(np.array([fan]), np.array([vertices]), axons, 1000)
    assert sources * (1 - (1 - fan / sources) ** fits[0]) == pytest.approx(1000, rel=0.01)


def mapped(path: Path, chip: Chip, folder: Path, name: str, seed: int = 0) -> NDArray[np.int32]:
    settings = preset(name, seed=seed, memory_bytes=1 << 28, block_vertices=64)
    with (
        Monitor() as monitor,
        NetworkFile(path) as network,
        scratch_in(folder / f"scratch-{name}") as scratch,
    ):
        mapping = map_network(network, chip, settings, scratch, monitor)
    assert violations(chip, mapping.traffic.usage) == []
    return mapping.core


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("name", ["fast", "default", "strong", "classic"])
def test_runs_keep_all_four_limits(name: str, folder: Path) -> None:
    """Cores filled by neuron count alone would far exceed each of the other limits."""
    path = random_network(folder / "net.bin", 400, 3200)
    chip = Chip("c", 8, 8, neurons=16, synapses=75, axons_in=68, axons_out=70, unavailable=(3, 40))
    core = mapped(path, chip, folder, name)
    assert np.array_equal(core, mapped(path, chip, folder, name))


@pytest.mark.jit
@pytest.mark.parametrize("name", ["fast", "default", "classic"])
def test_runs_keep_the_memory_of_neurons_and_synapses(name: str, folder: Path) -> None:
    """400 neurons of 40 bits and 3,148 synapses of 8 bits on 64 cores: 644 bits on average."""
    path = random_network(folder / "net.bin", 400, 3200)
    chip = Chip("c", 8, 8, neurons=20, memory_bits=900, weight_bits=8, neuron_bits=40)
    core = mapped(path, chip, folder, name)
    with NetworkFile(path) as network:
        into = count_fans(network).into
    used = np.bincount(core, 40 + 8 * into)
    assert used.max() <= 900
    # Space for 20 neurons in each core would leave too little for the synapses.
    assert int(into.sum()) > 64 * (900 - 20 * 40) // 8
    few = replace(chip, memory_bits=620)
    with pytest.raises(DoesNotFitError, match="bits of memory; the chip holds 39,680"):
        mapped(path, few, folder, name)


def test_a_neuron_beyond_the_memory_is_named(folder: Path) -> None:
    graph = MemoryGraph.from_edges(5, np.array([1, 2, 3, 4]), np.zeros(4, np.int64))
    chip = Chip("c", 4, 4, memory_bits=50, weight_bits=8, neuron_bits=20)
    (found,) = [each for each in demands(graph, chip) if each.limit == "memory_bits"]
    assert str(found).startswith("neuron 0 needs 52 bits of memory; a core holds 50 (2 short)")
    assert found.needed == 5 * 20 + 4 * 8


@pytest.mark.jit
def test_a_failed_search_is_reported(folder: Path) -> None:
    path = random_network(folder / "net.bin", 60, 900)
    chip = Chip("c", 4, 4, neurons=16, axons_in=25)
    with pytest.raises(DoesNotFitError, match=r"not proven impossible.* above the limit of 25"):
        mapped(path, chip, folder, "fast")


def test_unreachable_limits_cost_nothing(folder: Path) -> None:
    with NetworkFile(random_network(folder / "net.bin", 60, 900)) as network:
        assert not make_job(network, Chip("c", 4, 4), 1).axon_limited
        assert not make_job(network, Chip("c", 4, 4, axons_in=60), 1).axon_limited
        assert make_job(network, Chip("c", 4, 4, axons_in=59), 1).axon_limited
