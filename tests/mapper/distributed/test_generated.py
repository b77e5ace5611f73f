"""`generate` writes the same bytes with workers as without, even if workers are lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mapper.distributed.engine import SETTINGS, result_of
from mapper.distributed.start import start_workers
from mapper.errors import MapperError
from mapper.executors.worker_interface import Asked
from storage.generate import (
    Cortex,
    GroupCnn,
    GroupDnn,
    Helpers,
    Layered,
    Microcircuit,
    NetworkSpec,
    generate,
)
from storage.generate.spread import FOLDER
from tests.mapper.conftest import Run
from tests.mapper.distributed.test_failures import cluster
from tests.mapper.helpers import PROGRAM

pytestmark = pytest.mark.jit

KINDS: list[NetworkSpec] = [  # of several chunks each
    Cortex(side=96, fanout=60),
    Layered(layers="32x32x6,16x16x12,1x1x90"),
    Microcircuit(scale=0.02),
    GroupDnn(size=80),
    GroupCnn(size=300),
]
MEMORY = 1 << 24
WORDS = ("generate", "cortex", "net.bin", "--side", "96", "--fanout", "60", "--seed", "4")


@pytest.fixture(autouse=True)
def _engine() -> None:
    pytest.importorskip("distributed")


@pytest.fixture(scope="module", params=[(1, 1), (1, 2), (2, 1), (3, 1)], ids=str)
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Start workers with the given numbers of processes and threads."""
    pytest.importorskip("distributed")
    count, threads = request.param
    with start_workers(Asked(count, threads), tmp_path_factory.mktemp("workers")) as found:
        yield found


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("spec", KINDS, ids=lambda spec: spec.kind)
def test_the_same_bytes(spec: NetworkSpec, shuffle: bool, workers: Any, tmp_path: Path) -> None:
    alone = generate(spec, tmp_path / "a", 4, shuffle)
    helpers = Helpers(workers.ranges, MEMORY)
    assert generate(spec, tmp_path / "b", 4, shuffle, helpers=helpers) == alone
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.heavy
def test_memory_of_a_task(workers: Any) -> None:
    """Half of the memory of all tasks; all workers are on one host."""
    threads = sum(one["nthreads"] for one in workers.workers().values())
    assert workers.task_memory(1 << 30) == (1 << 29) // threads
    (_, limit), *_ = workers.limits()
    assert limit > 0
    assert workers.task_memory(1 << 60) == limit // 2 // workers.threads()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("step", ["draw_runs", "encode_blocks"])
def test_a_killed_worker_changes_nothing(step: str, tmp_path: Path) -> None:
    """Its drawn or encoded data is lost, and its current task."""
    generate(KINDS[0], tmp_path / "a")
    with start_workers(Asked(2), tmp_path / "w") as found:

        def ranges(work: Any, count: int, *arguments: Any) -> Iterator[Any]:
            for index, result in enumerate(found.ranges(work, count, *arguments)):
                if work.__name__ == step and index == 0:
                    process = min(found.client.run(os.getpid).values())
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                yield result

        killed: list[int] = []
        generate(KINDS[0], tmp_path / "b", helpers=Helpers(ranges, MEMORY))
        assert len(killed) == 1
        assert killed[0] not in found.client.run(os.getpid).values()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def end_process(some: range) -> int:
    """A task that kills its worker, except for the first range."""
    if some.start:
        os.kill(os.getpid(), signal.SIGKILL)
    return some.stop


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_range_that_kills_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "distributed.scheduler.allowed-failures", 1)
    with start_workers(Asked(2, patience=60.0), tmp_path) as found:
        results = found.ranges(end_process, 2)
        assert next(results) == 1
        with pytest.raises(MapperError, match="1 workers were lost on the same blocks, the last"):
            next(results)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("lost", ["worker", "scheduler"])
def test_lost_workers_are_reported(lost: str, tmp_path: Path) -> None:
    with (
        cluster(tmp_path, 1) as (file, (scheduler, worker)),
        start_workers(Asked(str(file), patience=1.0), tmp_path) as found,
    ):

        def ranges(*given: Any) -> Iterator[Any]:
            for result in found.ranges(*given):
                yield result
                (worker if lost == "worker" else scheduler).kill()

        with pytest.raises(MapperError) as caught:
            generate(KINDS[0], tmp_path / "a", helpers=Helpers(ranges, MEMORY))
    told = {
        "worker": "--workers: all workers were lost; add workers and start again",
        "scheduler": "was lost; start another and start again",
    }
    assert str(caught.value).endswith(told[lost])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("a")]


