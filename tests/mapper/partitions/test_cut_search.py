"""The search for a small cut: combined partitions, V-cycles, and parts that were left empty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mapper
from mapper.concurrency.threads import ThreadTeam
from mapper.hop_refinement import v_cycle
from mapper.hop_refinement.mesh import CoreMesh, hop_cost
from mapper.hop_refinement.multilevel import RefinementEffort
from mapper.hop_refinement.v_cycle import refine_by_v_cycle
from mapper.methods import cut_search
from mapper.methods.cut_search import CutEffort
from mapper.partitions.empty_parts import fill_empty_parts
from tests.mapper.helpers import lists_of, random_graph, rows_of

pytestmark = pytest.mark.jit

SIDE = 20
GIVEN = {"threads": 1, "memory": "256MiB", "seed": 1}


def grid() -> np.ndarray:
    """Return the edges of a square grid, shape (2, edges)."""
    vertex = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    across = np.vstack([vertex[:, :-1].ravel(), vertex[:, 1:].ravel()])
    return np.hstack([across, np.vstack([vertex[:-1].ravel(), vertex[1:].ravel()])])


def test_a_combination_is_never_worse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[int, list[int]]] = []
    cycle = cut_search._CutSearch._cycle

    def watched(self, name, part, other=None):  # type: ignore[no-untyped-def]
        found = cycle(self, name, part, other)
        given = [one for one in (part, other) if one is not None]
        cuts.append((self._key(found), [self._key(one) for one in given]))
        return found

    monkeypatch.setattr(cut_search._CutSearch, "_cycle", watched)
    rng = np.random.default_rng(4)
    mapper.partition(rng.integers(0, 400, (2, 1200)), 5, **GIVEN)
    assert len(cuts) >= 4  # three combinations of four starts, and a V-cycle
    assert all(after <= min(before) for after, before in cuts)
    assert any(after < min(before) for after, before in cuts)


def test_more_starts_find_smaller_cuts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = []
    for starts in (1, 6):
        monkeypatch.setitem(cut_search.EFFORTS, "default", CutEffort(starts, 3, 1 << 40))
        cuts.append(sum(mapper.partition(grid(), k, **GIVEN).cut for k in (3, 5, 7)))
    assert cuts[1] < cuts[0]


def test_labels_apart_are_not_contracted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    rows = rows_of(random_graph(rng, 300, mean_degree=6.0))
    core = (np.arange(300) % 3).astype(np.int32)
    apart = rng.integers(0, 4, 300).astype(np.int32)
    seen: list[np.ndarray] = []
    made = v_cycle._coarsen

    def watched(*given):  # type: ignore[no-untyped-def]
        found = made(*given)
        seen.append(found[1])
        return found

    monkeypatch.setattr(v_cycle, "_coarsen", watched)
    mesh = CoreMesh.flat(np.full(3, 110, np.int64))
    effort = RefinementEffort(1 << 20, 1 << 20, 1)
    with ThreadTeam(1) as team:
        found = refine_by_v_cycle(rows, core, mesh, effort, 1, team, apart=apart)
        assert hop_cost(rows, found, mesh, team) < hop_cost(rows, core, mesh, team)
    labels = set(zip(seen[0].tolist(), core.tolist(), apart.tolist(), strict=True))
    assert len(labels) == seen[0].max() + 1  # each cluster has one label


def test_empty_parts_get_the_least_connected_vertices() -> None:
    graph = random_graph(np.random.default_rng(3), 40, mean_degree=5.0)
    part = (np.arange(40) % 4).astype(np.int32)
    links = lists_of(graph)
    bond = [sum(w for u, w in links[v] if part[u] == part[v]) for v in range(40)]
    with ThreadTeam(1) as team:
        same = fill_empty_parts(rows_of(graph), part, 4, team)
        found = fill_empty_parts(rows_of(graph), part, 9, team)
        all_apart = fill_empty_parts(rows_of(graph), part, 40, team)
    assert (same == part).all()
    assert set(found.tolist()) == set(range(9))
    moved = np.flatnonzero(found != part)
    assert moved.size == 5
    assert max(bond[v] for v in moved) <= sorted(bond)[4 + 4]  # one vertex of each part stays
    assert sorted(all_apart.tolist()) == list(range(40))
