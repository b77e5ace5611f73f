"""Gains, searches, bisections and trees against reference implementations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.heap import remove
from mapper.hop_refinement.mesh import CoreMesh
from mapper.hypergraph.bisection import BisectionEffort, bisect, partition_by_bisection
from mapper.hypergraph.fm import (
    ENOUGH,
    FmSearch,
    _best_target,
    _clear,
    _grow,
    _move,
    _search,
    _unload,
    _update,
    refine,
)
from mapper.hypergraph.gains import State, new_queue, new_state
from mapper.hypergraph.hypergraph import Hypergraph, connectivity
from mapper.hypergraph.partition import PartitionEffort, partition_hypergraph
from mapper.hypergraph.rebisection import PairEffort, rebisect_pairs
from mapper.hypergraph.tree_refinement import TreeEffort, refine_by_trees
from mapper.hypergraph.trees import TreePrices, _change, _put, anneal_trees, new_trees, total_hops
from tests.reference import hypergraph as naive
from tests.reference.machine import random_plane

SEEDS = range(10)


def case(seed: int, parts: int = 3) -> tuple[naive.Nets, Hypergraph, State, np.random.Generator]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 18))
    nets = naive.random_nets(rng, n, int(rng.integers(1, 25)))
    graph = naive.as_graph(nets, rng.integers(0, 3, n).tolist())
    part = rng.integers(0, parts, n).astype(np.int32)
    room = np.full(parts, int(graph.sizes.sum()) // parts + 3)
    return nets, graph, new_state(graph, part, room), rng


def tight_mesh(graph: Hypergraph, rng: np.random.Generator) -> tuple[np.ndarray, CoreMesh]:
    """Return random cores on a mesh with little slack, whose last core is unused if it is empty."""
    core = rng.integers(0, 6, graph.vertices).astype(np.int32)
    room = np.maximum(np.bincount(core, weights=graph.sizes, minlength=6), 3).astype(np.int64)
    room[5] = 0 if not np.any(core == 5) else room[5]
    return core, CoreMesh(3, 2, room)


def check(nets: naive.Nets, state: State) -> None:
    """All incrementally updated values are correct."""
    part, parts = state.part.tolist(), state.capacities.size
    fresh = np.zeros(parts, np.int64)
    np.add.at(fresh, state.part, state.sizes)
    assert state.block_weights.tolist() == fresh.tolist()
    for v in range(len(part)):
        expected = naive.gains(nets, part, parts, v)
        for k in range(parts):
            if k != part[v]:
                gain = state.alone[v] - state.strength[v] + state.reach[v, k]
                assert gain == expected[k]


@pytest.mark.parametrize("seed", SEEDS)
def test_gains_stay_correct(seed: int) -> None:
    nets, graph, state, rng = case(seed)
    check(nets, state)
    queue = new_queue(graph.vertices)
    _clear(queue)
    for _ in range(12):
        v = int(rng.integers(graph.vertices))
        others = [k for k in range(3) if k != state.part[v]]
        _move(state, queue, v, int(rng.choice(others)), 0, False)
        check(nets, state)
        best, cost = _best_target(state, v)
        free = {
            k: gain
            for k, gain in enumerate(naive.gains(nets, state.part.tolist(), 3, v))
            if k != state.part[v] and state.block_weights[k] + state.sizes[v] <= state.capacities[k]
        }
        reached = [k for k in free if state.reach[v, k] > 0]
        if reached:
            assert -cost == max(free[k] for k in reached) == free[best]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_moves_keep_the_best_of_the_queued_ones(seed: int, late: bool) -> None:
    _, graph, state, rng = case(seed, 5)
    state.capacities[:] = 100  # full parts are found at the time of a move
    queue = new_queue(graph.vertices, late)
    _clear(queue)
    length = 0
    for v in range(graph.vertices):
        length = _update(state, queue, v, length)
    for _ in range(12):
        v = int(rng.integers(graph.vertices))
        to = int(rng.choice([k for k in range(5) if k != state.part[v]]))
        if queue.place[v] >= 0:
            length = remove(queue.heap, queue.place, queue.cost, v, length)
        queue.locked[v] = 1
        length = _move(state, queue, v, to, length, True)
        assert not queue.marked.any()
        for u in queue.heap[:length]:
            best, cost = _best_target(state, u)
            assert queue.cost[u] == cost
            assert state.reach[u, queue.target[u]] == state.reach[u, best]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_searches_return_their_gain(seed: int, late: bool) -> None:
    nets, graph, state, rng = case(seed)
    before = naive.cost(nets, state.part.tolist())
    over = np.maximum(state.block_weights - state.capacities, 0)
    queue = new_queue(graph.vertices, late)
    won = _search(state, queue, rng.permutation(graph.vertices), 2, 5, ENOUGH)
    assert won >= 0
    assert before - won == naive.cost(nets, state.part.tolist())
    assert np.all(np.maximum(state.block_weights - state.capacities, 0) <= over)
    check(nets, state)


@pytest.mark.parametrize("seed", SEEDS)
def test_unloading(seed: int) -> None:
    nets, graph, state, rng = case(seed)
    state.part[:] = 0
    state = new_state(graph, state.part, state.capacities)
    _unload(state, new_queue(graph.vertices), rng.permutation(graph.vertices))
    assert np.all(state.block_weights <= state.capacities)
    check(nets, state)


@pytest.mark.parametrize("seed", SEEDS)
def test_growing(seed: int) -> None:
    nets, graph, state, _ = case(seed, 2)
    state.part[:] = 1
    state = new_state(graph, state.part, state.capacities)
    _grow(state, new_queue(graph.vertices), 0, int(graph.sizes.sum()) // 2)
    assert state.part[0] == 0
    assert state.block_weights[0] <= state.capacities[0]
    check(nets, state)


def ring(groups: int, members: int) -> Hypergraph:
    """Return groups of vertices with many nets inside, and one net to the next group."""
    rng = np.random.default_rng(0)
    nets = []
    for k in range(groups):
        own = np.arange(k * members, (k + 1) * members)
        nets += [(3, rng.permutation(own)[:4].tolist()) for _ in range(3 * members)]
        nets.append((1, [int(own[0]), int(own[-1] + 1) % (groups * members)]))
    return naive.as_graph(nets, [1] * (groups * members))


def test_groups_are_found() -> None:
    graph = ring(4, 12)
    effort = BisectionEffort(4, 3, 100, 2)
    side = bisect(graph, 24, np.array([26, 26]), effort, np.random.default_rng(1))
    assert connectivity(graph, side, 2) == 2
    part = partition_by_bisection(graph, 4, 13, effort, np.random.default_rng(1))
    assert connectivity(graph, part, 4) == 4
    with ThreadTeam(1) as team:
        whole = PartitionEffort(effort, FmSearch(3, 25, 100), 1, 10)
        part = partition_hypergraph(graph, 4, 13, whole, 5, team)
    assert connectivity(graph, part, 4) == 4
    assert np.bincount(part).tolist() == [12] * 4


def test_repeated_pair_cuts_never_lose_for_any_threads() -> None:
    graph = ring(6, 10)
    start = np.random.default_rng(3).integers(0, 6, 60).astype(np.int32)
    room = np.maximum(np.bincount(start, minlength=6), 12)
    seen = []
    for threads in (1, 3):
        part = start.copy()
        with ThreadTeam(threads) as team:
            won = rebisect_pairs(
                graph, part, room, PairEffort(6, BisectionEffort(2, 2, 50)), 7, team
            )
        assert connectivity(graph, start, 6) - connectivity(graph, part, 6) == won > 0
        assert np.all(np.bincount(part, minlength=6) <= room)
        seen.append(part.tolist())
    assert seen[0] == seen[1]


def test_without_a_table_there_is_no_refinement() -> None:
    graph = ring(2, 6)
    part = np.arange(12, dtype=np.int32) % 2
    rng = np.random.default_rng(0)
    assert refine(graph, part, np.full(2, 7), FmSearch(3, 5, 50, memory=1), rng) == 0
    assert part.tolist() == [0, 1] * 6


@pytest.mark.sample(38)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("per_core_penalty", [0, 3])
@pytest.mark.parametrize("branches", [True, False])
def test_packet_costs_are_exact(seed: int, per_core_penalty: int, branches: bool) -> None:
    nets, graph, _, rng = case(seed)
    core = rng.integers(0, 12, graph.vertices).astype(np.int32)
    plane = random_plane(seed, 4, 3)
    mesh = CoreMesh(4, 3, np.full(12, 100), coordinates=plane.axes)
    trees, total = new_trees(graph, core, mesh, per_core_penalty, branches)

    def priced() -> int:
        return naive.tree_cost(nets, core.tolist(), 4, per_core_penalty, branches, plane)

    assert total == priced()
    for _ in range(15):
        v, b = int(rng.integers(graph.vertices)), int(rng.integers(12))
        if b == core[v]:
            continue
        change = _change(trees, v, b)
        before = priced()
        _put(trees, v, b)
        assert before + change == priced()
        assert (trees.weights * trees.tree_cost).sum() == before + change
        loads = np.bincount(core, weights=graph.sizes, minlength=12)
        assert trees.block_weights.tolist() == loads.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_annealing_keeps_the_capacity_and_the_best(seed: int) -> None:
    nets, graph, _, rng = case(seed)
    core, mesh = tight_mesh(graph, rng)
    temperatures = np.geomspace(3.0, 0.1, 5)
    given = (graph, core, mesh, TreePrices(2), temperatures, 150, seed)
    found = anneal_trees(*given)
    assert found.tolist() == anneal_trees(*given).tolist()
    assert naive.tree_cost(nets, found.tolist(), 3, 2) <= naive.tree_cost(nets, core.tolist(), 3, 2)
    assert np.all(np.bincount(found, weights=graph.sizes, minlength=6) <= mesh.capacities)
    held = np.bincount(core, weights=graph.sizes, minlength=6).astype(np.int64)
    least = np.maximum(held - rng.integers(-1, 3, 6), 0)
    found = anneal_trees(graph, core, replace(mesh, bounds=least), *given[3:])
    after = np.bincount(found, weights=graph.sizes, minlength=6)
    assert np.all(np.maximum(least - after, 0) <= np.maximum(least - held, 0))


@pytest.mark.parametrize("branches", [True, False])
def test_a_cycle_saves_hops(branches: bool) -> None:
    graph = ring(4, 12)
    core = np.repeat(np.array([0, 3, 1, 2], np.int32), 12)
    core[::5] = core[::-5][: core[::5].size]
    mesh = CoreMesh(2, 2, np.full(4, 14))
    effort = TreeEffort(50, least=5000, branches=branches)
    found, before, after = refine_by_trees(graph, core, mesh, effort, 1)
    assert after < before == total_hops(graph, core, mesh, branches)
    assert after == total_hops(graph, found, mesh, branches)
    assert np.bincount(found).max() <= 14
