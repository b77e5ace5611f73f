"""Refinement by hops: kernels against their twins, and what is promised of the whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mapper.checkpoint import Steps
from mapper.mapping.annealing import NEAR as NEAR_CORES
from mapper.mapping.annealing import Cooling, _anneal_vertices, anneal_mapping
from mapper.mapping.batches import batches
from mapper.mapping.cycle import _hops, _within, exchange, refine_by_chains, refine_by_cycle
from mapper.mapping.hops import MUCH_BETTER, SeekHops, _best_hops, _walk
from mapper.mapping.pairs import (
    DIAGONAL,
    FAR,
    NEAR,
    Mesh,
    _exchange,
    _pair_graph,
    _settle,
    exchange_round,
)
from mapper.mapping.refine import MappedRows, refine_by_hops
from mapper.monitor import Monitor
from mapper.partition.rows import HeldRows, Rows, StreamedRows
from mapper.settings import preset
from mapper.team import Team
from storage.memory import MemoryGraph
from storage.scratch import Scratch
from tests.mapper import naive_mapping as twin
from tests.mapper.helpers import adjacency, grid_graph, lists_of, random_graph, rows_of
from tests.mapper.naive_bipartition import Xorshift

SEEDS = range(30)


def random_case(
    seed: int, *, slack: int = 2, sizes: int = 3, faulty: bool = True
) -> tuple[MemoryGraph, np.ndarray, Mesh]:
    """A graph on random cores of a small mesh, some of them not to be used."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 70))
    graph = random_graph(rng, n, largest=9, sizes=sizes, block_size=8)
    width, height = (int(number) for number in rng.integers(1, 5, 2))
    usable = rng.random(width * height) < (0.8 if faulty else 1.1)
    usable[rng.integers(usable.size)] = True
    core = rng.choice(np.flatnonzero(usable), n).astype(np.int32)
    load = np.bincount(core, weights=graph.vertex_sizes(), minlength=usable.size).astype(np.int64)
    room = np.where(usable, load + rng.integers(0, slack + 1, usable.size), 0)
    room[usable & (room == 0)] = 1
    return graph, core, Mesh(width, height, room)


def some_fixed(seed: int, rows: Rows) -> np.ndarray:
    """Vertices that are not to move, of no size: whether none, or about a quarter."""
    fixed = np.random.default_rng([seed, 1]).random(rows.vertices) < 0.25 * (seed % 2)
    rows.sizes = np.where(fixed, 0, rows.sizes)
    return fixed


def load_of(rows: Rows, core: np.ndarray, mesh: Mesh) -> np.ndarray:
    return np.bincount(core, weights=rows.sizes, minlength=mesh.room.size).astype(np.int64)


@pytest.mark.parametrize("seed", SEEDS)
def test_walk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 5, int(rng.integers(1, 9)))
    at = int(rng.integers(weight.size))
    gain = np.full(weight.size, -1, np.int64)
    best = _walk(weight, at, weight[:at].sum(), weight[at + 1 :].sum(), gain)
    expected, gains = twin.walk(weight.tolist(), at)
    assert best == expected
    assert {p: int(g) for p, g in enumerate(gain) if g >= 0} == gains


