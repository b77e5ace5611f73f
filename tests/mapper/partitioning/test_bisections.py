"""Bisections, and splits made of them: invariants."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph.rows import HeldRows
from mapper.partitioning.multilevel_bisection import BisectionEffort, bisect_graph
from mapper.partitioning.recursive_splitting import Splitting, split_block
from mapper.partitioning.two_way_fm import _cost_and_excess
from tests.mapper.helpers import csr, grid_graph, links_of, random_graph, rows_of, state_of
from tests.reference import partitioning as naive
from tests.seeds import seeds


def bisected(
    rows: HeldRows, target: int, most: tuple[int, int], smoothing: int, seed: int = 0
) -> np.ndarray:
    n = rows.vertices
    side = np.full(n, 9, np.uint8)
    effort = BisectionEffort(4, 2, smoothing)
    bisect_graph(csr(rows), target, *most, effort, state_of(seed), side)
    assert set(side.tolist()) <= {0, 1}
    return side


@pytest.mark.parametrize("smoothing", [0, 12])
@pytest.mark.parametrize("seed", seeds(12, plain=3))
def test_bisections_of_unit_sizes_are_within_their_limits(seed: int, smoothing: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 500))
    rows = rows_of(random_graph(rng, n, mean_degree=float(rng.integers(0, 60))))
    target = int(rng.integers(1, n))
    most = (target + int(rng.integers(0, 3)), n - target + int(rng.integers(0, 3)))
    side = bisected(rows, target, most, smoothing, seed)
    assert (np.bincount(side, minlength=2) <= most).all()


@pytest.mark.jit
@pytest.mark.parametrize("smoothing", [0, 12])
def test_a_grid_is_cut_almost_straight(smoothing: int) -> None:
    rows = rows_of(grid_graph(24, 24))
    cuts = []
    for seed in range(3):
        side = bisected(rows, 288, (292, 292), smoothing, seed)
        cuts.append(_cost_and_excess(csr(rows), 292, 292, side)[0])
    assert min(cuts) <= 28  # 24 is optimal
    assert max(cuts) <= 60


def split(
    rows: HeldRows, cores: int, stop: int, capacity: int, seed: int = 0
) -> tuple[np.ndarray, list[int]]:
    piece, piece_cores = np.full(rows.vertices, -1, np.int32), np.zeros(cores, np.int64)
    piece_cores[0] = cores
    how = Splitting(stop, capacity, BisectionEffort(3, 1, 4), seed)
    count = split_block(csr(rows), how, piece, piece_cores)
    return piece, piece_cores[:count].tolist()


def pieces_by_halving(cores: int, stop: int) -> list[int]:
    if cores <= stop:
        return [cores]
    left = (cores + 1) // 2
    return pieces_by_halving(left, stop) + pieces_by_halving(cores - left, stop)


@pytest.mark.parametrize("seed", seeds(40, plain=15))
def test_split_into_pieces_within_the_capacity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cores, capacity = int(rng.integers(1, 20)), int(rng.integers(1, 20))
    n = cores * capacity - int(rng.integers(0, 2) * rng.integers(0, cores * capacity))
    stop = int(rng.integers(1, cores + 1))
    rows = rows_of(random_graph(rng, n, mean_degree=6))
    piece, piece_cores = split(rows, cores, stop, capacity, seed)
    assert piece_cores == pieces_by_halving(cores, stop)
    load = np.bincount(piece, minlength=len(piece_cores))
    assert load.size == len(piece_cores)
    assert (load <= np.array(piece_cores) * capacity).all()
    again, _ = split(rows, cores, stop, capacity, seed)
    assert again.tolist() == piece.tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_split_of_fewer_vertices_than_cores(n: int) -> None:
    rows = rows_of(random_graph(np.random.default_rng(0), max(n, 1)))
    none = np.empty(0, np.int32)
    if not n:
        rows = HeldRows(np.zeros(1, np.int64), none, none, np.empty(0, np.int64))
    piece, piece_cores = split(rows, 5, 1, 4)
    assert piece_cores == [1] * 5
    assert ((piece >= 0) & (piece < 5)).all()


def test_neighbouring_numbers_are_pieces_of_the_same_piece() -> None:
    rows = rows_of(grid_graph(16, 16))
    fine, fine_cores = split(rows, 16, 1, 17)
    assert fine_cores == [1] * 16
    for pieces, best in ((2, 16), (4, 32), (16, 96)):
        coarse = fine // (16 // pieces)
        assert naive.cut(links_of(rows), coarse.tolist()) < 1.6 * best
