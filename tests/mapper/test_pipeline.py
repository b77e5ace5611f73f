"""Small networks through all nine steps: every mapping is valid and reproducible."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.limits import violations
from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError, UsageError
from mapper.evaluation.verify import verify_network
from mapper.evaluation.verify_mapping import verify_mapping
from mapper.graph import contraction
from mapper.graph.contraction import contract
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.results.loads import TRAFFIC
from mapper.results.mapping import Mapping
from mapper.results.mapping_file import MAPPING, save_mapping
from mapper.results.output import (
    REPORT,
    SCRATCH,
    make_report,
    read_report,
    scratch_in,
    write_results,
)
from mapper.settings import Settings, preset
from storage.scratch.scratch import ScratchGraph
from storage.sorting.sorter import ConnectionSorter
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network, write_network

LIGHT = {"matching_repeats": 2, "bisection_repeats": 2, "force_iterations": 50}


def mapped(path: Path, chip: Chip, folder: Path, **changes: Any) -> tuple[Mapping, dict[str, Any]]:
    """Map, write the results into `folder`, verify them by the slow path."""
    settings = preset("classic", **{**LIGHT, **changes})
    folder.mkdir()
    with (
        Monitor() as monitor,
        NetworkFile(path) as network,
        scratch_in(folder / SCRATCH) as scratch,
    ):
        mapping = map_network(network, chip, settings, scratch, monitor)
        report = make_report(network, path, chip, settings, mapping, monitor)
    write_results(folder, report, mapping, chip)
    verify_network(path)
    verify_mapping(folder, read_report(folder), path)
    assert violations(chip, mapping.traffic.usage) == []
    assert report["levels"][0]["cut_weight"] == pytest.approx(report["metrics"]["cut_weight"])
    assert sorted(p.name for p in folder.iterdir()) == [MAPPING, REPORT, SCRATCH, TRAFFIC]
    return mapping, report


def check(path: Path, chip: Chip, folder: Path, **changes: Any) -> dict[str, Any]:
    mapping, report = mapped(path, chip, folder / "out", **changes)
    assert mapping.core.dtype == np.int32
    assert mapping.core.shape == (report["network"]["neurons"],)
    metrics: dict[str, Any] = report["metrics"]
    return metrics


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("sized", [False, True])
def test_random_networks(undirected: bool, sized: bool, folder: Path) -> None:
    sizes = np.random.default_rng(1).integers(1, 4, 60).tolist() if sized else None
    path = random_network(folder / "net.bin", 60, 240, undirected=undirected, sizes=sizes)
    chip = Chip("small", 5, 4, neurons=14 if sized else 6)
    metrics = check(path, chip, folder)
    assert 0 < metrics["hops_total"] < 6 * metrics["cut_weight"]


def test_fractions_as_weights(folder: Path) -> None:
    rng = np.random.default_rng(0)
    path = write_network(
        folder / "net.bin", rng.integers(0, 30, (90, 2)), 30, rng.random(90) * 1e-3
    )
    metrics = check(path, Chip("small", 3, 3, neurons=4), folder)
    assert 0 < metrics["cut_weight"] < 90e-3


def test_isolated_vertices_and_components(folder: Path) -> None:
    ring = [(i, i // 8 * 8 + (i + 1) % 8) for i in range(24)]
    path = write_network(folder / "net.bin", ring, 33)
    metrics = check(path, Chip("small", 3, 2, neurons=8), folder)
    assert metrics["cut_fraction"] < 0.7


def test_no_synapses_at_all(folder: Path) -> None:
    path = write_network(folder / "net.bin", [], 10)
    metrics = check(path, Chip("small", 2, 2, neurons=3), folder)
    assert (metrics["hops_total"], metrics["hops_mean"], metrics["cores_used"]) == (0, 0.0, 4)


def test_zero_weights(folder: Path) -> None:
    path = write_network(folder / "net.bin", [(i, (i + 1) % 9) for i in range(9)], 9, [0] * 9)
    metrics = check(path, Chip("small", 2, 2, neurons=3), folder)
    assert (metrics["cut_weight"], metrics["cut_fraction"]) == (0, 0.0)


def test_a_single_neuron(folder: Path) -> None:
    path = write_network(folder / "net.bin", [], 1)
    assert check(path, Chip("one", 1, 1, neurons=1), folder)["cores_used"] == 1


def test_all_in_one_core(folder: Path) -> None:
    path = random_network(folder / "net.bin", 20, 80)
    metrics = check(path, Chip("large", 4, 4, neurons=20), folder)
    assert (metrics["cores_used"], metrics["hops_total"], metrics["cut_weight"]) == (1, 0, 0)


@pytest.mark.parametrize("cores", [(1, 5), (3, 1), (2, 3), (7, 1), (3, 3)])
@pytest.mark.parametrize("capacity", [1, 3, 5])
def test_no_slack(cores: tuple[int, int], capacity: int, folder: Path) -> None:
    n = cores[0] * cores[1] * capacity
    path = random_network(folder / "net.bin", n, 3 * n)
    metrics = check(path, Chip("tight", *cores, neurons=capacity), folder)
    assert (metrics["cores_used"], metrics["core_fill_mean"]) == (n // capacity, 1.0)


def test_no_slack_under_two_limits(folder: Path) -> None:
    """Shares of a core are exact: 7 neurons of a seventh each fill it completely."""
    path = random_network(folder / "net.bin", 28, 60)
    check(path, Chip("tight", 2, 2, neurons=7, synapses=1000), folder)


def test_faulty_cores_stay_empty(folder: Path) -> None:
    path = random_network(folder / "net.bin", 40, 160)
    chip = Chip("faulty", 4, 4, neurons=4, unavailable=(0, 5, 6, 10, 12, 15))
    mapping, _ = mapped(path, chip, folder / "out")
    assert not np.isin(mapping.core, chip.unavailable).any()


def test_synapse_limit(folder: Path) -> None:
    rng = np.random.default_rng(0)
    edges = np.column_stack([rng.integers(0, 40, 300), rng.integers(0, 40, 300) ** 2 // 40])
    path = write_network(folder / "net.bin", edges, 40)
    mapping, _ = mapped(path, Chip("s", 4, 3, neurons=20, synapses=40), folder / "out")
    assert mapping.traffic.usage.synapses.max() <= 40
    with NetworkFile(path) as network:
        fits = network.meta.synapses // 12
    with pytest.raises(DoesNotFitError, match="synapses"):
        mapped(path, Chip("s", 4, 3, neurons=20, synapses=fits), folder / "tight")


def test_axon_limits_that_no_partition_meets(folder: Path) -> None:
    """A limit that is only checked at the end fails the run; no mapping is written."""
    path = random_network(folder / "net.bin", 40, 300)
    with pytest.raises(DoesNotFitError, match="axons_out"):
        mapped(path, Chip("s", 5, 4, neurons=2, axons_out=3), folder / "out")


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("block_size", [1, 7, 64])
def test_the_result_does_not_depend_on_threads_and_memory(
    block_size: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = random_network(folder / "net.bin", 64, 250, block_size=block_size)
    chip = Chip("small", 4, 4, neurons=5)
    bytes_of = []
    spilled: list[int] = []

    class Told(ConnectionSorter):
        def close(self) -> None:
            spilled.append(self._file.size)
            super().close()

    monkeypatch.setattr(contraction, "ConnectionSorter", Told)
    for k, (threads, memory) in enumerate(product((1, 2), (1 << 10, 1 << 28))):
        # no --memory is small enough to sort these networks on disk

        def limited(*given: Any, memory: int = memory) -> ScratchGraph:
            graph, cluster, count, scratch, name, _, threads = given
            return contract(graph, cluster, count, scratch, name, memory, threads)

        monkeypatch.setattr("mapper.methods.classic.contract", limited)
        monkeypatch.setattr("mapper.partitioning.classic.contract", limited)
        mapped(path, chip, folder / f"{k}", seed=5, threads=threads)
        bytes_of.append((folder / f"{k}" / MAPPING).read_bytes())
        assert (sum(spilled) > 0) == (memory == 1 << 10)
        spilled.clear()
    assert len(set(bytes_of)) == 1


def test_another_seed_may_differ(folder: Path) -> None:
    path = random_network(folder / "net.bin", 64, 250)
    chip = Chip("small", 4, 4, neurons=5)
    found = {mapped(path, chip, folder / f"{s}", seed=s)[0].core.tobytes() for s in range(3)}
    assert len(found) > 1


def test_equal_mappings_have_equal_bytes(folder: Path) -> None:
    core, chip = np.arange(6, dtype=np.int32), Chip("c", 3, 2)
    for name in ("a.npz", "b.npz"):
        save_mapping(folder / name, core, chip)
    assert (folder / "a.npz").read_bytes() == (folder / "b.npz").read_bytes()


def test_report_has_the_specified_fields(folder: Path) -> None:
    path = random_network(folder / "net.bin", 40, 160)
    _, report = mapped(path, Chip("small", 4, 4, neurons=4), folder / "out")
    assert list(report) == [
        "schema", "tool", "network", "chip", "settings", "metrics", "levels", "stages", "resources",
        "baselines",
    ]  # fmt: skip
    assert report["schema"] == 1
    assert set(report["tool"]) == {"name", "version"}
    assert {
        "path", "neurons", "synapses", "synapses_read", "undirected", "weight_total",
    } <= set(report["network"])  # fmt: skip
    assert {"preset", "objective", "seed", "threads", "memory_bytes"} <= set(report["settings"])
    assert set(report["metrics"]) == {
        "cut_weight", "cut_fraction", "hops_total", "hops_mean", "hops_max", "energy",
        "latency_mean", "latency_max", "link_load_max", "link_load_mean", "link_load_p99",
        "router_load_max", "router_load_mean", "congestion_mean", "congestion_max", "core",
        "multicast", "cores_used", "core_fill_mean", "core_fill_max",
    }  # fmt: skip
    assert set(report["metrics"]["multicast"]) == {
        "connectivity", "hops_total", "unicast_hops_total", "link_load_max", "link_load_mean",
        "link_load_p99", "router_load_max", "router_load_mean",
    }  # fmt: skip
    assert len(report["levels"]) > 0
    always = {"vertices", "connections", "cut_weight"}
    for level in report["levels"]:
        assert always <= set(level) <= always | {"hops_total"}
    always = {"name", "seconds", "cpu_seconds", "peak_anon_bytes"}
    for stage in report["stages"]:
        assert always <= set(stage) <= always | {"cut_weight", "hops_total"}
    assert set(report["resources"]) == {
        "seconds", "peak_rss_bytes", "peak_anon_bytes", "bytes_read", "bytes_written",
        "connections_visited", "passes",
    }  # fmt: skip
    assert all(stage["cpu_seconds"] >= 0 for stage in report["stages"])
    visited = report["resources"]["connections_visited"]
    assert visited > 0
    with NetworkFile(path) as network:
        assert report["resources"]["passes"] == round(visited / network.connections, 2)


def test_levels_shrink_by_a_fifth_and_keep_their_sizes(folder: Path) -> None:
    path = random_network(folder / "net.bin", 300, 900)
    _, report = mapped(path, Chip("small", 2, 2, neurons=100), folder / "out")
    vertices = [level["vertices"] for level in report["levels"]]
    assert len(vertices) > 2
    assert all(b <= 0.8 * a for a, b in pairwise(vertices))
    cuts = [level["cut_weight"] for level in report["levels"]]
    assert all(fine <= coarse for fine, coarse in pairwise(cuts))


@pytest.mark.parametrize(
    "change",
    [
        {"seed": -1}, {"threads": 0}, {"memory_bytes": 1}, {"matching_repeats": 0},
        {"stop_shrink": 0.0}, {"stop_shrink": float("nan")}, {"force_share": 1.5},
    ],
)  # fmt: skip
def test_settings_reject_invalid_values(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(change))):
        Settings(**change)
