"""C15: the time of the stages of a compilation."""

from __future__ import annotations

import time

import pytest

from mapper.compiler.stages import ORDER, Clock, stage


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that advances only on request."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def work(ticks: list[float], seconds: float) -> None:
    ticks[0] += seconds


def test_a_stage_inside_another_one_has_its_own_time(ticks: list[float]) -> None:
    told: list[tuple[str, float]] = []
    clock = Clock(lambda name, seconds: told.append((name, seconds)))
    with clock.running():
        with stage("instructions"):
            work(ticks, 1)
            with stage("parameters"):
                work(ticks, 2)
            work(ticks, 4)
        work(ticks, 100)  # outside any stage
        with stage("read"):
            work(ticks, 8)
        with stage("instructions"):
            work(ticks, 16)
    assert clock.seconds == {"read": 8, "parameters": 2, "instructions": 21}
    assert list(clock.seconds) == ["read", "parameters", "instructions"]
    assert told == [("parameters", 2), ("instructions", 5), ("read", 8), ("instructions", 16)]


def test_trials_belong_to_their_stage(ticks: list[float]) -> None:
    clock = Clock()
    with clock.running():
        with stage("optimise", whole=True), stage("instructions"):
            work(ticks, 3)
        with stage("cycles"):
            work(ticks, 1)
    assert clock.seconds == {"optimise": 3, "cycles": 1}


def test_errors_end_a_stage(ticks: list[float]) -> None:
    clock = Clock()
    with clock.running():
        with pytest.raises(KeyError), stage("read"):
            raise KeyError
        work(ticks, 5)
        with pytest.raises(ValueError, match="unknown stage nothing"), stage("nothing"):
            work(ticks, 5)
    assert clock.seconds == {"read": 0}


def test_without_a_clock_nothing_is_measured() -> None:
    with stage("read"):
        pass
    with stage("nothing at all"):
        pass
    clock = Clock()
    with clock.running():
        pass
    with stage("read"):
        pass
    assert clock.seconds == {}


def test_the_order_follows_the_specification() -> None:
    """R10.4"""
    named = (
        "read, optimise, quantise, verify, partition, execution order, feature memory, weight "
        "memory, dense weights, parameters, packet headers, host memory, tiles and cores, "
        "instructions, memory images, check, dumps, usage report"
    )
    assert [name for name in ORDER if name not in ("cycles", "judge")] == named.split(", ")
