"""The window unit in Amaranth: columns of the im2col matrix, and the cycles of the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.npu.windows import cycles_of_windows, windows_of
from hw.npu.isa.table import Instruction
from tests.chipsim.npu.test_windows import Case, cases, program_for
from tests.hw.npu.core_bench import CoreBench
from tests.hw.npu.programs import END

EACH = 4
"""Random shapes for each number of filters."""


def fits(case: Case) -> bool:
    return case.lanes == 4 and case.vectors * case.filters * case.f["packets"] < 500


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("filters", [1, 3, 8])
def test_c10_c12_random_windows_in_hardware(filters: int) -> None:
    """C10, C12: kernels to 5x5, strides to 3, uneven pads, channels that do not fill a group."""
    shape = replace(
        NPU_SHAPES["tiny"], filters=filters, headers=256, input_vectors=512, map_vectors=1024,
        weight_words=2, entries=2, parameter_words=2, micro_ops=2,
    )  # fmt: skip
    bench = CoreBench(shape)
    mine = [one for one in cases(600, 11) if fits(one) and one.filters == filters][:EACH]
    assert len(mine) == EACH
    for case in mine:
        program = program_for(case)
        table = {
            "micro_ops": program.micro_ops, "headers": program.headers,
            "weights": np.zeros((0, 4, 4), np.int8), "parameters": program.parameters,
            "maps": program.maps,
        }  # fmt: skip
        found = bench.run(
            [Instruction("LOAD", "WIN", 0, 1 << 3, case.f), END._replace(wait=1)], table
        )
        wanted = case.im2col().reshape(-1, case.lanes)
        assert np.array_equal(found.memories["INP"][case.f["dst"] :][: len(wanted)], wanted), case
        took = cycles_of_windows(windows_of(case.f, filters, case.lanes), tuple(case.headers))
        assert found.end[0] - found.start[0] == shape.latency.load + took, case
