"""Ctrl-C at any moment stops a run at once: the best mapping so far, or a resumable run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.concurrency import interrupts
from mapper.concurrency.interrupts import Stop
from mapper.concurrency.stop_flag import SLICE, StoppedError, slices
from mapper.concurrency.threads import ThreadTeam
from mapper.hypergraph import steps as job
from mapper.hypergraph.tree_refinement import TreeEffort
from tests.mapper.conftest import Run
from tests.mapper.helpers import PROGRAM, random_network
from tests.tiers import Some

HUNG = 120.0  # seconds after which a command counts as hanging
METHODS = [
    f"{preset} --objective {objective}"
    for preset in ("fast", "default", "strong", "classic")
    for objective in ("unicast", "cut", "multicast")
    if (preset, objective) != ("classic", "multicast")
]
SETTINGS = (
    "block-vertices=64", "coarse-degree=20", "proposals=2", "cycle-proposals=1", "tree-proposals=2",
    "starts=2", "recuts=2", "cycles=1", "bisection-repeats=1", "tree-cycles=1",
)  # fmt: skip
SMALL = (
    "--memory", "256MiB", "--threads", "1", *chain(*(("--set", setting) for setting in SETTINGS)),
)  # fmt: skip
WAYS = [
    *METHODS,
    "default --set level-budget=0",
    "strong --set level-budget=0 --axons-per-core 70",
    "default --objective multicast --axons-per-core 70",
    "classic --axons-per-core 70",
    "default --constraints constraints.toml",
    "fast --synapses-per-core 90 --split-neurons",
]
RESULTS = {"mapping.npz", "report.html", "report.json", "run.log", "traffic.npz"}


class Pressed(Stop):
    """Requests a stop at a given read of its flag by the work.

    The main thread, which waits for the work, reads it as often as time permits.
    """

    at = 1 << 60
    looks = 0

    @property
    def asked(self) -> bool:
        waits = threading.get_ident() == threading.main_thread().ident
        if not waits and not super().asked:
            Pressed.looks += 1
            if Pressed.looks >= Pressed.at:
                self.ask()
        return super().asked


@pytest.fixture
def pressed(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Pressed]]:
    """Use such a flag in all runs of the test."""
    monkeypatch.setattr(interrupts, "Stop", Pressed)
    monkeypatch.setattr(interrupts, "GRACE", 600.0)  # no timing
    yield Pressed
    Pressed.at, Pressed.looks = 1 << 60, 0


@pytest.fixture
def heard() -> Iterator[None]:
    """Enable SIGINT, which is ignored in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("way", WAYS)
def test_the_nth_read_of_the_flag(
    way: str, folder: Path, run: Run, pressed: type[Pressed], monkeypatch: pytest.MonkeyPatch,
    some: Some,
) -> None:  # fmt: skip
    """At any point: once a mapping exists it is kept, and it respects all limits."""
    monkeypatch.setattr(job, "TreeEffort", partial(TreeEffort, least=2000))
    network = random_network(folder / "net.bin", 150, 1200)
    Path("constraints.toml").write_text("[[pin]]\nneurons = [7, 8]\ncore = 5\n")
    command = ("run", network, "--chip", "5x5", "--neurons-per-core", "10", *SMALL, "--preset")
    command = (*command, *way.split(), "-q")  # no notes about unused settings
    assert run(*command, "-o", "whole").code == 0
    whole, looks = Path("whole/mapping.npz").read_bytes(), pressed.looks
    ends = []
    moments = np.unique(np.linspace(1, looks, 7).astype(int))
    for moment in some(moments, 2):
        out, left = Path(f"out-{moment}"), Path(f"out-{moment}.partial")
        pressed.at, pressed.looks = int(moment), 0
        found = run(*command, "-o", out)
        pressed.at = 1 << 60
        assert found.code == 130
        assert out.exists() != left.exists()
        ends.append(out.exists())
        if out.exists():
            assert {path.name for path in out.iterdir()} - {"constraints.toml"} == RESULTS
            assert run("verify", out).code == 0
            report = json.loads((out / "report.json").read_text())
            if found.err.startswith("interrupted during"):
                assert repr(report["interrupted"]) in found.err
                assert report["interrupted"] in {stage["name"] for stage in report["stages"]}
            else:
                assert found.err.startswith("interrupted while writing results")
        else:
            assert found.err.endswith("; repeat the command with --resume to continue\n")
            assert run(*command, "-o", out, "--resume").code == 0
            assert (out / "mapping.npz").read_bytes() == whole
    assert ends == sorted(ends)
    if len(ends) == len(moments):
        assert (ends[0], ends[-1]) == (False, True)


