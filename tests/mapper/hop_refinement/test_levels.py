"""Refinement on levels: kernels against references, and invariants of the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.members import Members
from mapper.graph.rows import StreamedRows
from mapper.hop_refinement import multilevel
from mapper.hop_refinement.annealing import TO_NEIGHBOUR as NEAR_CORES
from mapper.hop_refinement.annealing import Cooling, _anneal_vertices, anneal_mapping
from mapper.hop_refinement.mesh import CoreMesh, _apart, _hop_cost, hop_cost
from mapper.hop_refinement.multilevel import (
    Levels,
    RefinementEffort,
    coarsen,
    first_parts,
    has_hubs,
    refine_levels,
    uncoarsen,
)
from mapper.hop_refinement.refine import Mapped, level_effort, refine_mapping
from mapper.hop_refinement.v_cycle import InnerRows, _within, refine_by_chains
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.scoring.stage_costs import StageCosts
from mapper.settings import preset
from storage.scratch.scratch import Scratch
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import adjacency, grid_graph, lists_of, rows_of
from tests.mapper.hop_refinement.cases import (
    CASES,
    EFFORT,
    SEEDS,
    Case,
    load_of,
    plane_of,
    random_case,
    some_domains,
    some_fixed,
    width_of,
    within,
)
from tests.reference import hop_refinement as twin
from tests.reference.bisection import Xorshift
from tests.seeds import seeds


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
            used = _within(whole, core, *out)
            assert used == chunk.ids.size
        assert found == expected
        assert inner.degrees().tolist() == [len(links) for links in expected]


@CASES
@pytest.mark.parametrize("seed", SEEDS)
def test_price_and_distance(case: Case, seed: int) -> None:
    graph, core, mesh = case(seed)
    width, links = width_of(mesh), lists_of(graph)
    plane = plane_of(mesh)
    for a in range(mesh.capacities.size):
        for b in range(mesh.capacities.size):
            assert _apart(a, b, mesh.grid) == twin.distance(a, b, width, plane)
    expected = 2 * twin.all_hops(links, core.tolist(), width, plane)
    for rows in (rows_of(graph), StreamedRows(graph, graph.vertex_sizes(), 0)):
        with ThreadTeam(2) as team:
            assert hop_cost(rows, core, mesh, team) == expected
        chunks = [rows.read(index) for index in range(rows.chunks)]
        assert sum(_hop_cost(chunk, core, mesh.grid) for chunk in chunks) == expected


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_levels_of_a_grid() -> None:
    """From the coarsest level, cut and placed as tiles, down to a tiling of the sheet."""
    side, cores = 32, 4
    graph = grid_graph(side, side)
    links, rows = lists_of(graph), rows_of(graph)
    capacity = side * side // cores**2 + 2
    room = np.full(cores**2, capacity)
    for mesh in (CoreMesh(cores, cores, room), CoreMesh.flat(room)):
        results = []
        for threads in (1, 2):
            with ThreadTeam(threads) as team:
                levels = coarsen(rows, 1, capacity, 3, team)  # for one core: down to 60 vertices
                assert len(levels.graphs) > 2
                for graph_above, cluster in zip(levels.graphs[1:], levels.clusters, strict=True):
                    assert graph_above.vertices == cluster.max() + 1
                    assert graph_above.sizes.sum() == side * side
                part = first_parts(levels.coarsest, cores**2, capacity, 3, EFFORT, 3, team)
                found = uncoarsen(levels, part, mesh, EFFORT, 3, team)
            results.append((part.tolist(), found.tolist()))
        assert results[0] == results[1]
        assert (load_of(rows, found, mesh) <= mesh.capacities).all()
        top = part
        for cluster in levels.clusters[::-1]:
            top = top[cluster]
        width = width_of(mesh)
        before, after = (twin.all_hops(links, some.tolist(), width) for some in (top, found))
        assert after < before
        if not width:
            assert after <= 1.35 * 2 * side * (cores - 1)


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("hubs", [0, 3])
def test_light_effort_bisects_with_the_mesh_if_there_are_hubs(
    hubs: int, light: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hubs: a hundredth of the vertices has at least a tenth of the connections."""
    side, cores = 16, 2
    grid = np.arange(side * side).reshape(side, side)
    source = np.r_[grid[:, :-1].ravel(), grid[:-1].ravel(), np.repeat(np.arange(hubs), 60)]
    far = np.random.default_rng(1).integers(hubs, side * side, 60 * hubs)
    target = np.r_[grid[:, 1:].ravel(), grid[1:].ravel(), far]
    graph = MemoryGraph.from_edges(side * side, source, target, undirected=True)
    rows = rows_of(graph)
    degrees = sorted(map(len, lists_of(graph)), reverse=True)
    assert has_hubs(rows) == (sum(degrees[:3]) >= 0.1 * sum(degrees)) == (hubs > 0)
    made = []
    bisect = multilevel.place_by_dual_recursive_bipartitioning

    def counted(*given: Any) -> Any:
        made.append(given)
        return bisect(*given)

    monkeypatch.setattr(multilevel, "place_by_dual_recursive_bipartitioning", counted)
    mesh = CoreMesh(cores, cores, np.full(cores**2, side * side // cores**2 + 4))
    core = np.random.default_rng(2).permutation(np.arange(side * side, dtype=np.int32) % cores**2)
    with ThreadTeam(1) as team:
        found = refine_levels(Levels([rows], []), core, mesh, replace(EFFORT, light=light), 1, team)
        assert hop_cost(rows, found, mesh, team) < hop_cost(rows, core, mesh, team)
    assert len(made) == (hubs > 0 or not light)
    assert (load_of(rows, found, mesh) <= mesh.capacities).all()


def test_light_effort_has_fewer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer starts if there are many connections; at least one."""
    rows, counts = rows_of(grid_graph(12, 12)), []
    split = multilevel.split_parts

    def counted(*given: Any) -> Any:
        counts[-1] += 1
        return split(*given)

    monkeypatch.setattr(multilevel, "split_parts", counted)
    monkeypatch.setattr(multilevel, "LIGHT_ENTRIES", 2 * rows.entries)
    with ThreadTeam(1) as team:
        for light, starts in ((False, 3), (True, 3), (True, 1)):
            counts.append(0)
            first_parts(rows, 4, 38, starts, replace(EFFORT, light=light), 1, team)
    assert counts == [3, 2, 1]


@pytest.mark.heavy
@pytest.mark.sample(1)
@CASES
@pytest.mark.parametrize("seed", seeds(8, plain=2))
def test_refinement(case: Case, seed: int, tmp_path: Path) -> None:
    """The same for any number of threads, and when resumed after any step."""
    graph, core, mesh = case(seed, slack=3)
    width = width_of(mesh)
    plan = Plan(0, {}, 0, 0, False, 64, 100, 0, 1, False, 1, 2)
    streamed = StreamedRows(graph, graph.vertex_sizes(), 0)
    links = lists_of(graph)
    for name, rows in (("held", rows_of(graph)), ("streamed", streamed)):
        fixed, rows = some_fixed(seed, rows, mesh)
        domains = some_domains(seed, fixed, core, mesh)
        levels, results = Levels([rows], [], domains), []
        for threads, folder in ((1, "one"), (2, "two"), (1, "two")):
            settings = preset("default", threads=threads, seed=seed)
            with ThreadTeam(threads) as team, Scratch(tmp_path / f"{name}-{folder}") as scratch:
                mapped, monitor = Mapped(levels, core, mesh), Monitor()
                StageCosts(monitor, team, rows)
                results.append(
                    refine_mapping(
                        mapped, Context(settings, plan, Checkpoint(scratch), monitor, team)
                    )
                )
        assert all(found.tolist() == results[0].tolist() for found in results)
        assert (load_of(rows, results[0], mesh) <= mesh.capacities).all()
        assert (results[0][fixed] == core[fixed]).all()
        assert within(domains, results[0])
        before, after = (
            twin.all_hops(links, found.tolist(), width, plane_of(mesh))
            for found in (core, results[0])
        )
        assert after <= before


@pytest.mark.sample(27)
@CASES
@pytest.mark.parametrize("temperature", [0.0, 5.0])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_annealing(case: Case, seed: int, bounded: bool, temperature: float) -> None:
    graph, core, mesh = case(seed)
    if bounded:
        mesh = replace(mesh, bounds=mesh.capacities * 2 // 3)
    links, rows = lists_of(graph), rows_of(graph)
    cores, places = mesh.capacities.size, int(np.bincount(core).max()) + 1 + seed % 2
    fixed, rows = some_fixed(seed, rows, mesh)
    lists = [np.flatnonzero((core == c) & ~fixed).tolist() for c in range(cores)]
    expected, made, change = twin.annealed(
        links, rows.sizes.tolist(), core.tolist(), width_of(mesh), mesh.height,
        mesh.capacities.tolist(), lists, places, 150, temperature, NEAR_CORES,
        Xorshift(2 * seed + 1), plane_of(mesh), mesh.least.tolist(),
    )  # fmt: skip
    members = np.full((cores, places), -1, np.int32)
    place, count = np.full(core.size, -1, np.int64), np.zeros(cores, np.int64)
    for c, some in enumerate(lists):
        members[c, : len(some)], count[c] = some, len(some)
        place[some] = np.arange(len(some))
    found, load = core.copy(), load_of(rows, core, mesh)
    state = np.array([2 * seed + 1], np.uint64)
    result = _anneal_vertices(
        rows.whole, rows.sizes, found, mesh.grid, load, Members(members, count, place), 150,
        temperature, state,
    )  # fmt: skip
    assert found.tolist() == expected
    assert result == (made, change)
    assert load.tolist() == load_of(rows, found, mesh).tolist()
    assert (found[fixed] == core[fixed]).all()
    assert count.tolist() == np.bincount(found[~fixed], minlength=cores).tolist()
    assert (members[found, place] == np.arange(core.size))[~fixed].all()


@pytest.mark.sample(6)
@CASES
@pytest.mark.parametrize("seed", seeds(6, plain=2))
def test_chains(case: Case, seed: int) -> None:
    """Never worse than before, within the capacity, and the same for any number of threads."""
    graph, core, mesh = case(seed)
    width = width_of(mesh)
    links, rows = lists_of(graph), rows_of(graph)
    fixed, rows = some_fixed(seed, rows, mesh)
    domains = some_domains(seed, fixed, core, mesh)
    cooling = Cooling(10, least=2000, steps=5)
    effort = RefinementEffort(1000, 1 << 20, 2, cooling, 2)
    results = []
    for threads in (1, 3):
        with ThreadTeam(threads) as team:
            results.append(refine_by_chains(rows, core, mesh, effort, seed, team, domains))
    assert results[0].tolist() == results[1].tolist()
    assert (load_of(rows, results[0], mesh) <= mesh.capacities).all()
    plane = plane_of(mesh)
    after = twin.all_hops(links, results[0].tolist(), width, plane)
    before = twin.all_hops(links, core.tolist(), width, plane)
    assert after <= before
    assert (results[0][fixed] == core[fixed]).all()
    assert within(domains, results[0])
    annealed = anneal_mapping(rows, core, mesh, cooling, seed, domains)
    assert within(domains, annealed)
    assert (annealed[fixed] == core[fixed]).all()
    assert (load_of(rows, annealed, mesh) <= mesh.capacities).all()
    assert twin.all_hops(links, annealed.tolist(), width, plane) <= before


def test_proposals_of_annealing() -> None:
    plan = Plan(1, {}, 0, 0, True, 1, 1, 1, 1)
    for proposals, entries, expected in ((0, 10, 0), (7, 10, 7), (500, 10, 100), (500, 800, 30)):
        settings = preset("strong", anneal_budget=1000)
        cooling = level_effort(settings, plan, entries, proposals).cooling
        assert (cooling.proposals if cooling else 0) == expected
    assert Cooling(3, steps=4).count(10) == 750
    assert Cooling(3, steps=4).count(100_000) == 175_000
    assert Cooling(3, steps=4).count(1_000_000) == 750_000
