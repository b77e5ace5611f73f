"""Layers in the report, compared with their program; R12.2."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.npu.cycles import UNITS, Timed, run_queues
from hw.npu.isa.table import Instruction
from mapper.compiler.artifacts.layers import ProgramRun, layer_row, parts_of, timeline_rows
from mapper.compiler.program.steps import unit_of
from mapper.compiler.tiling.units import CAUSES, waits_of
from tests.compiler.networks import residual
from tests.compiler.programs import SMALL, Made, compiled

pytestmark = pytest.mark.jit
NPU = NPU_SHAPES["npu"]


@pytest.fixture(scope="module")
def made() -> Made:
    return compiled(residual(channels=20), SMALL)


def test_waits_by_hand() -> None:
    load, gemm = ("LOAD", "INP"), ("GEMM", "INT8")
    program = [
        Instruction(*load, signal=1 << 1, fields={}),
        Instruction(*gemm, wait=1 << 0, fields={}),
        Instruction(*load, signal=1 << 1, fields={}),
        Instruction(*gemm, wait=1 << 0, fields={}),
    ]
    timeline = run_queues(
        [Timed(unit_of(one), one.wait, one.signal, 10 - 4 * at) for at, one in
         zip((0, 1, 0, 1), program, strict=True)], NPU
    )  # fmt: skip
    assert timeline.start.tolist() == [1, 11, 11, 21]
    found = waits_of(program, timeline)
    assert CAUSES[0] == "LOAD"
    assert found[:, 0].tolist() == [0, 11, 0, 4]
    assert found[:, -1].tolist() == [1, 0, 0, 0]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_layers_add_up(made: Made) -> None:
    compiled = made.compiled
    run = ProgramRun.of(compiled.code.steps, compiled.code.program, compiled.code.timeline, SMALL)
    rows = [
        layer_row(macro, part, compiled.code.regions[macro.output], run)
        for macro, part in zip(
            compiled.macros, parts_of(compiled.code.steps, len(compiled.macros)), strict=True
        )
    ]
    assert sum(row["cycles"] for row in rows) == compiled.code.timeline.cycles
    for unit, name in enumerate(UNITS):
        assert sum(row["instructions"][name] for row in rows) == sum(
            step.unit == name for step in compiled.code.steps
        )
        busy = sum(row["busy"][name] * row["cycles"] for row in rows)
        assert busy == pytest.approx(int(compiled.code.timeline.busy[unit]), abs=2)
        waits = sum(sum(row["waits"][name].values()) for row in rows)
        assert waits <= compiled.code.timeline.cycles - int(compiled.code.timeline.busy[unit])
    for row, macro in zip(rows, compiled.macros, strict=True):
        tile, (_, height, width, channels) = row["tile"], macro.output.shape
        assert row["bytes_stored"] == height * width * -(-channels // 16) * 16
        assert tile["rows"] <= height
        assert tile["columns"] <= width
        assert tile["count"] >= -(-height // tile["rows"]) * -(-width // tile["columns"])
        assert all(0 <= share <= 1 for share in row["busy"].values())
    several = max(rows, key=lambda row: row["tile"]["count"])["tile"]
    assert set(several["order"]) & {"rows", "columns"}


def test_the_timeline_closes_invisible_gaps(made: Made) -> None:
    timeline = made.compiled.code.timeline
    found = timeline_rows(made.compiled.code.program, timeline)
    assert list(found) == list(UNITS)
    for unit, name in enumerate(UNITS):
        bars = np.array(found[name])
        assert (bars[:, 0] < bars[:, 1]).all()
        assert (bars[1:, 0] > bars[:-1, 1]).all()
        shown = int((bars[:, 1] - bars[:, 0]).sum())
        assert int(timeline.busy[unit]) <= shown
        assert len(bars) <= 401
