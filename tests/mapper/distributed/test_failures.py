"""Killed or stopped processes: identical bytes, or one error line and a run that can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.distributed.engine import SETTINGS, environment
from mapper.distributed.start import start_workers
from mapper.errors import ResumableError
from mapper.executors.worker_interface import Asked
from mapper.monitoring.monitor import Monitor
from tests.mapper.distributed.conftest import LEVELS, Made, Mapped
from tests.mapper.distributed.test_scored import plain
from tests.mapper.helpers import PROGRAM

pytest.importorskip("cryptography")

from mapper.distributed.certificates import KEY, make_certificate, tls_settings

pytestmark = pytest.mark.jit

STAGES = ("coarsen", "split blocks", "uncoarsen and refine")
STREAMED = PROGRAM.replace(
    "from mapper.cli.main import main\n",
    """
import json
import os
from dataclasses import replace
import mapper.session
from mapper.cli.main import main
from mapper.monitoring.monitor import Monitor
plan = mapper.session.make_plan
shares = json.loads(os.environ.get("SHARES", "{}"))
mapper.session.make_plan = lambda *given: replace(
    plan(*given), **{"held": False, "levels": False, **shares}
)
stage, victim = os.environ.get("VICTIM", ":").split(":")
advance = Monitor.advance
note = Monitor.note
def kill():
    global stage
    stage = ""
    os.kill(int(victim or os.getpid()), signal.SIGKILL)
def advance_and_kill(monitor, done):
    advance(monitor, done)
    if stage and monitor.at_work.get("name") == stage:
        kill()
def note_and_kill(monitor, text):
    note(monitor, text)
    if stage and text.startswith(stage):
        kill()
Monitor.advance, Monitor.note = advance_and_kill, note_and_kill
""",
)
"""`PROGRAM`, which streams every network and kills a process in a stage, or after a note.

VICTIM=STAGE:PID; SHARES : memory shares that replace the planned ones
"""

RUN = (
    "run", "net.bin", "--chip", "6x6", "--neurons-per-core", "32", "--memory", "1GiB", "--threads",
    "1", "--set", "block-vertices=64", "--set", "bisection-repeats=2", "--set", "smoothing=4",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _engine() -> None:
    pytest.importorskip("distributed")


class Watcher(Monitor):
    """Acts once, when a stage has processed a share of its expected work."""

    def __init__(self, stage: str, act: Callable[[], object], share: float = 0.001) -> None:
        super().__init__(on_progress=self._heard)
        self._moment, self._least, self._act = stage, share, act
        self.done = False

    def _heard(self, stage: str, share: float) -> None:
        if stage == self._moment and share >= self._least:
            self._do()

    def _do(self) -> None:
        if not self.done:
            self.done = True
            self._act()


class Listener(Watcher):
    """Acts once, when a note has been written."""

    def note(self, text: str) -> None:
        super().note(text)
        if text.startswith(self._moment):
            self._do()


Harm = Callable[[Any], Callable[[], object]]
"""Returns an action that harms one of some workers."""


def signalled(number: signal.Signals) -> Harm:
    """Return the harm of a signal to the process of a worker."""

    def harm(workers: Any) -> Callable[[], object]:
        process = min(workers.client.run(os.getpid).values())
        return lambda: os.kill(process, number)

    return harm


KILLED = signalled(signal.SIGKILL)


def fill_memory() -> int:
    """Allocate more than a worker of 1 GiB may have."""
    return int(np.ones(1 << 28, np.int64).sum())


def filled(workers: Any) -> Callable[[], object]:
    """Return an action that exceeds the memory of a worker."""
    address = min(workers.addresses())

    def fill() -> None:
        with suppress(Exception):  # no answer
            workers.client.run(fill_memory, workers=[address])

    return fill


def require_same(
    made: Made, folder: Path, watcher: Callable[..., Watcher], harm: Harm = KILLED,
    memory: int | None = None, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """Compare mappings without workers, and with two of which one is harmed; return their facts.

    memory : of a worker; changes : see `made`
    """
    expected = made(**changes)
    with start_workers(Asked(2, memory=memory), folder) as workers:
        watching = watcher(act=harm(workers))
        found = made(workers, watching, **changes)
        assert watching.done
        assert (found.core.tolist(), found.metrics) == (expected.core.tolist(), expected.metrics)
        assert plain(found.traffic) == plain(expected.traffic)
        facts: dict[str, Any] = workers.facts()
        assert facts["replaced"] == 1
        assert not list(workers.shared.place.folder.glob("*.run"))
    assert not (folder / "workers").exists()
    return facts


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("stage", [*STAGES, "score"])
def test_a_killed_worker_changes_nothing(made: Made, stage: str, tmp_path: Path) -> None:
    assert require_same(made, tmp_path, partial(Watcher, stage))["count"] == 2


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(
    ("watcher", "levels"),
    [
        (partial(Watcher, "initial partition", share=0.5), 1),
        (partial(Watcher, "initial partition", share=0.51), 1),
        (partial(Listener, "level 1 on workers"), 2),
        (partial(Listener, "level 2 on workers"), 2),
    ],
    ids=["connections are sent", "rows are made", "level 1", "level 2"],
)
def test_a_worker_killed_at_a_level_changes_nothing(
    made: Made, watcher: Callable[..., Watcher], levels: int, tmp_path: Path
) -> None:
    """Before connections between clusters are sent, before rows are built, and afterwards."""
    require_same(made, tmp_path, watcher, block_vertices=200, shares=LEVELS[levels])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_stopped_worker_changes_nothing(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay open, but it does not answer."""
    monkeypatch.setitem(SETTINGS, "distributed.scheduler.worker-ttl", "2s")
    require_same(made, tmp_path, partial(Watcher, "coarsen"), signalled(signal.SIGSTOP))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_worker_that_exceeds_its_memory(made: Made, tmp_path: Path) -> None:
    require_same(made, tmp_path, partial(Watcher, "coarsen"), filled, memory=1 << 30)


