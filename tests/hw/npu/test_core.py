"""The NPU core in Amaranth beside the simulators and the plain twin: values, and every cycle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.core_run import run_core
from chipsim.npu.execute import NpuChip
from hw.errors import HwError
from hw.npu.shape import Widths
from tests.chipsim.npu.programs import Case, host_words, random_case
from tests.hw.npu.core_bench import CoreBench, Link
from tests.hw.npu.programs import SHAPES, one_by_one, side_by_side, simulated, with_products
from tests.twins.npu import FaultError

PROGRAMS = int(os.environ.get("NPU_PROGRAMS", "24"))
"""Random programs of each shape."""
RATES = (1, 2, 5, 50)
"""Cycles of a flit from the host."""
HERE = (0, 0)


def cases(shape: NpuShape, count: int) -> Iterator[tuple[int, Case, Any]]:
    """Legal programs, and what the twin has after them."""
    seed = 0
    while count:
        seed += 1
        case = random_case(shape, seed, 12, False)
        case = with_products(case, seed)
        twin = case.twin()
        twin.odd = bool(seed % 2)
        try:
            twin.run(case.steps)
        except FaultError:
            continue
        count -= 1
        yield seed, case, twin


@pytest.mark.jit
@pytest.mark.parametrize("name", list(SHAPES))
def test_three_ways(name: str) -> None:
    """N13.1: all memories of the twin, the simulator and the hardware are equal after random
    programs, and the starts and ends of all instructions of simulator and hardware."""
    shape = SHAPES[name]
    bench = CoreBench(shape)
    kinds = set()
    for seed, case, twin in cases(shape, PROGRAMS):
        odd = bool(seed % 2)
        instructions = one_by_one(case) if seed % 3 == 0 else side_by_side(case, odd)
        program = simulated(case, instructions)
        weights = host_words(shape)
        link = Link(1 + seed % 40, Fraction(1, RATES[seed % len(RATES)]), weights=weights)
        frame = NpuChip(shape, {HERE: program}, host_weights=weights).frame()
        frame.run(odd)
        found = bench.run(instructions, case.table, odd, link)
        wanted = frame.memory(HERE)
        plain = {"FM": twin.maps, "INP": twin.inputs, "ACC": twin.sums, "OUT": twin.results}
        for memory, cells in plain.items():
            assert np.array_equal(wanted[memory], np.array(list(cells))), (seed, memory)
            assert np.array_equal(found.memories[memory], wanted[memory]), (seed, memory)
        sent = [(at, list(vector)) for at, vector in twin.host]
        assert found.host == sent, seed
        host = HostLink(link.latency, float(link.flits))
        times = run_core(shape, program, host)
        assert found.start == times.start.tolist(), (seed, instructions)
        assert found.end == times.end.tolist(), (seed, instructions)
        kinds |= {step[:2] for step in case.steps}
    everything = 30 if shape.multiplier == "dual" else 27
    assert len(kinds) == everything or PROGRAMS < 24, sorted(kinds)


@pytest.mark.jit
@pytest.mark.parametrize("name", ["tiny", "8x8"])
def test_routers_that_are_busy(name: str) -> None:
    """N9.1: what leaves waits for the router as often as not, and words of the host come slowly;
    values are the same, and what the host gets comes in the same order."""
    shape = SHAPES[name]
    bench = CoreBench(shape)
    later = 0
    for seed, case, twin in cases(shape, PROGRAMS // 2):
        odd = bool(seed % 2)
        instructions = side_by_side(case, odd)
        link = Link(1 + seed % 9, Fraction(1, RATES[seed % len(RATES)]), 0.5, host_words(shape))
        found = bench.run(instructions, case.table, odd, link)
        free = bench.run(instructions, case.table, odd, link._replace(waits=0.0))
        plain = {"FM": twin.maps, "INP": twin.inputs, "ACC": twin.sums, "OUT": twin.results}
        for memory, cells in plain.items():
            assert np.array_equal(found.memories[memory], np.array(list(cells))), (seed, memory)
        assert found.host == [(at, list(vector)) for at, vector in twin.host]
        assert found.cycles >= free.cycles
        later += found.cycles > free.cycles
    assert later


@pytest.mark.parametrize(("change", "text"), [
    ({"columns": 8, "load_bits": 256}, "npu npu: columns is 8; give 16, as many as rows"),
    ({"rows": 12, "columns": 12, "load_bits": 96}, "rows is 12; give one of 4, 8, 16, 32, 64"),
    ({"map_vectors": 0}, "map_vectors is 0; give a multiple of 8; maps in external memory"),
    ({"map_vectors": 100}, "map_vectors is 100; give a multiple of 8"),
    ({"instructions": 0}, "instructions is 0; give how many the core holds"),
    ({"loop_overhead": 2}, "loop_overhead is 2; give 0"),
    ({"load_bits": 384}, "loads move 3 vectors a cycle; give a load_bits for 1, 2, 4"),
])  # fmt: skip
def test_cores_that_are_not_built_are_named(change: dict[str, int], text: str) -> None:
    with pytest.raises(HwError, match=text):
        Widths(replace(NPU_SHAPES["npu"], **change))
