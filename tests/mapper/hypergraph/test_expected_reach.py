"""Refinement by expected reach against its reference, and on nets that reach nearly all parts."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.concurrency.stop_flag import StopFlag, StoppedError
from mapper.hypergraph.expected_reach import (
    NetSample,
    _count_pins,
    _new_reach,
    _powers,
    _price_pins,
    _refine,
    refine_by_reach,
)
from mapper.hypergraph.hypergraph import Hypergraph, Int32, connectivity, make_hypergraph
from tests.reference import expected_reach as naive
from tests.reference import hypergraph as nets_of

SEEDS = range(12)


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_pass(seed: int, places: bool) -> None:
    rng = np.random.default_rng(seed)
    n, parts = 15, 5
    nets = nets_of.random_nets(rng, n, 20, 8)
    sizes = rng.integers(0, 3, n).tolist()
    graph = nets_of.as_graph(nets, sizes)
    part = rng.integers(0, parts, n).astype(np.int32)
    loads = np.bincount(part, sizes, parts).astype(np.int64)
    capacities = loads + rng.integers(0, 3, parts)
    place = np.array([0, 0, 1, 1, 2], np.int32) if places else None
    reach = _new_reach(graph, part, capacities, place)
    for row, base in zip(reach.kept, (0.6, 0.9), strict=True):
        row[:] = _powers(base, row.size)
    _price_pins(reach)
    order = rng.permutation(n)
    moved = _refine(reach, order)
    expected = part.tolist()
    weights, kept = reach.weights.tolist(), reach.kept.tolist()
    where = [0, 0, 1, 1, 2] if places else [0] * parts
    assert moved == naive.refined(
        order.tolist(), nets, sizes, expected, capacities.tolist(), where, weights, kept
    )
    assert reach.part.tolist() == expected
    assert reach.loads.tolist() == np.bincount(expected, sizes, parts).tolist()
    assert (reach.loads <= capacities).all()
    fresh = np.zeros_like(reach.pin_count)
    _count_pins(graph.start, graph.pins, reach.part, reach.column, fresh)
    assert reach.pin_count.tolist() == fresh.tolist()
    price = reach.price.copy()
    _price_pins(reach)
    assert reach.price.tolist() == price.tolist()


def test_weights_are_scaled_to_32_bits() -> None:
    graph = nets_of.as_graph([(1 << 40, [0, 1]), (3 << 40, [0, 2]), (1, [1, 2])], [1, 1, 1])
    part, capacities = np.zeros(3, np.int32), np.array([3, 3])
    reach = _new_reach(graph, part, capacities, None)
    assert reach.weights[0].tolist() == [1 << 27, 3 << 27, 0]
    assert not reach.weights[1].any()
    light = _new_reach(nets_of.as_graph([(1, [0, 1])], [1, 1]), part[:2], capacities, None)
    assert light.weights[0].tolist() == [1 << 16]


def random_blocks(n: int, groups: int, nets: int, seed: int) -> Hypergraph:
    """Return nets that reach half of the vertices of three groups of four, and few of the
    fourth.
    """
    rng = np.random.default_rng(seed)
    group = np.arange(n) % groups
    lists = []
    for e in range(nets):
        likely = np.where(group == e % groups, 0.005, 0.5)
        pins = np.flatnonzero(rng.random(n) < likely)
        lists.append(pins)
    start = np.cumsum([0, *map(len, lists)])
    pins = np.concatenate(lists).astype(np.int32)
    return make_hypergraph(start, pins, np.ones(nets, np.int64), np.ones(n, np.int64))


def sample(seed: int) -> tuple[NetSample, Int32]:
    nets, checks = random_blocks(240, 4, 120, seed), random_blocks(240, 4, 40, seed + 100)
    return NetSample(nets, checks), np.random.default_rng(seed).permutation(240).astype(
        np.int32
    ) % 8


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_found_that_connectivity_moves_miss(seed: int) -> None:
    nets, part = sample(seed)
    capacities = np.full(8, 36)
    found, before, after = refine_by_reach(nets, part, capacities, seed, StopFlag())
    assert (before, after) == (
        connectivity(nets.checks, part, 8), connectivity(nets.checks, found, 8)
    )  # fmt: skip
    assert before == 40 * 7
    assert after < 40 * 5.5
    assert np.bincount(found).max() <= 36


def test_places_weigh_more_than_parts() -> None:
    nets, part = sample(7)
    place = (np.arange(8) // 2).astype(np.int32)
    found, before, after = refine_by_reach(nets, part, np.full(8, 40), 7, StopFlag(), place)
    reached = [connectivity(nets.checks, place[each], 4) for each in (part, found)]
    assert before - after == 16 * (reached[0] - reached[1]) + (
        connectivity(nets.checks, part, 8) - connectivity(nets.checks, found, 8)
    )
    assert reached[1] < reached[0]


def test_a_partition_without_gain_is_unchanged() -> None:
    nets, part = sample(1)
    found, before, after = refine_by_reach(nets, part, np.full(8, 30), 1, StopFlag())
    again, same, last = refine_by_reach(nets, found, np.full(8, 30), 1, StopFlag())
    assert same == after
    assert last <= same
    empty = make_hypergraph(
        np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64), nets.nets.sizes
    )
    kept, cost, end = refine_by_reach(
        NetSample(empty, nets.checks), part, np.full(8, 30), 1, StopFlag()
    )
    assert kept is part
    assert cost == end == before
    assert again.size == part.size


def test_it_can_be_stopped() -> None:
    nets, part = sample(2)
    stop = StopFlag()
    stop.ask()
    with pytest.raises((KeyboardInterrupt, StoppedError)):
        refine_by_reach(nets, part, np.full(8, 40), 1, stop)
