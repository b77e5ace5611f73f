"""`mapper run --seeds`: results equal single runs, however the runs are executed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mapper.portfolio import runner
from mapper.portfolio.executor import LocalExecutor, Outcome
from mapper.portfolio.portfolio_file import PortfolioFile
from mapper.portfolio.portfolio_file import Run as PortfolioRun
from mapper.portfolio.run import RunTask
from storage.errors import StorageWarning
from tests.docs.test_schemas import errors
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import PROGRAM, random_network

pytestmark = pytest.mark.jit

FAST = ("--chip", "4x4", "--neurons-per-core", "8", "--preset", "fast", "--memory", "300MiB")


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 100, 500)


def result(folder: Path) -> tuple[bytes, bytes, Any]:
    """Return the results that must not depend on how a run was executed."""
    report = json.loads((folder / "report.json").read_text())
    files = (folder / "mapping.npz").read_bytes(), (folder / "traffic.npz").read_bytes()
    return *files, report["metrics"]


def runs_in(folder: Path) -> list[Any]:
    found: list[Any] = json.loads((folder / "portfolio.json").read_text())["runs"]
    return found


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_every_run_equals_the_single_run(run: Run, network: Path) -> None:
    found = run("run", network, *FAST, "--seeds", "1..3", "-o", "many", "--json")
    assert found.code == 0
    portfolio_file = found.json()
    assert errors("portfolio", json.loads(Path("many/portfolio.json").read_text())) == []
    assert portfolio_file.pop("output") == "many"
    assert portfolio_file == json.loads(Path("many/portfolio.json").read_text())
    for seed in (1, 2, 3):
        assert run("run", network, *FAST, "--seed", str(seed), "-o", f"one-{seed}").code == 0
        assert result(Path(f"many/seed-{seed}")) == result(Path(f"one-{seed}"))
        assert tree(Path(f"many/seed-{seed}")).keys() == tree(Path(f"one-{seed}")).keys()
    hops = [result(Path(f"one-{seed}"))[2]["hops_total"] for seed in (1, 2, 3)]
    assert [one["figures"]["hops"] for one in portfolio_file["runs"]] == hops
    best = 1 + hops.index(min(hops))
    assert [one["given"]["seed"] for one in portfolio_file["runs"] if one["best"]] == [best]
    assert Path("many/best").readlink() == Path(f"seed-{best}")
    assert run("verify", "many/best").code == 0
    assert sorted(path.name for path in Path("many").iterdir()) == [
        "best", "portfolio.json", "seed-1", "seed-2", "seed-3",
    ]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_kill_before_the_first_table_blocks_no_run(
    run: Run, network: Path, more: tuple[str, ...]
) -> None:
    Path("many").mkdir()
    for name in ("portfolio.json.partial", "portfolio.json.lock"):
        (Path("many") / name).write_text("{")
    found = run("run", network, *FAST, "--seeds", "1", "-o", "many", "-q", *more)
    assert (found.code, found.err) == (0, "")
    assert sorted(path.name for path in Path("many").iterdir()) == [
        "best", "portfolio.json", "seed-1",
    ]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_workers_give_the_same(run: Run, network: Path, compiled_elsewhere: None) -> None:
    assert run("run", network, *FAST, "--seeds", "1..3", "-o", "one", "-q").code == 0
    found = run("run", network, *FAST, "--seeds", "3,1,2", "-o", "two", "--workers", "2", "-q")
    assert (found.code, found.err) == (0, "")
    for seed in (1, 2, 3):
        assert result(Path(f"one/seed-{seed}")) == result(Path(f"two/seed-{seed}"))
    assert [one["folder"] for one in runs_in(Path("two"))] == ["seed-3", "seed-1", "seed-2"]
    assert Path("one/best").readlink() == Path("two/best").readlink()


@pytest.fixture
def compiled_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of runs compile only the kernels that they use."""
    from mapper.portfolio import processes

    genuine = subprocess.Popen

    def start(words: list[str], **named: Any) -> Any:
        nothing = PROGRAM.partition("from mapper.cli")[0]
        return genuine([*words[:-1], f"{nothing}\n{words[-1]}"], **named)

    monkeypatch.setattr(processes.subprocess, "Popen", start)