@pytest.mark.parametrize("seed", range(60))
def test_best_hops(seed: int) -> None:
    graph, core, mesh = random_case(seed)
    sizes = graph.vertex_sizes()
    for rows in (rows_of(graph), StreamedRows(graph, sizes, 0)):
        load = load_of(rows, core, mesh)
        scratch = [np.zeros(n, np.int64) for n in (mesh.width, mesh.height) * 2]
        for index in range(rows.chunks):
            chunk = rows.read(index)
            moves = np.empty((4, chunk.vertices), np.int32)
            found, paid, everything = _best_hops(
                chunk.first, chunk.indptr, chunk.ids, chunk.weights, core, sizes, mesh.column,
                mesh.row, load, mesh.room, *scratch, *moves,
            )  # fmt: skip
            assert not scratch[0].any()
            assert not scratch[1].any()
            expected = twin.best_hops(
                chunk.first,
                adjacency(chunk.indptr, chunk.ids, chunk.weights),
                core.tolist(),
                sizes.tolist(),
                mesh.width,
                mesh.height,
                load.tolist(),
                mesh.room.tolist(),
                MUCH_BETTER,
            )
            assert [tuple(move) for move in moves[:, :found].T.tolist()] == expected[0]
            assert (paid, everything) == expected[1:]
            seeker = SeekHops(mesh.width, mesh.height, sizes, mesh.room)
            sought = seeker.seek(chunk, core, load)
            assert sought.table.tolist() == moves[:, :found].tolist()
            assert (sought.outside, sought.everything) == (paid, everything)
            fixed = np.random.default_rng(seed).random(core.size) < 0.3
            freely = SeekHops(mesh.width, mesh.height, sizes, mesh.room, fixed)
            left = [move for move in sought.table.T.tolist() if not fixed[move[0]]]
            assert freely.seek(chunk, core, load).table.T.tolist() == left


