"""Progress continues while a stage reports nothing: bar and log are updated."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mapper.monitoring import monitor
from mapper.monitoring.monitor import Monitor, estimated_share

SECONDS = 10.0  # timeout for a line


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "TICK", 0.01)
    monkeypatch.setattr(monitor, "LINE", 0.02)


def wait_for(text: str, log: Path) -> str:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for line in log.read_text().splitlines():
            if text in line:
                return line
        time.sleep(0.01)
    raise AssertionError(f"{text} is not in {log.read_text()}")


def test_a_silent_stage_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with Monitor(log=log) as some:
        with some.stage("partition"):
            some.stop.begin("refinement of 1,200 vertices")
            line = wait_for("partition: refinement of 1,200 vertices", log)
            assert "about" not in line, "a share needs an estimate"
        some.estimates = {"placement": 1000.0}
        with some.stage("placement"):
            assert "about 0% after 0 s" in wait_for("  placement, ", log), (
                "phase of the previous stage"
            )
        with some.stage("score"):
            some.expect(200)
            some.advance(100)
            assert "about 50% after 0 s" in wait_for("  score", log)
    size = log.stat().st_size
    time.sleep(0.1)
    assert log.stat().st_size == size, "the log grew after the end"


def test_nothing_is_written_between_stages(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with Monitor(log=log) as some:
        with some.stage("read"):
            pass
        time.sleep(0.1)
        assert len(log.read_text().splitlines()) == 1


def test_the_bar_names_the_phase() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with Monitor(console) as some, some.stage("partition"):
        some.stop.begin("round 3 of 10")
        end = time.monotonic() + SECONDS
        while "partition: round 3 of 10" not in screen.getvalue():
            assert time.monotonic() < end
            time.sleep(0.01)


@given(st.lists(st.floats(0, 1e6), min_size=2), st.floats(0, 1e4))
def test_shares_grow_and_never_reach_the_end(seconds: list[float], estimate: float) -> None:
    shares = [estimated_share(one, estimate) for one in sorted(seconds)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert estimated_share(estimate, estimate) <= 0.9 + 1e-9