@pytest.mark.jit
def test_a_mapping_above_a_limit_is_not_written(
    folder: Path, run: Run, pressed: type[Pressed], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = random_network(folder / "net.bin", 60, 300)
    command = ("run", network, "--chip", "4x4", "--neurons-per-core", "8", "--threads", "1")

    def keep(self: Stop, make: Any) -> None:
        self.kept = lambda team: np.zeros(60, np.int32)  # all on one core
        self.ask()

    with monkeypatch.context() as patch:
        patch.setattr(Stop, "keep", keep)
        found = run(*command, "-o", "out")
    assert (found.code, found.out) == (130, "")
    assert found.err == (
        "mapper run: interrupted: no mapping within all limits had been found; repeat the command "
        "with --resume to continue\n"
    )
    assert not Path("out").exists()
    assert run(*command, "-o", "out", "--resume").code == 0


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize("preset", ["fast", "default", "classic"])
def test_a_placement_at_any_read(
    preset: str, folder: Path, run: Run, pressed: type[Pressed]
) -> None:
    network = random_network(folder / "net.bin", 60, 300)
    command = ("place", network, "--chip", "8x8", "--preset", preset, "--threads", "1", "-o")
    assert run(*command, "whole.csv").code == 0
    looks = pressed.looks
    ends = []
    for moment in np.unique(np.linspace(1, looks, 7).astype(int)):
        out = Path(f"{moment}.csv")
        pressed.at, pressed.looks = int(moment), 0
        found = run(*command, out)
        assert found.code == 130
        ends.append(out.exists())
        if out.exists():
            assert found.err == "interrupted: this is the best placement found so far\n"
            assert len(set(out.read_text().split())) == 61  # including the header
        else:
            assert found.err == "mapper place: interrupted; nothing was kept\n"
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (False, True)


@pytest.mark.jit  # a whole run for each moment
@pytest.mark.parametrize(("stage", "kept"), [("import", False), ("read", False), ("score", True)])
def test_a_progress_callback_that_presses_ctrl_c(stage: str, kept: bool, folder: Path) -> None:
    def press(name: str, fraction: float) -> None:
        if name == stage:
            raise KeyboardInterrupt

    edges = np.random.default_rng(0).integers(0, 40, (2, 200))
    options: dict[str, Any] = {"preset": "fast", "neurons_per_core": 8, "threads": 1}
    whole = mapper.map_network(tuple(edges), "3x3", **options)
    assert "interrupted" not in whole.to_json()
    if not kept:
        with pytest.raises(KeyboardInterrupt):
            mapper.map_network(tuple(edges), "3x3", progress=press, **options)
        return
    mapping = mapper.map_network(tuple(edges), "3x3", progress=press, **options)
    assert mapping.interrupted
    assert mapping.to_json()["interrupted"] == stage
    assert mapping.core.tolist() == whole.core.tolist()


@pytest.mark.usefixtures("heard")
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_running_kernel_is_abandoned() -> None:
    stop, end = Stop(grace=0.05), threading.Event()

    def work() -> int:
        stop.keep(lambda team: np.arange(3, dtype=np.int32))
        os.kill(os.getpid(), signal.SIGINT)
        end.wait()
        return 1

    with pytest.raises(StoppedError):
        stop.run(work)
    assert stop.asked
    assert stop.at_work()
    assert stop.kept is not None
    assert stop.kept(ThreadTeam(1)).tolist() == [0, 1, 2]
    closed = []
    with stop.holding() as held:
        held.callback(closed.append, 1)
    assert closed == []  # a kernel may be using it
    end.set()
    assert not stop.at_work(HUNG)
    with stop.holding() as held:
        held.callback(closed.append, 2)
    assert closed == [2]


LEFT = """
import atexit, os, sys, threading
from mapper.concurrency.interrupts import leave
class Slow:
    def __del__(self):
        os.write(1, b"freed ")
slow, end = Slow(), threading.Event()
atexit.register(print, "registered", end=" ")
print("printed", end=" ")
if "thread" in sys.argv:
    threading.Thread(target=end.wait).start()
if "profiler" in sys.argv:
    sys.setprofile(lambda *_: None)
code = leave(7)
sys.setprofile(None)
end.set()
print("returned", end=" ")
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("alone", "printed registered "),
        ("thread", "printed returned registered freed "),
        ("profiler", "printed returned registered freed "),
    ],
)
def test_a_command_ends_without_freeing_its_memory(case: str, said: str) -> None:
    """Unless another thread or a profiler has to finish first."""
    process = subprocess.run(
        [sys.executable, "-c", LEFT, case], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (7, said, "")


@pytest.mark.heavy
@pytest.mark.usefixtures("heard")
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_patient_work_finishes_unless_it_is_stopped_twice() -> None:
    stop = Stop(grace=0.05)

    def press() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        return "done"

    assert stop.run(press, patient=True) == "done"
    assert stop.asked
    with pytest.raises(StoppedError):
        stop.run(press, patient=True)
    assert not stop.at_work(HUNG)


@pytest.mark.usefixtures("heard")
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_without_a_grace_period_work_is_awaited() -> None:
    stop = Stop()
    seen = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        seen.append(1)
        stop.check()

    with pytest.raises(StoppedError):
        stop.run(work)
    assert seen == [1]


def test_errors_and_results_are_passed_on() -> None:
    assert Stop().run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        Stop().run(lambda: 1 // 0)


def test_teams_check_before_each_item() -> None:
    stop = Stop()
    with ThreadTeam(1, stop) as team:
        seen = []
        for item in team.stream(lambda item: item, range(9)):
            seen.append(item)
            if item == 4:
                stop.ask()
                with pytest.raises(StoppedError):
                    team.map(lambda item: item, range(9))
                break
        assert seen == list(range(5))


@pytest.mark.parametrize("count", [0, 1, SLICE - 1, SLICE, 3 * SLICE + 5])
def test_slices_add_up(count: int) -> None:
    stop = Stop()
    found = list(slices(count, stop))
    assert sum(found) == count
    assert all(0 < some <= SLICE for some in found)
    assert list(slices(count, None)) == found
    stop.ask()
    if count:
        with pytest.raises(StoppedError):
            list(slices(count, stop))


ENDLESS = """
import signal, sys, time
from importlib import import_module
def hang(*_, **__):
    print("hanging", file=sys.stderr, flush=True)
    while True:
        time.sleep(1000)  # no signal ends it: it is not in the main thread
module, name = sys.argv.pop(1).rsplit(".", 1)
setattr(import_module(module), name, hang)
"""


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("kernel", "stage"),
    [
        ("mapper.hop_refinement.multilevel.contract_sampled", None),
        ("mapper.placement.portfolio._tries", "placement"),
        (
            "mapper.hop_refinement.multilevel.place_by_dual_recursive_bipartitioning",
            "hop refinement",
        ),
    ],
)
def test_a_kernel_that_never_ends(
    kernel: str, stage: str | None, sent: str, folder: Path, run: Run
) -> None:
    network = random_network(folder / "net.bin", 3000, 9000)
    command = [sys.executable, "-c", ENDLESS + PROGRAM, kernel, "run", str(network), "-o", "out"]
    process = subprocess.Popen(
        [*command, "--chip", "6x6", "--neurons-per-core", "90"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process.stderr:
        while "hanging" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(getattr(signal, sent))
        start = time.monotonic()
        said = process.stderr.read()
        assert process.wait() == 130
    assert time.monotonic() - start < HUNG
    if stage is None:
        assert said.endswith("interrupted; repeat the command with --resume to continue\n")
        assert Path("out.partial/run.json").is_file()
        assert not Path("out").exists()
        again = ["--chip", "6x6", "--neurons-per-core", "90", "-o", "out", "--resume"]
        assert run("run", network, *again).code == 0
        return
    assert f"during the stage {stage!r}" in said
    assert not Path("out.partial").exists()
    assert {path.name for path in Path("out").iterdir()} == RESULTS
    assert json.loads(Path("out/report.json").read_text())["interrupted"] == stage
    assert run("verify", "out").code == 0
