"""Exchanges between cores: kernels against references, and invariants of rounds."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.affinity import favourites
from mapper.graph.by_label import ByLabel, by_label
from mapper.graph.rows import HeldRows, Rows, StreamedRows
from mapper.hop_refinement import tiles
from mapper.hop_refinement.mesh import ADJACENT, DIAGONAL, CoreMesh
from mapper.hop_refinement.multilevel import pairwise_fm
from mapper.hop_refinement.pairwise_fm import Batch, _exchange, _pair_graph, _settle
from mapper.hop_refinement.partners import PARTNERS, _colour, pairs_of, partners
from mapper.hop_refinement.tiles import (
    CoreTile,
    exchange_in_tiles,
    pairwise_fm_round,
    tile_of_cores,
    tiles_of,
)
from mapper.hop_refinement.v_cycle import refine_by_v_cycle
from mapper.limits.domains import Domains
from mapper.monitoring.callbacks import Advance, ignore
from tests.mapper.helpers import adjacency, grid_graph, lists_of, rows_of
from tests.mapper.hop_refinement.cases import (
    CASES,
    EFFORT,
    FAR,
    SEEDS,
    Case,
    flat_case,
    load_of,
    plane_of,
    random_case,
    some_domains,
    some_fixed,
    width_of,
    within,
)
from tests.reference import hop_refinement as twin
from tests.reference.machine import random_plane
from tests.seeds import seeds


def members_of(core: np.ndarray, cores: int, fixed: np.ndarray) -> ByLabel:
    lists = [np.flatnonzero((core == c) & ~fixed) for c in range(cores)]
    members = np.concatenate(lists).astype(np.int32)
    start = np.append(0, np.cumsum([one.size for one in lists]))
    place = np.full(core.size, -1, np.int32)
    for one in lists:
        place[one] = np.arange(one.size)
    found = by_label(core, cores, fixed)
    assert [one.tolist() for one in found] == [members.tolist(), start.tolist(), place.tolist()]
    return found


@pytest.mark.sample(43)
@CASES
@pytest.mark.parametrize("seed", range(60))
def test_exchange_of_one_pair(case: Case, seed: int) -> None:
    """It saves the returned hops, overfills no core, and does not change other cores."""
    graph, core, mesh = case(seed)
    width = width_of(mesh)
    links, rows = lists_of(graph), rows_of(graph)
    plane = plane_of(mesh)
    usable = np.flatnonzero(mesh.capacities)
    pairs = [(a, b) for a in usable for b in usable if a < b]
    fixed, rows = some_fixed(seed, rows, mesh)
    every = np.ones(mesh.capacities.size, np.bool_)
    batch = Batch(every, rows.indptr[:-1], rows.degrees(), rows.ids, rows.weights)
    for a, b in pairs:
        by_core = members_of(core, mesh.capacities.size, fixed)
        found = _pair_graph(a, b, by_core, batch, rows.sizes, core, mesh.grid)
        inner, expected = twin.pair_graph(a, b, links, core.tolist(), width, fixed.tolist(), plane)
        assert adjacency(found.indptr, found.ids, found.weights) == inner
        assert found.bias.tolist() == expected

        before = twin.all_hops(links, core.tolist(), width, plane)
        old, side = core.copy(), np.empty(found.bias.size, np.uint8)
        one, first = np.array([[a, b]]), np.zeros(1, np.int64)
        won = _exchange(one, by_core, batch, rows.sizes, core, mesh.grid, 2, side, first)
        assert core.tolist() == old.tolist()
        moved = _settle(one, by_core, core, side, first)
        assert moved == np.count_nonzero(core != old)
        assert won == before - twin.all_hops(links, core.tolist(), width, plane) >= 0
        assert (load_of(rows, core, mesh) <= mesh.capacities).all()
        changed = core != old
        assert np.isin(old[changed], (a, b)).all()
        assert np.isin(core[changed], (a, b)).all()
        assert not fixed[changed].any()


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_of_a_mesh(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = (int(number) for number in rng.integers(1, 8, 2))
    plane = random_plane(seed, width, height)
    mesh = CoreMesh(width, height, rng.integers(0, 4, width * height), coordinates=plane.axes)
    steps = (*ADJACENT, *DIAGONAL, *FAR)
    found: list[tuple[int, ...]] = []
    for pairs in mesh.pairs(steps):
        assert np.unique(pairs).size == pairs.size  # no duplicates in a set
        found += map(tuple, pairs.tolist())
    cores = [c for c in range(width * height) if mesh.capacities[c]]
    expected = set()
    for a, (dx, dy) in itertools.product(cores, steps):
        x, y = a % width + dx, a // width + dy
        # in a short ring all cores are near each other
        if plane.x.torus and width > 2 * abs(dx):
            x %= width
        if plane.y.torus and height > 2 * abs(dy):
            y %= height
        b = y * width + x
        if 0 <= x < width and 0 <= y < height and mesh.capacities[b]:
            expected.add((a, b))
    assert Counter(found) == Counter(expected)


@pytest.mark.parametrize("memory", [0, 200, 1 << 20])
def test_a_tile_gives_the_rows_of_all_pairs(memory: int) -> None:
    graph, core, mesh = random_case(3, faulty=False)
    links = lists_of(graph)
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        needs = np.bincount(core, weights=rows.degrees(), minlength=mesh.capacities.size)
        visited: list[int] = []
        with ThreadTeam(2) as team:
            colours = tiles_of(rows, core, mesh, memory, False, team, visited.append)
            ((tile,), *others) = colours
            assert tile.cores.all()
            assert not any(others)
            for pairs in mesh.pairs(ADJACENT):
                at = 0
                for places, batch in tile.batches(pairs, core):
                    assert (places.start, batch.cores[pairs[places]].all()) == (at, True)
                    at = places.stop
                    assert batch.degree.tolist() == rows.degrees().tolist()
                    for v in np.flatnonzero(batch.cores[core]):
                        row = slice(batch.offset[v], batch.offset[v] + batch.degree[v])
                        found = batch.ids[row].tolist(), batch.weights[row].tolist()
                        assert list(zip(*found, strict=True)) == links[v]
                    if not isinstance(rows, HeldRows) and places.stop - places.start > 1:
                        assert 8 * needs[batch.cores].sum() <= memory
                assert at == len(pairs)
        assert sum(visited) % rows.entries == 0
        assert visited


@given(
    st.integers(1, 12), st.integers(1, 12), st.booleans(), st.integers(1, 60), st.integers(0, 99)
)
def test_tiles_of_cores(width: int, height: int, turned: bool, most: int, seed: int) -> None:
    """Rectangles within the limit unless they are single cores; neighbours have different
    colours.
    """
    needs = np.random.default_rng(seed).integers(0, 9, width * height)
    tile, colour = tile_of_cores(needs, width, turned, most)
    y, x = np.divmod(np.arange(tile.size), width)
    for one in range(colour.size):
        mine = tile == one
        if mine.any():
            sides = np.ptp(x[mine]) + 1, np.ptp(y[mine]) + 1
            assert sides[0] * sides[1] == np.count_nonzero(mine)
            assert needs[mine].sum() <= most or sides == (1, 1)
    for dx, dy in itertools.product((-1, 0, 1), repeat=2):
        inside = (x + dx >= 0) & (x + dx < width) & (y + dy >= 0) & (y + dy < height)
        beside = tile[((y + dy) * width + x + dx)[inside]]
        mine = tile[inside]
        assert (colour[beside] != colour[mine])[beside != mine].all()
    if needs.sum() <= most:
        assert not tile.any()


@pytest.mark.sample(33)
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_exchanges_in_tiles(seed: int, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory, threads and the order of tiles do not change the result; one tile equals held
    rows.
    """
    graph, core, mesh = random_case(seed, faulty=False)
    if small:
        monkeypatch.setattr(tiles, "TILE_ENTRIES", 40)
    found: list[list[int]] = []
    streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
    for memory, threads in ((0, 1), (300, 2), (1 << 20, 3), (1 << 20, 1)):
        with ThreadTeam(threads) as team:
            own, colours = exchanged(
                streamed, core, mesh, memory, team, seed=seed, turned=bool(seed % 2)
            )
        assert (load_of(streamed, own, mesh) <= np.maximum(mesh.capacities, 0)).all()
        found.append(own.tolist())
    assert all(one == found[0] for one in found)
    if not small:
        assert sum(map(len, colours)) == bool(streamed.entries)
        with ThreadTeam(1) as team:
            own, _ = exchanged(rows_of(graph), core, mesh, 0, team, seed=seed)
        assert own.tolist() == found[0]