@pytest.fixture
def folder_only(folder: Path) -> Callable[[], list[str]]:
    return lambda: sorted(path.name for path in folder.iterdir())


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_command(run: Run, folder_only: Callable[[], list[str]]) -> None:
    alone = run(*WORDS, "--json")
    expected = Path("net.bin").read_bytes()
    for count, threads in (("2", "1"), ("1", "2")):
        Path("net.bin").unlink()
        worked = run(*WORDS, "--json", "--workers", count, "--threads", threads)
        assert (worked.code, worked.err) == (alone.code, alone.err)
        facts, others = worked.json(), alone.json()
        assert facts.pop("peak_rss_bytes") > 0 and others.pop("peak_rss_bytes") > 0
        assert facts == others
        assert Path("net.bin").read_bytes() == expected
    assert folder_only() == ["net.bin"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_wait_that_dask_cancels_is_a_timeout(tmp_path: Path) -> None:
    """Under load the timeout of a wait may cancel the wait before the timeout is noticed."""

    class Cancelled:
        status = "pending"
        tries = 0

        def result(self, timeout: float) -> str:
            assert timeout == 1.0
            self.tries += 1
            if self.tries < 3:
                raise UnboundLocalError("result")
            return "done"

        def done(self) -> bool:
            return False

    with start_workers(Asked(1, patience=60.0), tmp_path) as found:
        engine: Any = found
        assert engine._result(Cancelled()) == "done"
        assert result_of(Cancelled(), "nowhere", engine) == "done"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_several_files(run: Run, folder_only: Callable[[], list[str]]) -> None:
    """The result equals the single file cut into several."""
    assert run(*WORDS).code == 0
    assert run("import", "net.bin", "cut", "--files", "3").code == 0
    worked = run("generate", "cortex", "made", *WORDS[3:], "--workers", "2", "--files", "3")
    assert worked.code == 0, worked.err
    found = [{path.name: path.read_bytes() for path in Path(name).iterdir()}
             for name in ("cut", "made")]  # fmt: skip
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert folder_only() == ["cut", "made", "net.bin"]


@pytest.mark.heavy
def test_bad_command_lines(fails: Callable[..., str]) -> None:
    assert fails(*WORDS, "--workers", "2", "--draws", "1", code=2) == (
        "--draws 1 uses one stream of random numbers, for one process; omit --workers"
    )
    assert "--workers srun is for `mapper run`" in fails(*WORDS, "--workers", "srun", code=2)
    assert "side is 1" in fails("generate", "cortex", "net.bin", "--side", "1", code=2)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(
    ("side", "largest", "where"),
    [("96", 100_000, f"/net.bin{FOLDER}"), ("192", 6_000_000, "net.bin: ")],
    ids=["of a worker", "of the network"],
)
def test_a_full_disk(side: str, largest: int, where: str, fails: Callable[..., str]) -> None:
    """Simulated by a limit on file sizes, for run files and for assembled files."""
    words = ("generate", "cortex", "net.bin", "--side", side, "--fanout", "60")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        told = fails(*words, "--workers", "2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert where in told
    assert "cannot write: File too large; nothing was kept, choose another place" in told


def stopped(folder: Path, number: signal.Signals, group: bool = False) -> tuple[int, str]:
    """Send a signal to a command while it draws; return exit code and stderr.

    group : send it to all its processes, as from a terminal
    """
    words = ("generate", "cortex", "net.bin", "--side", "700", "--fanout", "60", "--workers", "2")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as driver:  # fmt: skip
        while not list(folder.glob(f"net.bin{FOLDER}*/runs-*")):
            assert driver.poll() is None
            time.sleep(0.02)
        if group:
            os.killpg(driver.pid, number)
        else:
            driver.send_signal(number)
        _, told = driver.communicate(timeout=300)
    return driver.returncode, told


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("group", [False, True], ids=["driver", "terminal"])
def test_an_interrupted_command_leaves_nothing(folder: Path, group: bool) -> None:
    expected = 130, "mapper generate: interrupted; nothing was kept\n"
    assert stopped(folder, signal.SIGINT, group) == expected
    assert list(folder.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_killed_driver_leaves_no_network(folder: Path, run: Run) -> None:
    code, _ = stopped(folder, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not Path("net.bin").exists()
    (left,) = folder.glob(f"net.bin{FOLDER}*")
    time.sleep(1)  # its workers end with it
    before = sorted(left.iterdir())
    time.sleep(1)
    assert sorted(left.iterdir()) == before
    assert run(*WORDS).code == 0
    expected = Path("net.bin").read_bytes()
    assert run(*WORDS, "--workers", "2").code == 0
    assert Path("net.bin").read_bytes() == expected
    assert [path.name for path in folder.iterdir()] == ["net.bin"]
