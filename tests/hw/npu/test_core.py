"""The NPU core in Amaranth against simulators and reference: values, and every cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.npu.records import KINDS
from hw.errors import HwError
from hw.npu.shape import Widths
from tests.hw.npu.core_bench import CoreBench
from tests.hw.npu.programs import SHAPES
from tests.hw.npu.three_ways import (
    case_of,
    difference,
    observe,
    programs_from,
    values_that_differ,
)

CHUNKS = {
    "tiny": (10, 60), "4x4": (2, 60), "4x4-dual": (2, 60), "8x8": (3, 20), "8x8-dual": (3, 20),
    "16x16": (2, 10), "16x16-dual": (2, 10),
}  # fmt: skip
"""For each shape: number of chunks in a normal run, and of random programs per chunk."""
MANY = 20
"""Factor on the chunks with the marker `many_hw`."""
APART = 10_000
"""Seeds between two chunks."""
BUSY = 12
"""Programs with busy routers, for each shape."""


def chunks(first: int, times: int) -> list[Any]:
    """Return pairs of a shape's name and a chunk's number."""
    return [
        (name, number)
        for name, (count, _) in CHUNKS.items()
        for number in range(first * count, times * count)
    ]


def require_equal_three_ways(name: str, chunk: int) -> None:
    shape = SHAPES[name]
    bench = CoreBench(shape)
    for wanted in programs_from(shape, APART * chunk, CHUNKS[name][1]):
        assert difference(bench, wanted) is None


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(("name", "chunk"), chunks(0, 1))
def test_three_ways(name: str, chunk: int) -> None:
    """N13.1: reference, simulator and hardware have equal memories and counters.

    Simulator and hardware also have equal starts and ends of all instructions.
    """
    require_equal_three_ways(name, chunk)


@pytest.mark.jit
@pytest.mark.many_hw
@pytest.mark.parametrize(("name", "chunk"), chunks(1, MANY))
def test_three_ways_many_times(name: str, chunk: int) -> None:
    require_equal_three_ways(name, chunk)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_programs_have_all_instructions() -> None:
    """A thousand programs per run, and all kinds of instructions for each shape.

    Kinds that need other cores are excluded.
    """
    assert sum(count * each for count, each in CHUNKS.values()) >= 1000
    for name, shape in SHAPES.items():
        count, each = CHUNKS[name]
        found = {
            step[:2]
            for chunk in range(count)
            for seed in range(each)
            for step in case_of(shape, APART * chunk + seed + 1).steps
        }
        left_out = {("STORE", "REMOTE"), ("CTRL", "NOP"), ("CTRL", "END")}
        if shape.multiplier == "int8":
            left_out |= {("GEMM", kind) for kind in ("DUAL_PIXEL", "DUAL_KERNEL", "INT16")}
        if not shape.binary:
            left_out |= {("GEMM", "BINARY"), ("RQ", "THRESHOLD")}
        assert {(op.name, kind) for op in KINDS for kind in KINDS[op]} - found == left_out, name


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("name", ["tiny", "8x8"])
def test_busy_routers(name: str) -> None:
    """N9.1: outgoing flits wait for the router half of the time, and words of the host come slowly.

    Values are the same, and the host receives the same sequence.
    """
    shape = SHAPES[name]
    bench = CoreBench(shape)
    later = 0
    for wanted in programs_from(shape, 0, BUSY):
        found = observe(bench, wanted, 0.5)
        assert not values_that_differ(found, wanted), wanted.seed
        assert found.cycles >= max(wanted.end)
        later += found.cycles > max(wanted.end)
    assert later


@pytest.mark.parametrize(("change", "text"), [
    ({"columns": 8, "load_bits": 256}, "npu npu: columns is 8; give 16, equal to rows"),
    ({"rows": 12, "columns": 12, "load_bits": 96}, "rows is 12; give one of 4, 8, 16, 32, 64"),
    ({"map_vectors": 0}, "map_vectors is 0; give a multiple of 8; external feature memory"),
    ({"map_vectors": 100}, "map_vectors is 100; give a multiple of 8"),
    ({"instructions": 0}, "instructions is 0; give the size of the memory"),
    ({"loop_overhead": 2}, "loop_overhead is 2; give 0"),
    ({"load_bits": 384}, "loads read 3 vectors per cycle; give load_bits for 1, 2, 4"),
])  # fmt: skip
def test_unsupported_cores_are_named(change: dict[str, int], text: str) -> None:
    with pytest.raises(HwError, match=text):
        Widths(replace(NPU_SHAPES["npu"], **change))
