"""Partitions of graphs that memory does not hold: balance, resuming, and workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import mapper.partitions.run
from mapper.partitions.request import PartitionRequest
from mapper.planning.plan import Plan
from mapper.planning.strategy import make_plan
from mapper.settings import Settings
from storage.scratch.scratch import Scratch
from tests.mapper.conftest import Run
from tests.mapper.helpers import PROGRAM, random_network
from tests.reference import cut as reference

pytestmark = pytest.mark.jit

WORDS = ("--parts", "4", "--seed", "2", "--memory", "256MiB", "--threads", "1", "--preset", "fast")
VERTICES = 400


def streamed(*given: object) -> Plan:
    """Return a plan of a graph that is read from disk."""
    return replace(make_plan(*given), held=False, levels=False)  # type: ignore[arg-type]


@pytest.fixture
def from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All graphs are read from disk, and cut in blocks of 64 vertices."""

    def small_blocks(request: PartitionRequest, vertices: int) -> Settings:
        return replace(request.settings, block_vertices=64)

    monkeypatch.setattr("mapper.partitions.run.make_plan", streamed)
    monkeypatch.setattr("mapper.partitions.run.settings_for", small_blocks)


@pytest.fixture
def graph(folder: Path) -> Path:
    return random_network(folder / "net.bin", VERTICES, 2000, block_size=64)


@pytest.mark.usefixtures("from_disk")
@pytest.mark.parametrize("parts", [2, 16, 300])
def test_parts_of_a_streamed_graph_are_balanced(parts: int, graph: Path, run: Run) -> None:
    words = ("--parts", str(parts), *WORDS[2:])
    found = run("partition", graph, *words, "--json", "-o", "parts")
    assert found.code == 0
    part = [int(line) for line in Path("parts").read_text().splitlines()]
    weights = reference.part_weights([1] * VERTICES, part, parts)
    assert min(weights) > 0
    assert max(weights) <= reference.capacity([1] * VERTICES, parts, "0.03")
    names = [stage["name"] for stage in found.json()["stages"]]
    assert "refine blocks" in names
    assert ("split blocks" in names) == (parts > 2)  # other blocks are parts already
    assert sorted(path.name for path in Path().iterdir()) == ["net.bin", "parts"]


@pytest.mark.parametrize("plan", [make_plan, streamed])
def test_an_interrupted_run_is_resumed_with_the_same_bytes(
    plan: Callable[..., Plan], graph: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mapper.partitions.run.make_plan", plan)
    assert run("partition", graph, *WORDS, "-q", "-o", "whole").code == 0

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mapper.partitions.run.score_partition", interrupted)
        found = run("partition", graph, *WORDS, "-o", "parts")
    assert (found.code, found.out) == (130, "")
    assert found.err.endswith("interrupted; repeat the command with --resume to continue\n")
    assert not Path("parts").exists()
    assert Path("parts.work", "run.json").is_file()
    done: list[str] = []
    kept = Scratch.get_json

    def read(self: Scratch, name: str) -> object:
        done.append(name)
        return kept(self, name)

    monkeypatch.setattr(Scratch, "get_json", read)
    resumed = run("partition", graph, *WORDS, "-o", "parts", "--resume")
    assert (resumed.code, resumed.err) == (0, "")
    assert done  # steps of the earlier run were used
    assert Path("parts").read_bytes() == Path("whole").read_bytes()
    assert not Path("parts.work").exists()


def test_a_killed_run_is_resumed_with_the_same_bytes(graph: Path, run: Run) -> None:
    assert run("partition", graph, *WORDS, "-q", "-o", "whole").code == 0
    command = [sys.executable, "-c", PROGRAM, "partition", str(graph), *WORDS, "-o", "parts"]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while not Path("parts.work", "run.json").exists() and time.monotonic() < end:
        assert child.poll() is None
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert not Path("parts").exists()
    assert run("partition", graph, *WORDS, "-q", "-o", "parts", "--resume").code == 0
    assert Path("parts").read_bytes() == Path("whole").read_bytes()
    assert not Path("parts.work").exists()


def test_other_settings_cannot_resume(
    graph: Path, fails: Callable[..., str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(mapper.partitions.run, "score_partition", _interrupt)
        assert run("partition", graph, *WORDS, "-o", "parts").code == 130
    words = ("--parts", "5", *WORDS[2:])
    said = fails("partition", graph, *words, "-o", "parts", "--resume")
    assert "parts.work: was started with parts 4, now it is 5" in said
    assert run("partition", graph, *words, "-q", "-o", "parts").code == 0  # starts again


def _interrupt(*given: object) -> None:
    raise KeyboardInterrupt


def test_a_complete_partition_is_checked_and_kept(
    graph: Path, fails: Callable[..., str], run: Run
) -> None:
    assert run("partition", graph, *WORDS, "-q", "-o", "parts").code == 0
    first = Path("parts").read_bytes()
    again = run("partition", graph, *WORDS, "-o", "parts", "--resume", "--json")
    assert (again.code, again.err) == (0, "parts: already complete\n")
    assert again.json()["parts"] == 4
    assert Path("parts").read_bytes() == first
    Path("parts").write_text("0\n" * VERTICES)
    said = fails("partition", graph, *WORDS, "-o", "parts", "--resume")
    assert "a part weighs 400, more than 103" in said
    Path("parts").write_text("0\n1\n7\n")
    said = fails("partition", graph, *WORDS, "-o", "parts", "--resume")
    assert "is not a partition of 400 vertices into 4 parts" in said
    assert "exists; choose another file" in fails("partition", graph, *WORDS, "-o", "parts")
    assert run("partition", graph, *WORDS, "-q", "-o", "parts", "--force").code == 0
    assert Path("parts").read_bytes() == first


def test_a_run_killed_before_it_removed_its_folder(
    graph: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mapper.partitions.work_folder.remove_folder", lambda folder: None)
        assert run("partition", graph, *WORDS, "-q", "-o", "parts").code == 0
    first = Path("parts").read_bytes()
    assert Path("parts.work").is_dir()
    Path("parts.work.lock").touch()  # of the killed process
    assert run("partition", graph, *WORDS, "-q", "-o", "parts", "--resume").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["net.bin", "parts"]
    assert Path("parts").read_bytes() == first


def test_temporary_files_may_be_elsewhere(graph: Path, run: Run, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapper.partitions.run, "score_partition", _interrupt)
        run("partition", graph, *WORDS, "-o", "parts", "--workdir", place)
    assert [path.name for path in place.iterdir()] == ["parts.work"]
    assert run("partition", graph, *WORDS, "-q", "-o", "parts", "--workdir", place,
               "--resume").code == 0  # fmt: skip
    assert list(place.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.usefixtures("from_disk")
def test_workers_do_not_change_the_partition(graph: Path, run: Run) -> None:
    pytest.importorskip("distributed")
    assert run("partition", graph, *WORDS, "-q", "-o", "alone").code == 0
    found = run("partition", graph, *WORDS, "-q", "-o", "parts", "--workers", "2")
    assert found.code == 0, found.err
    assert Path("parts").read_bytes() == Path("alone").read_bytes()
