"""Requirements of workers: planned, reported by `check`, and enforced by `run`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.graph.disk import with_disk
from mapper.planning.strategy import make_plan
from mapper.planning.worker_plan import WorkerPlan, packed_bytes, plan_workers, ranges_for
from mapper.settings import preset
from storage.scratch.packed import pack
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIP = Chip("small", 40, 40, neurons=32)


def planned(
    folder: Path,
    count: int = 2,
    threads: int = 1,
    n: int = 2000,
    block_size: int | None = None,
    contractions: tuple[int, ...] = (),
) -> WorkerPlan:
    path = folder / f"net-{n}-{block_size}.bin"
    if not path.exists():
        random_network(path, n, 20 * n, block_size=block_size)
    settings = preset("default", memory_bytes=1 << 30)
    with NetworkFile(path) as network:
        plan = replace(make_plan(network, CHIP, settings), held=False, levels=False)
        plan = with_disk(plan, network, CHIP, settings)
        plan = replace(plan, contractions=contractions)
        return plan_workers(network, CHIP, settings, plan, count, threads)


def test_more_of_anything_needs_more(tmp_path: Path) -> None:
    one = planned(tmp_path)
    assert planned(tmp_path, threads=8).memory > one.memory
    assert planned(tmp_path, n=20_000).memory > one.memory
    assert planned(tmp_path, count=4).memory == one.memory
    assert planned(tmp_path, count=4).disk == one.disk // 2 > 20 * 2000 // 2  # one byte per entry
    sizes = 2000  # of neurons are sent where their blocks are cut, for any number of workers
    for name, sent in planned(tmp_path, count=4).sent.items():
        once = sizes if name == "split blocks" else 0
        assert abs(sent.to - once - 2 * (one.sent[name].to - once)) <= 2
        assert sent.back >= one.sent[name].back
        assert sent.shared == one.sent[name].shared
        assert (sent.shared > 20 * 2000) == (name == "split blocks")


def test_scoring_traffic_is_planned(tmp_path: Path) -> None:
    """The core of each neuron to each worker; sums over cores and routers from each range."""
    two, four = (planned(tmp_path, count, block_size=64).sent["score"] for count in (2, 4))
    assert (two.to, four.to) == (2 * 2 * 2000, 4 * 2 * 2000)
    assert two.back >= 8 * 16 * 4 * 1600
    pairs = 40_000  # pairs of cores with traffic, in all ranges together, at most
    assert abs(four.back - two.back - 8 * 16 * 4 * 1600) < pairs
    assert two.shared == 0


def test_coarsening_levels_need_more(tmp_path: Path) -> None:
    """Disk and shared folder; memory if the levels are large compared with the rest."""
    none, one, two = (
        planned(tmp_path, contractions=some) for some in ((), (35_000,), (35_000, 11_000))
    )
    assert none.disk < one.disk < two.disk < none.disk + 4 * 46_000 // 2
    name = "initial partition"
    for way in range(3):
        if way != 1:  # sampled ids of a coarser level need fewer bytes
            assert none.sent[name][way] < one.sent[name][way] < two.sent[name][way]
        others = [
            {other: sent[way] for other, sent in plan.sent.items() if other != name}
            for plan in (none, one, two)
        ]
        assert others[0] == others[1] == others[2]
    assert none.sent[name].shared == 0
    assert two.sent[name].shared < 4 * 46_000
    large = planned(tmp_path, contractions=(10**9,))
    assert none.memory <= one.memory < large.memory
    assert large.beside == one.beside


def test_exchanged_rows_use_a_share_of_the_memory(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert plan.exchanged([("here", 4 << 30), ("there", 8 << 30)]) == 1 << 30
    assert plan.exchanged([("here", 8 << 30), ("here", 8 << 30)], together=2) == 1 << 30
    assert plan.exchanged([("here", 0)]) == plan.window
    enough = int(plan.memory / 0.95) + 1
    for given in (enough, enough + (8 << 20), 2 * enough):
        found = plan.exchanged([("here", given)])
        assert plan.window <= found <= max(given // 4, plan.window)
        assert plan.beside + found <= 0.95 * given


def test_workers_that_are_too_small(tmp_path: Path) -> None:
    plan = planned(tmp_path, threads=2)
    enough = int(plan.memory / 0.95) + 1
    plan.require([("here", enough), ("elsewhere", 0)])
    with pytest.raises(DoesNotFitError) as raised:
        plan.require([("here", enough), ("there", enough - (1 << 20))])
    text = str(raised.value)
    assert text.startswith("--workers: each worker needs ")
    assert "one on there has " in text
    assert text.endswith("MiB, or fewer --worker-threads")
    given = int(text.rpartition("--worker-memory ")[2].partition("MiB")[0]) << 20
    plan.require([("there", given)])


@pytest.fixture
def streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the command for a streamed network."""
    path = random_network(tmp_path / "net.bin", 2000, 40_000)

    def plan(*given: Any) -> Any:
        return replace(make_plan(*given), held=False, levels=False)

    monkeypatch.setattr("mapper.jobs.check.make_plan", plan)
    chip = ["--chip", "40x40", "--neurons-per-core", "32", "--memory", "1GiB"]
    return ["check", str(path), *chip]


def test_check_reports_the_needs_of_workers(streamed: list[str], run: Run) -> None:
    words = ("--workers", "3", "--worker-threads", "2", "--worker-memory", "2GiB")
    found = run(*streamed, *words, "--json")
    assert found.code == 0, found.err
    told = json.loads(found.out)["workers"]
    assert (told["count"], told["threads"], told["given"]) == (3, 2, 2 << 30)
    assert 200 << 20 < told["memory"] < 1 << 30
    assert {"read", "coarsen", "split blocks"} <= {stage["name"] for stage in told["stages"]}
    shown = run(*streamed, *words, "--details")
    assert "3 workers of 2 threads" in " ".join(shown.out.split())


def test_check_refuses_workers_that_are_too_small(streamed: list[str], run: Run) -> None:
    found = run(*streamed, "--workers", "2", "--worker-memory", "256MiB")
    assert found.code == 3
    line = found.err.splitlines()[-1]
    assert line.startswith("does not fit: each worker needs ")


def test_check_notes_unused_workers(run: Run, tmp_path: Path) -> None:
    random_network(tmp_path / "net.bin", 40, 100)
    found = run("check", str(tmp_path / "net.bin"), "--chip", "3x3", "--workers", "2", "--json")
    assert found.code == 0
    assert "note: --workers is not used: the network is held in memory" in found.err
    assert json.loads(found.out)["workers"] is None


def test_sizes_without_workers(run: Run, tmp_path: Path) -> None:
    random_network(tmp_path / "net.bin", 40, 100)
    found = run("check", str(tmp_path / "net.bin"), "--chip", "3x3", "--worker-memory", "2GiB")
    assert found.code == 2
    assert "need workers; add --workers N" in found.err


@pytest.mark.parametrize("labels", [2, 255, 300, 1000, 60_000, 69_032, 90_000, 300_000, 10**9])
def test_packed_labels_have_the_planned_size(labels: int) -> None:
    found = len(pack(np.random.default_rng(1).integers(0, labels, 100_000).astype(np.int32)))
    assert packed_bytes(labels) == pytest.approx(found / 100_000, rel=0.01)


def test_ranges_limit_the_memory_of_a_workers_sums() -> None:
    assert ranges_for(1000, 5, 2) == 5
    assert ranges_for(1000, 500, 2) == 8
    assert ranges_for(1 << 40, 1 << 20, 16) == 1 << 11
