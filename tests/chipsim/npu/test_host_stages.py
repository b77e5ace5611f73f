"""Stages of the host between the cores of a pipeline: times by hand, order of work, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh
from chipsim.npu.mesh.chip import HostInputs, HostPort, HostStages, MeshChip
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import run_mesh
from chipsim.npu.mesh.steps import MAP, TO_HOST
from chipsim.npu.records import FIELDS, Op, Program
from tests.chipsim.npu.mesh_programs import ALU, LOAD, STORE, TINY, random_chip
from tests.chipsim.npu.programs import program_of

pytestmark = pytest.mark.jit
VECTORS = 4


def copier(dst: int) -> Program:
    """Return a program that copies its input to the host, and sends a credit."""
    area = {"x_size": VECTORS, "y_size": 1, "c_size": 1, "x_stride": 1}
    move = {"uops": 1, "n_out": 1, "n_in": VECTORS, "dst_in": 1, "src_in": 1, "source": 1, "out": 1}
    steps: list[Any] = [
        ("CTRL", "WAIT", {"queue": LOAD, "stream": 0, "count": VECTORS}),
        ("LOAD", "ACC8", {"pp": 2, **area}),
        ("CTRL", "SEND", {"queue": LOAD, "stream": 0, "count": 1, "host": 1}),
        ("ALU", "MOV", move),
        ("STORE", "HOST", {"dst": dst, **area}),
        ("CTRL", "END", {"queue": STORE, "drain": 1}),
    ]
    made = program_of(steps, [[0] * 6])
    wait, signal = np.zeros(len(steps), np.uint8), np.zeros(len(steps), np.uint8)
    signal[1], wait[3], signal[3], wait[4] = 1 << ALU, 1 << LOAD, 1 << STORE, 1 << ALU
    return made._replace(wait=wait, signal=signal)


def chain(cycles: tuple[int, ...]) -> MeshChip:
    """Return a core for each stage of the host; each copies the vectors of its stage."""
    stages = len(cycles)
    cores = np.array([(x, 0) for x in range(stages) for _ in range(VECTORS)])
    zeros = np.zeros(len(cores), np.int64)
    inputs = HostInputs(
        cores, zeros, np.tile(np.arange(VECTORS), stages), zeros + 16, zeros + 2, cores[:, 0].copy()
    )
    return MeshChip(
        TINY, Mesh(stages, 1), {(x, 0): copier(VECTORS * x) for x in range(stages)},
        hosts=[HostPort((0, 0), inputs)],
        stages=HostStages(cycles, np.repeat(np.arange(stages), VECTORS)),
    )  # fmt: skip


@pytest.mark.parametrize("cycles", [0, 1, 50])
def test_inputs_follow_the_work_of_the_host(cycles: int) -> None:
    """The first flit is offered in the first cycle after the work, and arrives two hops later."""
    found = run_mesh(chain((0, cycles)), flits=True)
    d = found.deliveries
    assert d is not None
    results = d.cycle[(d.kind == TO_HOST) & (d.value < VECTORS)]
    inputs = d.cycle[(d.kind == MAP) & (d.target == 1)]
    assert inputs.tolist() == [int(results.max()) + 1 + cycles + 2 + at for at in range(VECTORS)]


def test_the_slowest_stage_bounds_the_period() -> None:
    chip = chain((0, 100))
    found = chip_report(chip, run_mesh(chip, 12))
    assert found.bound == (100, "host")
    assert found.period == 100
    quick = chain((0, 2))
    assert chip_report(quick, run_mesh(quick, 12)).bound.where == "core (0, 0)"


def test_stages_share_the_processor() -> None:
    """They take turns, so later frames do not delay earlier ones though they wait already."""
    chip = chain((0, 70, 40))
    found = chip_report(chip, run_mesh(chip, 40))
    assert found.bound == (110, "host")
    assert found.period == 110


def test_random_chips_have_stages() -> None:
    counts = [len(random_chip(seed).stages.cycles) for seed in range(200)]
    assert min(counts.count(stages) for stages in (1, 2, 3)) > 15


def test_a_deadlock_names_the_stage() -> None:
    """A core that waits for a vector too many never stores its result."""
    chip = chain((0, 10))
    program = chip.programs[0, 0]
    fields = program.fields.copy()
    fields[0, FIELDS[Op.CTRL, 1].index("count")] = VECTORS + 1
    chip = chip._replace(programs={**chip.programs, (0, 0): program._replace(fields=fields)})
    with pytest.raises(ChipError, match="host: stage 1 of frame 0 waits for results, 0 of 4 flits"):
        run_mesh(chip)


def changed(chip: MeshChip, **inputs: Any) -> MeshChip:
    (host,) = chip.hosts
    return chip._replace(hosts=[host._replace(inputs=host.inputs._replace(**inputs))])


WRONG: list[tuple[MeshChip, str]] = [
    (chain((5, 1)), r"stages of \[5, 1\] cycles; give 0, then"),
    (chain((0, 1))._replace(stages=HostStages((0,))), "input of stage 1; the host has 1"),
    (chain((0, 1))._replace(stages=HostStages((0, 1), np.full(8, 2))), "results of stage 2"),
    (chain((0, 1))._replace(stages=HostStages((0, 1), np.ones(8, int))), "1 waits for no results"),
    (changed(chain((0, 1)), stage=np.arange(8) % 2), r"stream 0 of core \(0, 0\) is input of two"),
]


@pytest.mark.parametrize(("chip", "says"), WRONG)
def test_inconsistent_stages_are_rejected(chip: MeshChip, says: str) -> None:
    with pytest.raises(ChipError, match=says):
        run_mesh(chip)
