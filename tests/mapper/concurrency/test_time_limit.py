"""`--time-limit`: a valid mapping, whenever the limit passes."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.concurrency import interrupts
from mapper.concurrency.interrupts import Stop
from mapper.concurrency.stop_flag import StoppedError
from mapper.errors import UsageError
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIP = ("--chip", "5x5", "--neurons-per-core", "10", "--threads", "1", "--preset", "strong")

CONSTRAINTS = """
[[region]]
range = [120, 149]
rectangle = [0, 0, 1, 1]
exclusive = true

[[apart]]
ranges = [[10, 19], [50, 79]]
"""


class Late(Stop):
    """The limit passes at a given read of the flag, if a mapping is kept; else at the next ones."""

    at = 1 << 60
    looks = 0

    @property
    def asked(self) -> bool:
        if not super().asked and self._due < 1e300:
            Late.looks += 1
            if Late.looks >= Late.at and self.kept is not None:
                self.late = True
                self.ask()
        return super().asked


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> type[Late]:
    monkeypatch.setattr(interrupts, "Stop", Late)
    monkeypatch.setattr(interrupts, "GRACE", 600.0)
    Late.at, Late.looks = 1 << 60, 0
    return Late


@pytest.mark.heavy
@pytest.mark.sample(0.34)
@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--axons-per-core", "70"),
        ("--synapses-per-core", "90"),
        ("--constraints", "c.toml"),
        ("--constraints", "c.toml", "--objective", "core"),
    ],
)
def test_at_any_moment(more: tuple[str, ...], folder: Path, run: Run, late: type[Late]) -> None:
    network = random_network(folder / "net.bin", 150, 1200)
    Path("c.toml").write_text(CONSTRAINTS)
    command = ("run", network, *CHIP, *more, "--set", "starts=2", "--time-limit", "1e9", "-o")
    found = run(*command, "whole")
    assert (found.code, found.err) == (0, "")
    assert "interrupted" not in json.loads(Path("whole/report.json").read_text())
    hops = []
    for moment in np.unique(np.linspace(1, late.looks, 6).astype(int)):
        out = Path(f"out-{moment}")
        late.at, late.looks = int(moment), 0
        found = run(*command, out)
        assert found.code == 0
        report = json.loads((out / "report.json").read_text())
        if "interrupted" in report:
            assert found.err == (
                f"note: time limit of 1e+09 s, during the stage {report['interrupted']!r}: this is "
                "the best mapping found so far\n"
            )
        assert run("verify", out).code == 0
        hops.append(report["metrics"]["hops_total"])
    assert hops[-1] < hops[0]


def test_in_python() -> None:
    edges = np.random.default_rng(0).integers(0, 400, (2, 4000))
    options: dict[str, Any] = {"neurons_per_core": 20, "threads": 1, "preset": "fast"}
    whole = mapper.map_network(tuple(edges), "5x5", time_limit=1e6, **options)
    assert not whole.interrupted
    assert whole.core.tolist() == mapper.map_network(tuple(edges), "5x5", **options).core.tolist()
    short = mapper.map_network(tuple(edges), "5x5", time_limit=1e-9, **options)
    assert short.interrupted
    assert np.bincount(short.core).max() <= 20
    for wrong in (0, -1, float("nan"), float("inf"), "5", True):
        with pytest.raises(UsageError, match="seconds above 0"):
            mapper.map_network(tuple(edges), "5x5", time_limit=wrong, **options)  # type: ignore[arg-type]


def test_the_limit_waits_for_a_mapping() -> None:
    stop, seen = Stop(grace=0.05), []

    def work() -> None:
        time.sleep(0.3)
        seen.append(stop.asked)
        stop.keep(lambda team: np.zeros(3, np.int32))
        threading.Event().wait(0.5)
        stop.check()

    stop.limit(0.01)
    with pytest.raises(StoppedError):
        stop.run(work)
    assert seen == [False]
    assert stop.late
    assert not stop.at_work(60)


def test_without_a_limit_nothing_ends() -> None:
    stop = Stop()
    stop.keep(lambda team: np.zeros(3, np.int32))
    stop.limit(1e-9)
    stop.limit(None)
    assert stop.run(lambda: time.sleep(0.2)) is None
    assert not stop.asked


@pytest.mark.parametrize("value", ["0", "-3", "nan", "inf", "soon"])
def test_wrong_limits(value: str, run: Run, folder: Path) -> None:
    network = random_network(folder / "net.bin", 20, 60)
    found = run("run", network, "--chip", "3x3", "--time-limit", value)
    assert found.code == 2
    assert "--time-limit" in found.err


def test_seeds_have_no_limit(run: Run, folder: Path) -> None:
    network = random_network(folder / "net.bin", 20, 60)
    found = run("run", network, "--chip", "3x3", "--seeds", "1..2", "--time-limit", "5")
    assert (found.code, found.err) == (
        2, "mapper run: --time-limit is for a single run; omit it with --seeds\n"
    )  # fmt: skip
