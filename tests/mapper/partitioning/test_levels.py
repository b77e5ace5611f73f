"""Additional coarsening levels if memory holds too little of the first level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.concurrency.stop_flag import StoppedError
from mapper.concurrency.threads import ThreadTeam
from mapper.monitoring.context import Context
from mapper.monitoring.monitor import Monitor
from mapper.partitioning import levels
from mapper.partitioning.levels import ClusterLevel, cluster_rows, clustered_enough, sample_at
from mapper.partitioning.streamed import CLUSTER, Task, open_rows, partition_streamed
from mapper.planning.plan import Plan
from mapper.resume.checkpoint import Checkpoint
from mapper.settings import preset
from storage.scratch.scratch import Scratch
from storage.store.memory import MemoryGraph
from tests.mapper.helpers import lists_of
from tests.reference.partitioning import cut

CAPACITY, CORES = 40, 60
NEURONS = 2000
PLENTY = 1 << 20


def sheet() -> MemoryGraph:
    """A sheet of 50 by 40 neurons with synapses to neighbours and distant neurons, sizes 1 and
    2.
    """
    rng = np.random.default_rng(3)
    v = np.arange(NEURONS)
    near = [
        (v % 50 + dx) % 50 + 50 * ((v // 50 + dy) % 40)
        for dx, dy in rng.integers(-3, 4, (9, NEURONS, 2)).transpose(0, 2, 1)
    ]
    source, target = np.tile(v, 10), np.concatenate([*near, rng.integers(0, NEURONS, NEURONS)])
    kept = source != target
    return MemoryGraph.from_edges(
        NEURONS, source[kept], target[kept], rng.integers(1, 9, int(kept.sum())),
        sizes=np.where(v % 17, 1, 2), undirected=True, block_size=64,
    )  # fmt: skip


def plan(capacities: tuple[int, int], threads: int) -> Plan:
    """capacities : of the sample of the first clusters, and of higher levels"""
    first, above = capacities
    return Plan(
        1 << 30, {}, 0, 0, False, first, 1 << 16, 1 << 20, threads, sampled_above=above,
        contracted=1 << 16,
    )  # fmt: skip


BY_LEVELS = {0: (PLENTY, 0), 1: (1000, PLENTY), 2: (1000, 8000)}
"""Capacities that give the sheet this many additional levels."""


def partitioned(
    folder: Path, capacities: tuple[int, int], threads: int = 1, steps: Any = Checkpoint,
) -> tuple[list[int], Monitor]:  # fmt: skip
    settings = preset(
        "fast", block_vertices=512, bisection_repeats=2, smoothing=4, threads=threads, seed=5
    )
    graph, monitor = sheet(), Monitor()
    with Scratch(folder) as scratch, ThreadTeam(threads) as team:
        rows = open_rows(graph, 0, False, scratch, monitor, team)
        context = Context(settings, plan(capacities, threads), steps(scratch), monitor, team)
        part, _ = partition_streamed(Task(graph, rows, CAPACITY, CORES), context)
        assert not [path for path in folder.iterdir() if path.is_dir()]  # levels are deleted
    return part.tolist(), monitor


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("count", BY_LEVELS)
def test_threads_change_nothing(count: int, tmp_path: Path) -> None:
    found = []
    for threads in (1, 2, 3):
        part, monitor = partitioned(tmp_path / str(threads), BY_LEVELS[count], threads)
        found.append(part)
        assert monitor.sample is not None
        assert monitor.sample.levels == count
        assert len(monitor.levels) == count + 2  # the network, levels in scratch, and in memory
        vertices = [level["vertices"] for level in monitor.levels]
        assert vertices == sorted(vertices, reverse=True)
    assert found[0] == found[1] == found[2]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_levels_cost_no_quality(tmp_path: Path) -> None:
    cuts = {
        count: cut(lists_of(sheet()), partitioned(tmp_path / str(count), capacities)[0])
        for count, capacities in BY_LEVELS.items()
    }
    assert max(cuts.values()) < 1.05 * cuts[0]


class Killed(Checkpoint):
    """Steps of a run that is killed when it starts a given step."""

    at = ""

    def run_once(self, name: str, work: Any) -> Any:
        if name == self.at:
            raise KeyboardInterrupt
        return super().run_once(name, work)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("step", ["cluster 1", "cluster 2", "blocks", "refine 4.0"])
def test_a_run_killed_between_levels_resumes_to_the_same_result(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, heard = partitioned(tmp_path / "whole", BY_LEVELS[2])
    monkeypatch.setattr(Killed, "at", step)
    with pytest.raises(KeyboardInterrupt):
        partitioned(tmp_path / "killed", BY_LEVELS[2], steps=Killed)
    resumed, again = partitioned(tmp_path / "killed", BY_LEVELS[2])
    assert resumed == whole
    assert again.levels == heard.levels
    assert again.sample == heard.sample


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    with Scratch(tmp_path / "scratch") as scratch, ThreadTeam(2) as team:
        settings = preset("fast", threads=2)
        yield Context(settings, plan((1000, 2000), 2), Checkpoint(scratch), Monitor(), team)


def network_of(context: Context, folder: Path) -> tuple[ClusterLevel, Scratch]:
    scratch = Scratch(folder)
    rows = open_rows(sheet(), 0, False, scratch, context.monitor, context.team)
    cluster = cluster_rows(rows, CLUSTER, 1, "cluster", context)
    return ClusterLevel(rows, cluster, int(cluster.max()) + 1), scratch


@pytest.mark.heavy
@pytest.mark.jit
def test_levels_end_before_blocks_have_too_few_clusters(context: Context, tmp_path: Path) -> None:
    network, scratch = network_of(context, tmp_path / "rows")
    with scratch:
        counts = {}
        for blocks in (2, 4, 8, 16, 60):
            steps = context.steps.nested(str(blocks))
            with clustered_enough(network, CLUSTER, blocks, context._replace(steps=steps)) as last:
                counts[blocks] = last.clusters
                # clusters of the network may exceed a 32nd of a block
                assert last.clusters >= min(network.clusters, 0.9 * 32 * blocks)
                part = last.of_network(np.arange(last.clusters, dtype=np.int32))
                sizes = np.bincount(part, weights=network.rows.sizes)
                assert sizes.astype(int).sum() == network.rows.sizes.sum()
                if last.made:
                    assert np.bincount(last.cluster, weights=last.rows.sizes).max() <= max(
                        network.rows.sizes.sum() // (32 * blocks), last.rows.sizes.max()
                    )
        assert sorted(counts.values()) == list(counts.values())
        assert counts[60] == network.clusters  # not a single level


@pytest.mark.jit
def test_ctrl_c_stops_a_contraction(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, scratch = network_of(context, tmp_path / "rows")
    asked = []

    def contract(*arguments: Any) -> Any:
        context.team.stop.ask()
        asked.append(True)
        return made(*arguments)

    made = levels.contract_to_scratch
    monkeypatch.setattr(levels, "contract_to_scratch", contract)
    with (
        scratch,
        pytest.raises(StoppedError),
        clustered_enough(network, CLUSTER, 2, context),
    ):
        raise AssertionError("must not be reached")
    assert asked
    assert not list((tmp_path / "scratch").glob("spare*"))


@pytest.mark.jit
def test_levels_stop_once_the_sample_suffices(context: Context, tmp_path: Path) -> None:
    """Twenty connections per cluster of the first level, fifty per cluster of others, or all."""
    network, scratch = network_of(context, tmp_path / "rows")
    with scratch:
        for first, levels_made in (
            (20 * network.clusters, False),
            (20 * network.clusters - 1, True),
        ):
            steps = context.steps.nested(str(first))
            own = context._replace(
                plan=replace(context.plan, sampled=first, sampled_above=PLENTY), steps=steps
            )
            with clustered_enough(network, CLUSTER, 2, own) as last:
                assert bool(last.made) == levels_made
                assert sample_at(last, own).levels == len(last.made)
