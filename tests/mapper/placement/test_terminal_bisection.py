"""Bisection with terminal propagation: kernels against references, and the order of cuts."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.machine import flat_axes
from mapper.graph.csr import Csr
from mapper.partitioning.multilevel_bisection import BisectionEffort
from mapper.placement import terminal_bisection as bisection
from mapper.placement.legalise import split_cells
from mapper.placement.terminal_bisection import place_by_cuts
from mapper.placement.traffic import Traffic
from tests.mapper.helpers import adjacency, random_graph, subgraph
from tests.mapper.placement.test_placement_kernels import cells_of
from tests.reference import placers as naive
from tests.reference.machine import random_plane


def traffic_of(rng: np.random.Generator, n: int, mean_degree: float = 4.0) -> Traffic:
    groups = subgraph(random_graph(rng, n, mean_degree=mean_degree))
    return Traffic(groups.indptr, groups.ids, groups.weights, np.zeros(n))


@pytest.mark.parametrize("seed", range(40))
def test_a_piece_and_its_terminals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    traffic = traffic_of(rng, n)
    members = rng.permutation(n)[: int(rng.integers(1, n + 1))]
    centre = rng.integers(0, 20, (n, 2)) / 2
    near, far, axis = 3.0, float(rng.choice([3.0, 4.0, 7.5])), int(rng.integers(2))
    local = np.full(n, -1, np.int64)
    indptr, bias = np.empty(members.size + 1, np.int64), np.empty(members.size, np.int64)
    ids = np.empty(traffic.ids.size, np.int32)
    weights = np.empty(traffic.ids.size, np.int32)
    piece = Csr(indptr, ids, weights, np.ones(members.size, np.int64), bias)
    used = bisection._piece(traffic, members, near, far, axis, centre, local, piece)
    lists, pulls = naive.piece(
        adjacency(*traffic.csr), members.tolist(), near, far, centre[:, axis].tolist()
    )
    assert used == indptr[-1]
    assert adjacency(indptr, ids, weights) == lists
    assert bias.tolist() == pulls
    assert (local == -1).all()


@pytest.mark.parametrize("seed", range(25))
def test_cuts_keep_the_groups_of_a_piece(seed: int) -> None:
    """A cut moves groups within its piece only, and updates the centre of each group."""
    rng = np.random.default_rng(seed)
    usable = rng.random((int(rng.integers(1, 7)), int(rng.integers(2, 7)))) < 0.8
    usable[0, :2] = True
    axes = random_plane(seed, usable.shape[1], usable.shape[0]).axes
    splits = split_cells(np.argwhere(usable.T), axes)
    n, places = len(splits.cells), axes.places(splits.cells)
    traffic = traffic_of(rng, n)
    order, centre = rng.permutation(n), np.zeros((n, 2))
    state = np.array([seed + 1], np.uint64)
    for stage in bisection._stages(splits.cuts):
        before = order.copy()
        middles = bisection._middles(places, stage)
        local, effort = np.full(n, -1), BisectionEffort(2, 1, 4)
        bisection._cut(traffic, stage, middles, order, centre, local, effort, state)
        for begin, middle, end, _ in stage:
            assert sorted(order[begin:end]) == sorted(before[begin:end])
            for low, high in ((begin, middle), (middle, end)):
                mean = places[low:high].mean(axis=0)
                assert centre[order[low:high]] == pytest.approx(np.tile(mean, (high - low, 1)))


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (6, 5), (13, 9)])
def test_stages_have_disjoint_pieces(shape: tuple[int, int]) -> None:
    cuts = split_cells(cells_of(*shape), flat_axes(*shape)).cuts
    stages = list(bisection._stages(cuts))
    assert np.concatenate(stages).tolist() == cuts.tolist()
    for stage in stages:
        assert (stage[1:, 0] >= stage[:-1, 2]).all()
    assert len(stages) <= 1 + 2 * int(np.ceil(np.log2(shape[0] * shape[1])))


def test_a_pair_goes_to_the_sides_of_its_terminals() -> None:
    """A path whose ends differ only by earlier cuts."""
    ids = np.array([1, 0, 2, 1, 3, 2], np.int32)
    path = Traffic(np.array([0, 1, 3, 5, 6]), ids, np.full(6, 5), np.zeros(4))
    x, y = place_by_cuts(path, cells_of(4, 1), flat_axes(4, 1), np.random.default_rng(0))
    assert x.tolist() in ([0, 1, 2, 3], [3, 2, 1, 0])
    assert y.tolist() == [0] * 4