def members_of(
    core: np.ndarray, cores: int, fixed: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    members = np.array([v for c in range(cores) for v in np.flatnonzero((core == c) & ~fixed)], int)
    start = np.append(0, np.cumsum(np.bincount(core[~fixed], minlength=cores)))
    rank = np.full(core.size, -1, np.int32)
    rank[members] = np.arange(members.size) - start[core[members]]
    return members, start, rank


@pytest.mark.parametrize("seed", range(60))
def test_exchange_of_one_pair(seed: int) -> None:
    """Saves just what it says, overfills no core, and leaves all others alone."""
    graph, core, mesh = random_case(seed)
    links, rows = lists_of(graph), rows_of(graph)
    fixed = some_fixed(seed, rows)
    pairs = [pair for some in mesh.pairs((*NEAR, *DIAGONAL, *FAR)) for pair in some.tolist()]
    csr = rows.indptr[:-1], rows.degrees(), rows.ids, rows.weights
    for a, b in pairs:
        members, start, rank = members_of(core, mesh.room.size, fixed)
        indptr, ids, weights, bias = _pair_graph(
            a, b, members, start, rank, *csr, core, mesh.column, mesh.row
        )
        inner, expected = twin.pair_graph(a, b, links, core.tolist(), mesh.width, fixed.tolist())
        assert adjacency(indptr, ids, weights) == inner
        assert bias.tolist() == expected

        before = twin.all_hops(links, core.tolist(), mesh.width)
        old, side = core.copy(), np.empty(bias.size, np.uint8)
        one, first = np.array([[a, b]]), np.zeros(1, np.int64)
        won = _exchange(
            one, members, start, rank, *csr, rows.sizes, core, mesh.column, mesh.row, mesh.room, 2,
            side, first,
        )  # fmt: skip
        assert core.tolist() == old.tolist()
        moved = _settle(one, members, start, core, side, first)
        assert moved == np.count_nonzero(core != old)
        assert won == before - twin.all_hops(links, core.tolist(), mesh.width) >= 0
        assert (load_of(rows, core, mesh) <= mesh.room).all()
        changed = core != old
        assert np.isin(old[changed], (a, b)).all()
        assert np.isin(core[changed], (a, b)).all()
        assert not fixed[changed].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_a_mesh(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = (int(number) for number in rng.integers(1, 8, 2))
    mesh = Mesh(width, height, rng.integers(0, 4, width * height))
    steps = (*NEAR, *DIAGONAL, *FAR)
    found: list[tuple[int, ...]] = []
    for pairs in mesh.pairs(steps):
        assert np.unique(pairs).size == pairs.size  # none twice in a set
        found += map(tuple, pairs.tolist())
    cores = [c for c in range(width * height) if mesh.room[c]]
    expected = {
        (a, b)
        for a in cores
        for b in cores
        if (b % width - a % width, b // width - a // width) in steps
    }
    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("memory", [0, 200, 1 << 20])
def test_batches_hold_each_core_once_with_all_rows(memory: int, turned: bool) -> None:
    graph, core, mesh = random_case(3, faulty=False)
    links = lists_of(graph)
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        seen = np.zeros(mesh.room.size, np.int64)
        visited: list[int] = []
        with Team(2) as team:
            for batch in batches(rows, core, mesh, memory, turned, team, visited.append):
                seen += batch.cores
                assert batch.degree.tolist() == rows.degrees().tolist()
                for v in np.flatnonzero(batch.cores[core]):
                    row = slice(batch.offset[v], batch.offset[v] + batch.degree[v])
                    pairs = zip(batch.ids[row].tolist(), batch.weights[row].tolist(), strict=True)
                    assert list(pairs) == links[v]
                if not isinstance(rows, HeldRows) and np.count_nonzero(batch.cores) > 1:
                    held = np.bincount(core, weights=rows.degrees(), minlength=seen.size)
                    assert 8 * held[batch.cores].sum() <= max(memory, 8 * held.max())
        used = np.bincount(core, minlength=seen.size) > 0
        assert (seen[used] == 1).all()
        assert sum(visited) >= rows.entries


@pytest.mark.parametrize("seed", SEEDS)
def test_within(seed: int) -> None:
    graph, core, _ = random_case(seed)
    rows = rows_of(graph)
    out = np.empty_like(rows.indptr), np.empty_like(rows.ids), np.empty_like(rows.weights)
    used = _within(rows.indptr, rows.ids, rows.weights, core, *out)
    expected = [
        [(u, w) for u, w in links if core[u] == core[v]] for v, links in enumerate(lists_of(graph))
    ]
    assert adjacency(out[0], out[1][:used], out[2][:used]) == expected


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_rounds_keep_to_the_room(seed: int, threads: int) -> None:
    """Any number of threads gives the same; no core is overfilled, unused ones stay so."""
    graph, core, mesh = random_case(seed, slack=seed % 3)
    rows = rows_of(graph)
    fixed = some_fixed(seed, rows)
    results = []
    for count in (1, threads):
        with Team(count) as team:
            found = core.copy()
            for batch in batches(rows, found, mesh, 0, False, team, lambda done: None):
                rng = np.random.default_rng(seed)
                steps = (*NEAR, *DIAGONAL)
                exchange_round(batch, mesh, found, rows.sizes, steps, 1, rng, team, fixed)
            found = refine_by_cycle(rows, found, mesh, seed, team, fixed=fixed)
        assert (found[fixed] == core[fixed]).all()
        assert (load_of(rows, found, mesh) <= mesh.room).all()
        results.append(found.tolist())
    assert results[0] == results[1]


def test_exchanges_find_the_way_back_on_a_grid() -> None:
    """Tiles of a sheet whose vertices were thrown about: no slack, so only exchanges help."""
    side, cores = 16, 4
    graph = grid_graph(side, side)
    links, rows = lists_of(graph), rows_of(graph)
    v = np.arange(side * side)
    tiles = ((v // side // 4) * cores + v % side // 4).astype(np.int32)
    rng = np.random.default_rng(1)
    core = tiles.copy()
    thrown = rng.choice(v, 60, replace=False)
    core[thrown] = core[rng.permutation(thrown)]
    mesh = Mesh(cores, cores, np.full(cores**2, side * side // cores**2))
    with Team(2) as team:
        before = twin.all_hops(links, core.tolist(), cores)
        saved = exchange(rows, core, mesh, 8, 1, team)
        core = refine_by_cycle(rows, core, mesh, 1, team)
    planted = twin.all_hops(links, tiles.tolist(), cores)
    assert saved > 0
    assert before > 3 * planted
    assert twin.all_hops(links, core.tolist(), cores) <= 1.35 * planted


@pytest.mark.parametrize("seed", range(8))
def test_refinement_by_hops(seed: int, tmp_path: Path) -> None:
    """The same for any number of threads, and when it goes on behind any of its steps."""
    graph, core, mesh = random_case(seed, slack=3)
    streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
    links = lists_of(graph)
    for name, rows in (("held", rows_of(graph)), ("streamed", streamed)):
        fixed = some_fixed(seed, rows)
        results = []
        for threads, folder in ((1, "one"), (2, "two"), (1, "two")):
            settings = preset("default", threads=threads, seed=seed)
            with Team(threads) as team, Scratch(tmp_path / f"{name}-{folder}") as scratch:
                results.append(
                    refine_by_hops(
                        MappedRows(rows, core, mesh, fixed), settings, 100, Steps(scratch),
                        Monitor(), team,
                    )
                )  # fmt: skip
        assert all(found.tolist() == results[0].tolist() for found in results)
        assert (load_of(rows, results[0], mesh) <= mesh.room).all()
        assert (results[0][fixed] == core[fixed]).all()
        before, after = (
            twin.all_hops(links, found.tolist(), mesh.width) for found in (core, results[0])
        )
        assert after <= before


@pytest.mark.parametrize("heat", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(20))
def test_annealing(seed: int, heat: float) -> None:
    graph, core, mesh = random_case(seed)
    links, rows = lists_of(graph), rows_of(graph)
    cores, places = mesh.room.size, int(np.bincount(core).max()) + 1 + seed % 2
    fixed = some_fixed(seed, rows)
    lists = [np.flatnonzero((core == c) & ~fixed).tolist() for c in range(cores)]
    expected, made, change = twin.annealed(
        links, rows.sizes.tolist(), core.tolist(), mesh.width, mesh.height, mesh.room.tolist(),
        lists, places, 150, heat, NEAR_CORES, Xorshift(2 * seed + 1),
    )  # fmt: skip
    members = np.full((cores, places), -1, np.int32)
    place, count = np.full(core.size, -1, np.int64), np.zeros(cores, np.int64)
    for c, some in enumerate(lists):
        members[c, : len(some)], count[c] = some, len(some)
        place[some] = np.arange(len(some))
    found, load = core.copy(), load_of(rows, core, mesh)
    state = np.array([2 * seed + 1], np.uint64)
    result = _anneal_vertices(
        rows.indptr, rows.ids, rows.weights, rows.sizes, found, mesh.column, mesh.row, mesh.width,
        mesh.height, mesh.room, load, members, count, place, 150, heat, state,
    )  # fmt: skip
    assert found.tolist() == expected
    assert result == (made, change)
    assert load.tolist() == load_of(rows, found, mesh).tolist()
    assert (found[fixed] == core[fixed]).all()
    assert count.tolist() == np.bincount(found[~fixed], minlength=cores).tolist()
    assert (members[found, place] == np.arange(core.size))[~fixed].all()


@pytest.mark.parametrize("seed", range(6))
def test_chains(seed: int) -> None:
    """Never worse than before, within the room, and the same for any number of threads."""
    graph, core, mesh = random_case(seed)
    links, rows = lists_of(graph), rows_of(graph)
    fixed = some_fixed(seed, rows)
    cooling = Cooling(10, least=2000, steps=5)
    results = []
    for threads in (1, 3):
        with Team(threads) as team:
            results.append(refine_by_chains(rows, core, mesh, seed, team, cooling, 2, fixed))
    assert results[0].tolist() == results[1].tolist()
    assert (load_of(rows, results[0], mesh) <= mesh.room).all()
    after = twin.all_hops(links, results[0].tolist(), mesh.width)
    assert after <= twin.all_hops(links, core.tolist(), mesh.width)
    doubled = _hops(rows.indptr, rows.ids, rows.weights, results[0], mesh.column, mesh.row)
    assert doubled == 2 * after
    assert (results[0][fixed] == core[fixed]).all()
    annealed = anneal_mapping(rows, core, mesh, cooling, seed, fixed)
    assert (annealed[fixed] == core[fixed]).all()
    assert (load_of(rows, annealed, mesh) <= mesh.room).all()
    assert twin.all_hops(links, annealed.tolist(), mesh.width) <= twin.all_hops(
        links, core.tolist(), mesh.width
    )