@pytest.mark.heavy
def test_an_import_is_shared(run: Run, folder: Path) -> None:
    lines = [f"{i} {(i * 7 + 3) % 60}\n{i} {(i * 11 + 5) % 60}\n" for i in range(60)]
    (folder / "net.txt").write_text("".join(lines))
    found = run("run", "net.txt", *FAST, "--seeds", "1,2", "-o", "many")
    assert found.code == 0
    assert run("run", "net.txt", *FAST, "--seed", "2", "-o", "one").code == 0
    assert result(Path("many/seed-2")) == result(Path("one"))
    assert Path("many/seed-2/network.bin").read_bytes() == Path("one/network.bin").read_bytes()
    first, second = (Path(f"many/seed-{seed}/network.bin") for seed in (1, 2))
    assert first.samefile(second)
    network = json.loads(Path("many/seed-2/report.json").read_text())["network"]
    assert network["imported_from"] == str(folder / "net.txt")
    assert network["path"] == str(folder / "many" / "seed-2" / "network.bin")
    assert not Path("many/imported").exists()
    assert run("verify", "many/seed-2").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_losing_runs_are_dropped(run: Run, network: Path) -> None:
    assert run("run", network, *FAST, "--seeds", "1..4", "-o", "all").code == 0
    line = ("run", network, *FAST, "--seeds", "1..4", "-o", "kept", "--keep", "best", "--json")
    found = run(*line)
    assert found.code == 0
    every = {one["folder"]: one["figures"]["hops"] for one in runs_in(Path("all"))}
    kept = runs_in(Path("kept"))
    assert {one["folder"]: one["figures"]["hops"] for one in kept} == every
    best = min(every, key=lambda name: every[name])
    assert [one["folder"] for one in kept if one["kept"]] == [best]
    assert sorted(path.name for path in Path("kept").iterdir()) == ["best", "portfolio.json", best]
    assert result(Path("kept/best")) == result(Path("all/best"))
    before = tree(Path("kept")).keys()
    assert run(*line, "--resume").json()["runs"] == kept  # nothing is repeated
    assert tree(Path("kept")).keys() == before


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_one_run_fails_and_the_others_continue(
    run: Run, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mapper.portfolio import run as module
    from storage.errors import WriteError

    genuine = module.write_results

    def full(folder: Path, report: Any, *rest: Any) -> None:
        if report["settings"]["seed"] == 2:
            raise WriteError("many/seed-2: No space left on device")
        genuine(folder, report, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_results", full)
        found = run("run", network, *FAST, "--seeds", "1..3", "-o", "many", "-q", "--json")
    assert found.code == 1
    assert found.err == "seed-2: failed: many/seed-2: No space left on device\n"
    assert [one["state"] for one in found.json()["runs"]] == ["done", "failed", "done"]
    assert found.json()["runs"][1]["error"] == "many/seed-2: No space left on device"
    assert not Path("many/seed-2").exists()
    again = run("run", network, *FAST, "--seeds", "1..3", "-o", "many", "-q", "--resume", "--json")
    assert again.code == 0
    assert [one["state"] for one in again.json()["runs"]] == ["done"] * 3
    assert "error" not in again.json()["runs"][1]


def test_all_runs_fail_for_the_same_reason(run: Run, network: Path) -> None:
    tight = ("--chip", "2x2", "--neurons-per-core", "8", "--memory", "300MiB")
    found = run("run", network, *tight, "--seeds", "1,2", "-o", "many", "-q", "--json")
    assert found.code == 3
    assert found.err.count("\n") == 2
    assert [one["exit_code"] for one in found.json()["runs"]] == [3, 3]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_interrupted_and_resumed(run: Run, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("run", network, *FAST, "-q", "--json")
    assert run(*line, "--seeds", "1..4", "-o", "whole").code == 0
    done: list[str] = []
    genuine = LocalExecutor.outcomes

    def outcomes(self: LocalExecutor, tasks: list[RunTask]) -> Any:
        for outcome in genuine(self, tasks):
            done.append(outcome.name)
            if len(done) == 2:
                raise KeyboardInterrupt
            yield outcome

    monkeypatch.setattr(LocalExecutor, "outcomes", outcomes)
    found = run(*line, "--seeds", "1..3", "-o", "out")
    assert (found.code, found.out) == (130, "")
    assert "--resume" in found.err
    # the second run is complete, but not yet in the table
    assert [one["state"] for one in runs_in(Path("out"))] == ["done", "waiting", "waiting"]
    assert Path("out/best").readlink() == Path("seed-1")
    assert run(*line, "--seeds", "1..4", "-o", "out", "--resume").code == 0
    assert done == ["seed-1", "seed-2", "seed-3", "seed-4"]
    for seed in range(1, 5):
        assert result(Path(f"out/seed-{seed}")) == result(Path(f"whole/seed-{seed}"))
    assert [one["best"] for one in runs_in(Path("out"))] == [
        one["best"] for one in runs_in(Path("whole"))
    ]


def test_other_seeds_are_added_on_resume(run: Run, network: Path) -> None:
    line = ("run", network, *FAST, "-q", "--json")
    assert run(*line, "--seeds", "1", "-o", "out").code == 0
    found = run(*line, "--seeds", "5", "-o", "out", "--resume")
    assert [one["folder"] for one in found.json()["runs"]] == ["seed-1", "seed-5"]
    wrong = run(*line, "--preset", "default", "--seeds", "1", "-o", "out", "--resume")
    assert wrong.code == 1
    assert 'was started with preset "fast", now it is "default"' in wrong.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_rejected_arguments(fails: Callable[..., str], run: Run, network: Path) -> None:
    line = ("run", network, *FAST)
    assert fails(*line, "--seeds", "3..1", code=2).endswith("3..1 is empty; give 1..3")
    assert fails(*line, "--seeds", "1,2", "--seed", "4", code=2).endswith(
        "exclude each other; give one"
    )
    assert "add --seeds" in fails(*line, "--keep", "best", code=2)
    assert fails("run", "no.bin", *FAST, "--seeds", "1,2") == (
        "no.bin: cannot read: No such file or directory"
    )
    (network.parent / "bad.txt").write_text("what is this\n")
    assert "bad.txt" in fails("run", "bad.txt", *FAST, "--seeds", "1,2")
    assert run(*line, "--seed", "1", "-o", "one").code == 0
    said = fails(*line, "--seeds", "1,2", "-o", "one", "--force")
    assert said == ("one: contains files other than a portfolio; choose another folder with -o")
    assert run(*line, "--seeds", "1,2", "-o", "two").code == 0
    assert "two: exists; --resume continues it" in fails(*line, "--seeds", "1,2", "-o", "two")
    assert "two: is not the output of a run" in fails(*line, "-o", "two", "--force")
    Path("two/portfolio.json").write_text('{"schema": 1}')
    said = fails(*line, "--seeds", "1,2", "-o", "two", "--resume")
    assert said == "two/portfolio.json: lacks tool; start again with --force"
    bad = run(*line, "--seeds", "1,2", "--workers", "0")
    assert bad.code == 2
    assert "'0' is not a valid choice of workers; give a number of processes" in bad.err
    line = (*line, "--seeds", "1,2", "--workers", "tcp://127.0.0.1:1")
    assert fails(*line, code=2).endswith(
        "--workers: with --seeds, give a number of processes, not a scheduler"
    )


@pytest.mark.heavy
def test_force_starts_again(run: Run, network: Path) -> None:
    line = ("run", network, *FAST, "-o", "out", "-q")
    assert run(*line, "--seeds", "1,2").code == 0
    Path("out/sweep.csv").write_text("table of an earlier sweep")
    Path("out/mine.txt").write_text("kept")
    assert run(*line, "--seeds", "7", "--force").code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "best", "mine.txt", "portfolio.json", "seed-7",
    ]  # fmt: skip


@pytest.mark.heavy
def test_the_best_does_not_depend_on_the_order(
    run: Run, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of equal runs the first in the table wins, in any order of execution."""
    genuine = LocalExecutor.outcomes

    def backwards(self: LocalExecutor, tasks: list[RunTask]) -> Any:
        for outcome in genuine(self, tasks[::-1]):
            assert outcome.figures is not None
            outcome.figures.cost = 1.0
            yield outcome

    monkeypatch.setattr(LocalExecutor, "outcomes", backwards)
    line = ("run", network, *FAST, "--seeds", "1..3", "-o", "out", "--keep", "best", "--json")
    assert [one["best"] for one in run(*line).json()["runs"]] == [True, False, False]
    assert Path("out/best").readlink() == Path("seed-1")


def test_a_link_that_cannot_be_replaced_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would name a run that is not the best."""
    names = ("seed-1", "seed-2")
    runs = [PortfolioRun(name, {}, "", "hops", best=name == "seed-2") for name in names]
    portfolio = PortfolioFile.begin(tmp_path, {}, runs)
    (tmp_path / "best").symlink_to("seed-1")

    def refuse(*_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "rename", refuse)
        with pytest.warns(StorageWarning, match=r"cannot link to the best run, seed-2: No space"):
            runner._link_best(portfolio)
    assert [path.name for path in tmp_path.iterdir()] == ["portfolio.json"]
    runner._link_best(portfolio)
    assert (tmp_path / "best").readlink() == Path("seed-2")


def programs(network: Path, *more: str) -> list[str]:
    line = ("run", str(network), *FAST, "-o", "out", "-q", "--json", *more)
    return [sys.executable, "-c", PROGRAM, *line]


def children_of(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children()]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_killed_process_is_replaced(
    run: Run, network: Path, monkeypatch: pytest.MonkeyPatch, compiled_elsewhere: None
) -> None:
    from mapper.portfolio import processes

    kills = 2
    genuine = processes.ProcessExecutor._ask

    def ask(self: Any, process: Any, task: RunTask) -> Outcome:
        nonlocal kills
        if task.output.name == "seed-2" and kills:
            kills -= 1
            process.kill()
        return genuine(self, process, task)

    monkeypatch.setattr(processes.ProcessExecutor, "_ask", ask)
    line = ("run", network, *FAST, "--json", "--workers", "2")
    found = run(*line, "--seeds", "1..3", "-o", "out")
    assert found.code == 0
    told = "note: seed-2: its process was killed (SIGKILL); the run is repeated"
    assert found.err.count(told) == 1
    assert kills == 0
    kills = 3
    found = run(*line, "--seeds", "2,3", "-o", "other", "-q")
    assert found.code == 1
    assert found.err == (
        "seed-2: failed: its process was killed (SIGKILL), 3 times; "
        "use fewer --workers or less --memory\n"
    )
    assert [one["state"] for one in found.json()["runs"]] == ["failed", "done"]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_ends_its_processes(network: Path, sign: int, run: Run) -> None:
    line = programs(network, "--seeds", "1..40", "--workers", "2")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not Path("out/best").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = children_of(process.pid)
    assert len(children) == 2
    os.kill(process.pid, sign)
    out, err = process.communicate(timeout=300)
    assert out == ""
    if sign == signal.SIGKILL:
        assert process.returncode == -sign
    else:
        assert process.returncode == 130
        assert err == "mapper run: interrupted; repeat the command with --resume to continue\n"
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{child}/cmdline").exists() for child in children):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    done = [one["folder"] for one in runs_in(Path("out")) if one["state"] == "done"]
    assert 0 < len(done) < 40
    more = ("run", network, *FAST, "-o", "out", "-q", "--json", "--resume", "--seeds", "1..6")
    found = run(*more)
    assert found.code in (0, 1)
    first = {one["folder"]: one["state"] for one in found.json()["runs"]}
    assert all(first[f"seed-{seed}"] == "done" for seed in range(1, 7))
    assert run("run", network, *FAST, "--seed", "3", "-o", "one").code == 0
    assert result(Path("out/seed-3")) == result(Path("one"))


def test_memory_is_planned_once(run: Run, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mapper.monitoring import resources

    monkeypatch.setattr(resources, "available_bytes", lambda: 4 << 30)
    line = ("run", network, *FAST[:-2], "-o", "out", "-q", "--json", "--seeds", "1")
    first = run(*line).json()["request"]["memory_bytes"]
    assert first == 3 << 30
    monkeypatch.setattr(resources, "available_bytes", lambda: 8 << 30)
    assert run(*line, "--resume").json()["request"]["memory_bytes"] == first
    assert runner.planned_memory(Path("nowhere")) is None
