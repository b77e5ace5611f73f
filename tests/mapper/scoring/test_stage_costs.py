"""Cut and hops of each stage: counts of rows, corrected estimates, and the report of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import StreamedRows
from mapper.hypergraph.tree_refinement import refine_by_trees
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.planning.strategy import make_plan
from mapper.results.output import make_report, scratch_in
from mapper.scoring.stage_costs import SPARED, CostEstimate, StageCosts, estimate
from mapper.settings import Settings, preset
from storage.store.network import NetworkFile
from tests.mapper.helpers import (
    lists_of,
    random_graph,
    random_network,
    rows_of,
    subgraph,
    write_network,
)
from tests.reference.partitioning import cut
from tests.reference.placement import hop_cost

pytestmark = pytest.mark.usefixtures("light_placement")
CHIP = Chip("c", 5, 4, neurons=16, unavailable=(7,))


@pytest.fixture(params=[1, 2])
def team(request: pytest.FixtureRequest) -> Iterator[ThreadTeam]:
    with ThreadTeam(request.param) as team:
        yield team


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_counted_as_in_the_reference(seed: int, team: ThreadTeam) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 40)
    part = rng.integers(0, 9, 40).astype(np.int32)
    x, y = rng.integers(0, 7, (2, 9))
    links = lists_of(graph)
    found = estimate(rows_of(graph), part, team, (x, y))
    assert found.whole
    assert (found.cut, found.hops) == (cut(links, part.tolist()), hop_cost(links, x[part], y[part]))
    assert estimate(rows_of(graph), part, team) == replace(found, hops=0)


def test_rows_on_disk_are_sampled(folder: Path, team: ThreadTeam) -> None:
    """With equal chunks the scaled estimate is exact."""
    chunks = SPARED * 20
    ring = [(16 * c + i, 16 * c + (i + 1) % 16) for c in range(chunks) for i in range(16)]
    path = write_network(folder / "net.bin", ring, 16 * chunks, block_size=16)
    with NetworkFile(path) as network:
        rows = StreamedRows(network, network.vertex_sizes(), 0)
        seen: list[int] = []
        rows.read = lambda index, read=rows.read: seen.append(index) or read(index)  # type: ignore
        part = (np.arange(16 * chunks) // 8).astype(np.int32)  # two to a ring
        found = estimate(rows, part, team)
    assert sorted(seen) == list(range(SPARED // 2, chunks, SPARED))
    assert (found.cut, found.whole) == (2 * chunks, False)


class Totals:
    """Totals of a finished mapping."""

    def __init__(self, cut: int, hops: int) -> None:
        self.totals = self
        self.cut, self.hops = cut, hops


def told(
    team: ThreadTeam, finished: Totals, *, faithful: bool = True
) -> tuple[dict[str, Any], CostEstimate]:
    """Return a stage of a random graph, and the estimate of its partition."""
    rng = np.random.default_rng(0)
    rows = rows_of(random_graph(rng, 40))
    part = rng.integers(0, 6, 40).astype(np.int32)
    x, y = np.arange(6) % 3, np.arange(6) // 3
    with Monitor() as monitor:
        costs = StageCosts(monitor, team, rows, faithful=faithful)
        with monitor.stage("placement"):
            costs.on_placement(part, x, y)
        costs.finish(part, 3, None)
        costs.settle(finished)  # type: ignore[arg-type]
    return monitor.stages[0], estimate(rows, part, team, (x, y))


def test_costs_equal_to_the_score_are_exact(team: ThreadTeam) -> None:
    _, seen = told(team, Totals(1, 1))
    stage, _ = told(team, Totals(int(seen.cut), int(seen.hops)))
    assert (stage["cut_weight"], stage["hops_total"]) == (seen.cut, seen.hops)
    assert "estimated" not in stage


@pytest.mark.parametrize("faithful", [True, False])
def test_estimates_are_corrected_by_the_score(faithful: bool, team: ThreadTeam) -> None:
    stage, seen = told(team, Totals(777, 3333), faithful=faithful)
    assert (seen.cut, seen.hops) != (777, 3333)
    assert (stage["cut_weight"], stage["hops_total"], stage["estimated"]) == (777, 3333, True)


def test_groups_give_exact_costs(team: ThreadTeam) -> None:
    rng = np.random.default_rng(3)
    graph = random_graph(rng, 12)
    x, y = rng.integers(0, 4, (2, 12))
    with Monitor() as monitor:
        costs = StageCosts(monitor, team, rows_of(graph), faithful=False)
        with monitor.stage("placement"):
            costs.on_placed_groups(subgraph(graph), x, y)
        costs.finish(np.zeros(12, np.int32), 4, None)
        costs.settle(Totals(5, 5))  # type: ignore[arg-type]
    links = lists_of(graph)
    assert monitor.stages[0]["hops_total"] == hop_cost(links, x, y)
    assert monitor.stages[0]["cut_weight"] == cut(links, range(12))
    assert "estimated" not in monitor.stages[0]


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "classic": ({"name": "classic"}, {}),
    "levels": ({"name": "fast"}, {}),
    "held": ({"name": "fast"}, {"levels": False}),
    "streamed": ({"name": "fast"}, {"levels": False, "held": False}),
    "cut": ({"name": "fast", "objective": "cut"}, {}),
    "nets": ({"name": "fast", "objective": "multicast"}, {}),
    "streamed nets": (
        {"name": "fast", "objective": "multicast"}, {"nets_held": False, "held": False},
    ),
}  # fmt: skip
PLACED = ("placement", "initial placement", "force-directed refinement")


def reported(path: Path, settings: Settings, chip: Chip = CHIP) -> dict[str, Any]:
    """Return the report of a complete run."""
    with (
        Monitor() as monitor,
        NetworkFile(path) as network,
        scratch_in(path.parent / "scratch") as scratch,
    ):
        mapping = map_network(network, chip, settings, scratch, monitor)
        return make_report(network, path, chip, settings, mapping, monitor)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("weights", ["whole", "real"])
@pytest.mark.parametrize("way", WAYS)
def test_a_run_reports_cut_and_hops(
    way: str, weights: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, planned = WAYS[way]
    monkeypatch.setattr(
        "mapper.pipeline.make_plan", lambda *given: replace(make_plan(*given), **planned)
    )
    edges = np.random.default_rng(2).integers(0, 240, (1400, 2))
    given = None if weights == "whole" else np.random.default_rng(3).random(1400)
    path = write_network(folder / "net.bin", edges, 240, given, block_size=32)
    settings = preset(
        **chosen, memory_bytes=1 << 30, block_vertices=64, bisection_repeats=2, force_iterations=9
    )
    with NetworkFile(path) as network:
        total = network.meta.total_weight
    report = reported(path, settings)
    metrics, stages = report["metrics"], report["stages"]
    with_cut = [stage for stage in stages if "cut_weight" in stage]
    with_hops = [stage for stage in stages if "hops_total" in stage]
    last = with_hops[-1]
    for name in ("cut_weight", "hops_total"):
        assert last[name] == report["levels"][0][name] == metrics[name]
    assert "estimated" not in last
    assert [stage["name"] for stage in stages if stage["name"].startswith(PLACED)] == [
        stage["name"] for stage in with_hops if stage["name"].startswith(PLACED)
    ]
    assert len(with_cut) >= 2 + (way in ("cut", "classic"))
    assert all(0 < stage["cut_weight"] <= total for stage in with_cut)
    assert all(stage["hops_total"] >= stage["cut_weight"] for stage in with_hops)
    if weights == "whole":  # rows in memory hold all entries
        assert not any("estimated" in entry for entry in stages + report["levels"])
    if way == "levels":
        hops = [level["hops_total"] for level in report["levels"]]
        assert hops == sorted(hops)
    if chosen.get("objective") == "multicast":
        found = metrics["multicast"]
        names = ("connectivity", "hops_total")
        assert last["multicast"] == {name: pytest.approx(found[name]) for name in names}
    if way == "nets":
        placed = next(stage for stage in stages if stage["name"] == "placement")
        assert placed["multicast"]["hops_total"] >= found["hops_total"]
        assert placed["multicast"]["connectivity"] > 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_costs_of_nets_equal_the_score(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing better is found after the placement, its values are the mapping's."""

    def looked(nets: Any, core: Any, mesh: Any, effort: Any, seed: int, *more: Any) -> Any:
        before = refine_by_trees(nets, core, mesh, effort, seed, *more)[1]
        return core, before, before

    monkeypatch.setattr("mapper.hypergraph.steps.refine_by_trees", looked)
    path = random_network(folder / "net.bin", 120, 700)
    settings = preset("fast", objective="multicast", memory_bytes=1 << 30, tree_cycles=1)
    report = reported(path, settings)
    placed = next(stage for stage in report["stages"] if stage["name"] == "placement")
    ended = next(stage for stage in report["stages"] if stage["name"] == "tree refinement")
    assert placed["hops_total"] == ended["hops_total"]
    assert placed["multicast"] == ended["multicast"]


@pytest.mark.jit
def test_parts_changed_by_repairs(folder: Path) -> None:
    """The stage `limits` reports the cut after its repairs, and each attempt its own levels."""
    path = random_network(folder / "net.bin", 200, 1200)
    chip = Chip("tight", 5, 5, neurons=16, axons_in=58)
    settings = preset("fast", memory_bytes=1 << 30)
    report = reported(path, settings, chip)
    repaired = [s for s in report["stages"] if s["name"] == "limits" and "cut_weight" in s]
    assert len(repaired) == 1
    assert len(report["levels"]) == 1