def environment_of(folder: Path) -> dict[str, str]:
    """Return the environment of a worker, with the certificate in a folder if there is one."""
    more = tls_settings(folder) if (folder / KEY).exists() else {}
    return {**os.environ, **environment(more)}


@contextmanager
def cluster(
    folder: Path, workers: int, protected: bool = True
) -> Iterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and workers without nannies; yield the scheduler's file and the processes.

    The workers keep freed memory; otherwise a note asks for it.
    protected : with a certificate, in the folder of the file
    """
    file = folder / "cluster" / "scheduler.json"
    if protected:
        make_certificate(file.parent)
    else:
        file.parent.mkdir()
    common = ("--scheduler-file", str(file))
    lines = [("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *common)]
    lines += [
        ("dask_worker", *common, "--no-nanny", "--nthreads", "1", "--no-dashboard",
         "--local-directory", str(folder))
    ] * workers  # fmt: skip
    with ExitStack() as stack:
        started = []
        for module, *words in lines:
            while started and not file.exists():
                assert started[0].poll() is None
                time.sleep(0.05)
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", *words],
                env=environment_of(file.parent),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append(process)
        yield file, started


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_all_workers_lost(mapped: Mapped, tmp_path: Path) -> None:
    with (
        cluster(tmp_path, 1) as (file, (_, worker)),
        start_workers(Asked(str(file), patience=1.0), tmp_path) as workers,
    ):
        killer = Watcher("coarsen", worker.kill)
        with pytest.raises(ResumableError, match=r"^--workers: all workers were lost; start new"):
            mapped(workers, killer)
        assert killer.done


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_worker_that_joins_takes_over(mapped: Mapped, tmp_path: Path) -> None:
    """Without a nanny the worker is not restarted; another one has joined in the meantime."""
    expected = mapped()
    with (
        cluster(tmp_path, 1) as (file, (_, worker)),
        start_workers(Asked(str(file)), tmp_path) as workers,
    ):
        late = [
            sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file),
            "--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path),
        ]  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(late, env=environment_of(file.parent), **quiet) as other:
            killer = Watcher("split blocks", worker.kill)
            try:
                assert mapped(workers, killer).tolist() == expected.tolist()
            finally:
                other.kill()
        assert killer.done
        assert workers.lost


def run(folder: Path, *words: str, victim: str = ":") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STREAMED, *RUN, *words], cwd=folder, timeout=300,
        env={**os.environ, "VICTIM": victim}, capture_output=True, text=True,
    )  # fmt: skip


def mapping_in(folder: Path) -> bytes:
    return (folder / "mapping.npz").read_bytes()


def require_resumed(folder: Path, *words: str) -> None:
    """Resume the run of `out`, and compare its mapping with the one in `whole`."""
    resumed = run(folder, "-o", "out", "--resume", *words)
    assert resumed.returncode == 0, resumed.stderr
    assert mapping_in(folder / "out") == mapping_in(folder / "whole")


def kill_driver(folder: Path, *words: str, victim: str) -> None:
    """Run `whole` to its end, and `out` until its driver is killed."""
    assert run(folder, "-o", "whole").returncode == 0
    killed = run(folder, "-o", "out", "--workers", "2", *words, victim=victim)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (folder / "out.partial").is_dir()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(("stage", "again"), [*zip(STAGES, ("1", "3", None), strict=True)])
def test_a_killed_driver_is_resumed(
    stage: str, again: str | None, network: Path, tmp_path: Path
) -> None:
    """With another number of workers, and without workers."""
    kill_driver(tmp_path, victim=f"{stage}:")
    require_resumed(tmp_path, *(() if again is None else ("--workers", again)))
    names = [{path.name for path in (tmp_path / one).iterdir()} for one in ("out", "whole")]
    assert names[0] == names[1]
    assert not _processes_of(network.parent), "workers must end with their driver"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_shared_folder_is_left_unchanged(network: Path, tmp_path: Path) -> None:
    """Also by a killed driver, after its run is resumed."""
    shared = tmp_path / "shared"
    shared.mkdir()
    kill_driver(tmp_path, "--shared", "shared", victim="split blocks:")
    (left,) = shared.iterdir()
    assert list(left.glob("*.run"))
    require_resumed(tmp_path, "--workers", "2", "--shared", "shared")
    assert not list(shared.iterdir())


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_driver_killed_at_a_level_is_resumed(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files of the level in the shared folder, which are deleted."""
    monkeypatch.setenv("SHARES", json.dumps(LEVELS[1]))
    (tmp_path / "shared").mkdir()
    larger = tuple(word.replace("vertices=64", "vertices=200") for word in RUN)
    monkeypatch.setitem(globals(), "RUN", larger)
    kill_driver(tmp_path, "--shared", "shared", victim="level 1 on workers:")
    (left,) = (tmp_path / "shared").iterdir()
    assert list(left.glob("*.run"))
    require_resumed(tmp_path, "--workers", "1", "--shared", "shared")
    assert not left.exists()
    assert "level 1 on workers" in (tmp_path / "out" / "run.log").read_text()
    assert not _processes_of(network.parent)


def _processes_of(folder: Path) -> list[str]:
    """Return processes that run in a folder, after some time to end."""
    found: list[str] = []
    for _ in range(100):
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (process / "cwd").resolve() == folder.resolve():
                    found.append(process.name)
        if not found:
            break
        time.sleep(0.1)
    return found


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("stage", STAGES[:2])
def test_a_killed_scheduler_leaves_a_resumable_run(
    stage: str, network: Path, tmp_path: Path
) -> None:
    assert run(tmp_path, "-o", "whole").returncode == 0
    with cluster(tmp_path, 2) as (file, (scheduler, *_)):
        ended = run(
            tmp_path, "-o", "out", "--workers", str(file), victim=f"{stage}:{scheduler.pid}"
        )
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("mapper run: --workers: the scheduler at tls://127.0.0.1:")
    assert line.endswith("was lost; start another and continue with --resume")
    require_resumed(tmp_path)