def exchanged(
    rows: Rows, core: np.ndarray, mesh: CoreMesh, memory: int, team: ThreadTeam, *, seed: int = 0,
    turned: bool = False, domains: Domains | None = None, advance: Advance = ignore,
) -> tuple[np.ndarray, list[list[CoreTile]]]:  # fmt: skip
    """Return the cores after a round of exchanges, and its tiles."""
    own, rng = core.copy(), np.random.default_rng(seed)
    sets = pairs_of(rows, own, mesh, True, team)
    colours = tiles_of(rows, own, mesh, memory, turned, team, advance)
    exchange_in_tiles(colours, mesh, own, rows.sizes, sets, 1, rng, team, domains)
    return own, colours


def thrown_about(cores: int, share: float) -> tuple[Rows, np.ndarray, CoreMesh]:
    """A sheet on a mesh with 4 x 4 vertices per core, some of which have swapped places."""
    side, rng = 4 * cores, np.random.default_rng(1)
    v = np.arange(side * side)
    core = ((v // side // 4) * cores + v % side // 4).astype(np.int32)
    thrown = rng.choice(v, int(share * v.size), replace=False)
    core[thrown] = core[rng.permutation(thrown)]
    graph = grid_graph(side, side)
    mesh = CoreMesh(cores, cores, np.full(cores**2, 17))
    return StreamedRows(graph, graph.vertex_sizes(), 0), core, mesh


def test_tiles_of_a_colour_see_the_same_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile processed alone makes the same moves as together with its colour."""
    rows, core, mesh = thrown_about(6, 0.2)
    monkeypatch.setattr(tiles, "TILE_ENTRIES", 300)
    with ThreadTeam(1) as team:
        sets = pairs_of(rows, core, mesh, True, team)
        colours = tiles_of(rows, core, mesh, 1 << 20, False, team)
        assert [len(colour) for colour in colours] == [4, 2, 2, 1]
        together, rng = core.copy(), np.random.default_rng(1)
        exchange_in_tiles(colours[:1], mesh, together, rows.sizes, sets, 1, rng, team)
        draws = np.random.default_rng(1).integers(2**62, size=4).tolist()
        for tile, draw in zip(colours[0], draws, strict=True):
            own, rng = core.copy(), np.random.default_rng(draw)
            pairwise_fm_round(tile, mesh, own, rows.sizes, sets, 1, rng, team)
            mine = tile.cores[core]
            assert own[mine].tolist() == together[mine].tolist()
            assert own[~mine].tolist() == core[~mine].tolist()
            assert (own != core).any()


@pytest.mark.parametrize(("memory", "reads"), [(1 << 20, 1), (9000, 3), (2400, 9)])
def test_tiles_that_fit_are_read_together(
    memory: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, core, mesh = thrown_about(6, 0.0)
    monkeypatch.setattr(tiles, "TILE_ENTRIES", 300)
    visited: list[int] = []
    with ThreadTeam(1) as team:
        exchanged(rows, core, mesh, memory, team, advance=visited.append)
    assert sum(visited) == reads * rows.entries


@pytest.mark.parametrize("seed", SEEDS)
def test_partners(seed: int) -> None:
    """Pairs that are drawn together are unique, and disjoint within a set."""
    graph, part, mesh = flat_case(seed)
    rows, parts = rows_of(graph), mesh.capacities.size
    drawn: Counter[tuple[int, int]] = Counter()
    for index in range(rows.chunks):
        chunk = rows.read(index)
        favourite, strength = np.empty((2, chunk.vertices), np.int64)
        pull, touched = np.zeros((2, parts), np.int64)
        links = chunk.indptr, chunk.ids, chunk.weights
        favourites(chunk, part, pull, touched, favourite, strength)
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
    with ThreadTeam(2) as team:
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
    """Pairs of a colour share no part; a pair is skipped only if both parts have enough pairs."""
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


@pytest.mark.sample(11)
@CASES
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", seeds(12, plain=3))
def test_rounds_keep_the_capacity(case: Case, seed: int, threads: int) -> None:
    """Any number of threads gives the same result; no core is overfilled, unused cores stay
    unused.
    """
    graph, core, mesh = case(seed, slack=seed % 3)
    rows = rows_of(graph)
    fixed, rows = some_fixed(seed, rows, mesh)
    domains = some_domains(seed, fixed, core, mesh)
    results = []
    for count in (1, threads):
        with ThreadTeam(count) as team:
            found, _ = exchanged(rows, core, mesh, 0, team, seed=seed, domains=domains)
            found = refine_by_v_cycle(rows, found, mesh, EFFORT, seed, team, domains)
        assert (found[fixed] == core[fixed]).all()
        assert within(domains, found)
        assert (load_of(rows, found, mesh) <= mesh.capacities).all()
        results.append(found.tolist())
    assert results[0] == results[1]


def test_exchanges_restore_a_grid() -> None:
    """Tiles of a sheet with shuffled vertices: without slack only exchanges help."""
    side, cores = 16, 4
    graph = grid_graph(side, side)
    links, rows = lists_of(graph), rows_of(graph)
    v = np.arange(side * side)
    tiles = ((v // side // 4) * cores + v % side // 4).astype(np.int32)
    rng = np.random.default_rng(1)
    core = tiles.copy()
    thrown = rng.choice(v, 60, replace=False)
    core[thrown] = core[rng.permutation(thrown)]
    mesh = CoreMesh(cores, cores, np.full(cores**2, side * side // cores**2))
    with ThreadTeam(2) as team:
        before = twin.all_hops(links, core.tolist(), cores)
        saved = pairwise_fm(rows, core, mesh, 8, 0, 1, team)
        core = refine_by_v_cycle(rows, core, mesh, EFFORT, 1, team)
    planted = twin.all_hops(links, tiles.tolist(), cores)
    assert saved > 0
    assert before > 3 * planted
    assert twin.all_hops(links, core.tolist(), cores) <= 1.35 * planted
