"""Refinement by hops: kernels against their twins, and what is promised of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mapper.checkpoint import Steps
from mapper.mapping.annealing import NEAR as NEAR_CORES
from mapper.mapping.annealing import Cooling, _anneal_vertices, anneal_mapping
from mapper.mapping.batches import batches
from mapper.mapping.cycle import InnerRows, _within, refine_by_chains, refine_by_cycle
from mapper.mapping.hops import MUCH_BETTER, SeekHops, _best_hops, _walk
from mapper.mapping.mesh import CUT, DIAGONAL, NEAR, Mesh, _apart
from mapper.mapping.multilevel import Effort, Levels, coarsen, exchange, first_parts, uncoarsen
from mapper.mapping.pairs import _exchange, _pair_graph, _settle, exchange_round
from mapper.mapping.partners import PARTNERS, _colour, _favourites, pairs_of, partners
from mapper.mapping.price import _price, price
from mapper.mapping.refine import Mapped, refine_mapping
from mapper.monitor import Monitor
from mapper.partition.rows import HeldRows, Rows, StreamedRows
from mapper.plan import Plan
from mapper.settings import preset
from mapper.team import Team
from storage.memory import MemoryGraph
from storage.scratch import Scratch
from tests.mapper import naive_mapping as twin
from tests.mapper.helpers import adjacency, grid_graph, lists_of, random_graph, rows_of
from tests.mapper.naive_bipartition import Xorshift

SEEDS = range(30)
FAR = ((2, 0), (0, 2))
EFFORT = Effort(1000, 1 << 20)


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


def flat_case(seed: int, slack: int = 2) -> tuple[MemoryGraph, np.ndarray, Mesh]:
    """The same without places."""
    graph, core, mesh = random_case(seed, slack=slack)
    return graph, core, Mesh.flat(mesh.room)


CASES = pytest.mark.parametrize("case", [random_case, flat_case], ids=["mesh", "flat"])
Case = Callable[..., tuple[MemoryGraph, np.ndarray, Mesh]]


def width_of(mesh: Mesh) -> int:
    """As the twins take it."""
    return 0 if mesh.most == CUT else mesh.width


def some_fixed(seed: int, rows: Rows, mesh: Mesh) -> np.ndarray:
    """Vertices that are not to move, of no size: none, or on a mesh about a quarter."""
    share = 0.25 * (seed % 2) * (mesh.most != CUT)
    fixed = np.random.default_rng([seed, 1]).random(rows.vertices) < share
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


@CASES
@pytest.mark.parametrize("seed", range(60))
def test_exchange_of_one_pair(case: Case, seed: int) -> None:
    """Saves just what it says, overfills no core, and leaves all others alone."""
    graph, core, mesh = case(seed)
    width = width_of(mesh)
    links, rows = lists_of(graph), rows_of(graph)
    usable = np.flatnonzero(mesh.room)
    pairs = [(a, b) for a in usable for b in usable if a < b]
    fixed = some_fixed(seed, rows, mesh)
    csr = rows.indptr[:-1], rows.degrees(), rows.ids, rows.weights
    for a, b in pairs:
        members, start, rank = members_of(core, mesh.room.size, fixed)
        indptr, ids, weights, bias = _pair_graph(
            a, b, members, start, rank, *csr, core, mesh.column, mesh.row, mesh.most
        )
        inner, expected = twin.pair_graph(a, b, links, core.tolist(), width, fixed.tolist())
        assert adjacency(indptr, ids, weights) == inner
        assert bias.tolist() == expected

        before = twin.all_hops(links, core.tolist(), width)
        old, side = core.copy(), np.empty(bias.size, np.uint8)
        one, first = np.array([[a, b]]), np.zeros(1, np.int64)
        won = _exchange(
            one, members, start, rank, *csr, rows.sizes, core, mesh.column, mesh.row, mesh.most,
            mesh.room, 2, side, first,
        )  # fmt: skip
        assert core.tolist() == old.tolist()
        moved = _settle(one, members, start, core, side, first)
        assert moved == np.count_nonzero(core != old)
        assert won == before - twin.all_hops(links, core.tolist(), width) >= 0
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
def test_inner_rows(seed: int) -> None:
    graph, core, _ = random_case(seed)
    expected = [
        [(u, w) for u, w in links if core[u] == core[v]] for v, links in enumerate(lists_of(graph))
    ]
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        inner = InnerRows(rows, core)
        found = []
        for index in range(inner.chunks):
            chunk, whole = inner.read(index), rows.read(index)
            found += adjacency(chunk.indptr, chunk.ids, chunk.weights)
            out = np.empty_like(whole.indptr), *np.empty((2, whole.ids.size), np.int32)
            used = _within(whole.first, whole.indptr, whole.ids, whole.weights, core, *out)
            assert used == chunk.ids.size
        assert found == expected
        assert inner.degrees().tolist() == [len(links) for links in expected]


@CASES
@pytest.mark.parametrize("seed", SEEDS)
def test_price_and_distance(case: Case, seed: int) -> None:
    graph, core, mesh = case(seed)
    width, links = width_of(mesh), lists_of(graph)
    column, row = mesh.column, mesh.row
    for a in range(mesh.room.size):
        for b in range(mesh.room.size):
            assert _apart(a, b, column, row, mesh.most) == twin.distance(a, b, width)
    expected = 2 * twin.all_hops(links, core.tolist(), width)
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        with Team(2) as team:
            assert price(rows, core, mesh, team) == expected
        chunks = [rows.read(index) for index in range(rows.chunks)]
        some = [
            _price(c.first, c.indptr, c.ids, c.weights, core, column, row, mesh.most)
            for c in chunks
        ]
        assert sum(some) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_partners(seed: int) -> None:
    """Pairs that are drawn together, each once, those of a set without a part in common."""
    graph, part, mesh = flat_case(seed)
    rows, parts = rows_of(graph), mesh.room.size
    drawn: Counter[tuple[int, int]] = Counter()
    for index in range(rows.chunks):
        chunk = rows.read(index)
        favourite, strength = np.empty((2, chunk.vertices), np.int64)
        pull, touched = np.zeros((2, parts), np.int64)
        links = chunk.indptr, chunk.ids, chunk.weights
        _favourites(chunk.first, *links, part, pull, touched, favourite, strength)
        assert not pull.any()
        for i, expected in enumerate(twin.pulls(chunk.first, adjacency(*links), part.tolist())):
            assert strength[i] == max(expected.values(), default=0)
            if expected:
                assert expected[int(favourite[i])] == strength[i]
                own = int(part[chunk.first + i])
                low, high = sorted((own, int(favourite[i])))
                drawn[low, high] += int(strength[i])
            else:
                assert favourite[i] == -1
    with Team(2) as team:
        sets = partners(rows, part, parts, team)
        assert [some.tolist() for some in pairs_of(rows, part, mesh, True, team)] == [
            some.tolist() for some in sets
        ]
    found = [tuple(pair) for some in sets for pair in some.tolist()]
    assert len(set(found)) == len(found)
    assert set(found) <= set(drawn)
    for some in sets:
        assert np.unique(some).size == some.size
    if parts <= PARTNERS:
        assert set(found) == set(drawn)


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("seed", range(20))
def test_colours(seed: int, most: int) -> None:
    """No two pairs of a colour share a part; a pair is left out only if both parts have enough."""
    rng = np.random.default_rng(seed)
    parts = int(rng.integers(2, 12))
    every = [(a, b) for a in range(parts) for b in range(a)]
    pairs = np.array([every[i] for i in rng.permutation(len(every))]).reshape(-1, 2)
    colour, count = np.empty(len(pairs), np.int64), np.zeros(parts, np.int64)
    _colour(pairs[:, 0].copy(), pairs[:, 1].copy(), count, most, colour)
    had: Counter[int] = Counter()
    taken: set[tuple[int, int]] = set()
    for (a, b), c in zip(pairs.tolist(), colour.tolist(), strict=True):
        full = had[a] >= most and had[b] >= most
        free = [k for k in range(4 * most) if (a, k) not in taken and (b, k) not in taken]
        assert c == (free[0] if free and not full else -1)
        if c >= 0:
            taken |= {(a, c), (b, c)}
            had.update((a, b))
    assert count.tolist() == [had[p] for p in range(parts)]


@CASES
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_rounds_keep_to_the_room(case: Case, seed: int, threads: int) -> None:
    """Any number of threads gives the same; no core is overfilled, unused ones stay so."""
    graph, core, mesh = case(seed, slack=seed % 3)
    rows = rows_of(graph)
    fixed = some_fixed(seed, rows, mesh)
    results = []
    for count in (1, threads):
        with Team(count) as team:
            found = core.copy()
            for batch in batches(rows, found, mesh, 0, False, team, lambda done: None):
                rng = np.random.default_rng(seed)
                sets = pairs_of(rows, found, mesh, True, team)
                exchange_round(batch, mesh, found, rows.sizes, sets, 1, rng, team, fixed)
            found = refine_by_cycle(rows, found, mesh, EFFORT, seed, team, fixed)
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
        saved = exchange(rows, core, mesh, 8, 0, 1, team)
        core = refine_by_cycle(rows, core, mesh, EFFORT, 1, team)
    planted = twin.all_hops(links, tiles.tolist(), cores)
    assert saved > 0
    assert before > 3 * planted
    assert twin.all_hops(links, core.tolist(), cores) <= 1.35 * planted


def test_levels_of_a_grid() -> None:
    """From the coarsest level, cut and put where the tiles are, down to a tiling of the sheet."""
    side, cores = 32, 4
    graph = grid_graph(side, side)
    links, rows = lists_of(graph), rows_of(graph)
    capacity = side * side // cores**2 + 2
    room = np.full(cores**2, capacity)
    for mesh in (Mesh(cores, cores, room), Mesh.flat(room)):
        results = []
        for threads in (1, 2):
            with Team(threads) as team:
                levels = coarsen(rows, 1, capacity, 3, team)  # for one core: down to 60 vertices
                assert len(levels.graphs) > 2
                for graph_above, cluster in zip(levels.graphs[1:], levels.clusters, strict=True):
                    assert graph_above.vertices == cluster.max() + 1
                    assert graph_above.sizes.sum() == side * side
                part = first_parts(levels.coarsest, cores**2, capacity, 3, EFFORT, 3, team)
                found = uncoarsen(levels, part, mesh, EFFORT, 3, team)
            results.append((part.tolist(), found.tolist()))
        assert results[0] == results[1]
        assert (load_of(rows, found, mesh) <= mesh.room).all()
        top = part
        for cluster in levels.clusters[::-1]:
            top = top[cluster]
        width = width_of(mesh)
        before, after = (twin.all_hops(links, some.tolist(), width) for some in (top, found))
        assert after < before
        if not width:
            assert after <= 1.35 * 2 * side * (cores - 1)


@CASES
@pytest.mark.parametrize("seed", range(8))
def test_refinement(case: Case, seed: int, tmp_path: Path) -> None:
    """The same for any number of threads, and when it goes on behind any of its steps."""
    graph, core, mesh = case(seed, slack=3)
    width = width_of(mesh)
    plan = Plan(0, {}, 0, 0, False, 64, 100, 0, 1, False, 1, 2)
    streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
    links = lists_of(graph)
    for name, rows in (("held", rows_of(graph)), ("streamed", streamed)):
        fixed = some_fixed(seed, rows, mesh)
        levels, results = Levels([rows], [], fixed), []
        for threads, folder in ((1, "one"), (2, "two"), (1, "two")):
            settings = preset("default", threads=threads, seed=seed)
            with Team(threads) as team, Scratch(tmp_path / f"{name}-{folder}") as scratch:
                results.append(
                    refine_mapping(
                        Mapped(levels, core, mesh, plan), settings, Steps(scratch), Monitor(), team
                    )
                )  # fmt: skip
        assert all(found.tolist() == results[0].tolist() for found in results)
        assert (load_of(rows, results[0], mesh) <= mesh.room).all()
        assert (results[0][fixed] == core[fixed]).all()
        before, after = (
            twin.all_hops(links, found.tolist(), width) for found in (core, results[0])
        )
        assert after <= before


@CASES
@pytest.mark.parametrize("heat", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(20))
def test_annealing(case: Case, seed: int, heat: float) -> None:
    graph, core, mesh = case(seed)
    links, rows = lists_of(graph), rows_of(graph)
    cores, places = mesh.room.size, int(np.bincount(core).max()) + 1 + seed % 2
    fixed = some_fixed(seed, rows, mesh)
    lists = [np.flatnonzero((core == c) & ~fixed).tolist() for c in range(cores)]
    expected, made, change = twin.annealed(
        links, rows.sizes.tolist(), core.tolist(), width_of(mesh), mesh.height, mesh.room.tolist(),
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
        rows.indptr, rows.ids, rows.weights, rows.sizes, found, mesh.column, mesh.row, mesh.most,
        mesh.width, mesh.height, mesh.room, load, members, count, place, 150, heat, state,
    )  # fmt: skip
    assert found.tolist() == expected
    assert result == (made, change)
    assert load.tolist() == load_of(rows, found, mesh).tolist()
    assert (found[fixed] == core[fixed]).all()
    assert count.tolist() == np.bincount(found[~fixed], minlength=cores).tolist()
    assert (members[found, place] == np.arange(core.size))[~fixed].all()


@CASES
@pytest.mark.parametrize("seed", range(6))
def test_chains(case: Case, seed: int) -> None:
    """Never worse than before, within the room, and the same for any number of threads."""
    graph, core, mesh = case(seed)
    width = width_of(mesh)
    links, rows = lists_of(graph), rows_of(graph)
    fixed = some_fixed(seed, rows, mesh)
    cooling = Cooling(10, least=2000, steps=5)
    effort = Effort(1000, 1 << 20, 2, cooling, 2)
    results = []
    for threads in (1, 3):
        with Team(threads) as team:
            results.append(refine_by_chains(rows, core, mesh, effort, seed, team, fixed))
    assert results[0].tolist() == results[1].tolist()
    assert (load_of(rows, results[0], mesh) <= mesh.room).all()
    after = twin.all_hops(links, results[0].tolist(), width)
    assert after <= twin.all_hops(links, core.tolist(), width)
    assert (results[0][fixed] == core[fixed]).all()
    annealed = anneal_mapping(rows, core, mesh, cooling, seed, fixed)
    assert (annealed[fixed] == core[fixed]).all()
    assert (load_of(rows, annealed, mesh) <= mesh.room).all()
    assert twin.all_hops(links, annealed.tolist(), width) <= twin.all_hops(
        links, core.tolist(), width
    )
