"""The NPU core in Amaranth beside the simulators and the plain twin: values, and every cycle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.chip_run import run_chip
from chipsim.npu.execute import NpuChip
from hw.errors import HwError
from hw.npu.shape import Widths
from tests.chipsim.npu.programs import Case, random_case
from tests.hw.npu.core_bench import CoreBench
from tests.hw.npu.programs import SHAPES, one_by_one, side_by_side, simulated
from tests.twins.npu import FaultError

PROGRAMS = int(os.environ.get("NPU_PROGRAMS", "24"))
"""Random programs of each shape."""
HERE = (0, 0)
NOT_YET = (("LOAD", "WSTREAM"), ("STORE", "HOST"), ("STORE", "REMOTE"))


def cases(shape: NpuShape, count: int) -> Iterator[tuple[int, Case, Any]]:
    """Legal programs, and what the twin has after them."""
    seed = 0
    while count:
        seed += 1
        case = random_case(shape, seed, 12, False)
        case.steps = [step for step in case.steps if step[:2] not in NOT_YET]
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
        frame = NpuChip(shape, {HERE: program}).frame()
        frame.run(odd)
        found = bench.run(instructions, case.table, odd)
        wanted = frame.memory(HERE)
        plain = {"FM": twin.maps, "INP": twin.inputs, "ACC": twin.sums, "OUT": twin.results}
        for memory, cells in plain.items():
            assert np.array_equal(wanted[memory], np.array(list(cells))), (seed, memory)
            assert np.array_equal(found.memories[memory], wanted[memory]), (seed, memory)
        times = run_chip(shape, {HERE: program}).cores[HERE]
        assert found.start == times.start.tolist(), (seed, instructions)
        assert found.end == times.end.tolist(), (seed, instructions)
        kinds |= {step[:2] for step in case.steps}
    everything = 27 if shape.multiplier == "dual" else 24
    assert len(kinds) == everything or PROGRAMS < 24, sorted(kinds)


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
