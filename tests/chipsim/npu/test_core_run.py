"""A core on its own: by hand, against the queue model, and with equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.core_run import CoreTimes, parts_of, run_core
from chipsim.npu.cycles import CAUSES, Timed, run_queues
from chipsim.npu.execute import Frame, NpuChip
from chipsim.npu.records import FIELDS, Op, Program
from tests.chipsim.npu.programs import program_of

TINY = NPU_SHAPES["tiny"]
LOAD, GEMM, ALU, STORE = range(4)
COPY = {"x_size": 4, "y_size": 1, "c_size": 1, "x_stride": 1}
MOVE = {"uops": 1, "n_out": 1, "n_in": 4, "dst_in": 1, "src_in": 1, "source": 1, "out": 1}


def tokens(program: Program, *masks: tuple[int, int]) -> Program:
    """Return the program with masks of waits and signals."""
    wait, signal = np.array(masks, np.uint8).reshape(-1, 2).T
    return program._replace(wait=np.ascontiguousarray(wait), signal=np.ascontiguousarray(signal))


def copier(source: int, target: int) -> Program:
    """Return a program that copies four vectors."""
    steps: list[Any] = [
        ("LOAD", "ACC8", {"src": source, **COPY}),
        ("ALU", "MOV", MOVE),
        ("STORE", "LOCAL", {"dst": target, **COPY}),
        ("CTRL", "END", {"queue": 3, "drain": 1}),
    ]
    masks = (0, 1 << ALU), (1 << LOAD, 1 << STORE), (1 << ALU, 0), (0, 0)
    return tokens(program_of(steps, [[0] * 6]), *masks)


def test_by_hand() -> None:
    """Two vectors per cycle are loaded, one is moved and one stored, each after its latency."""
    found = run_core(TINY, copier(0, 20))
    assert found.start.tolist() == [1, 7, 15, 22]
    assert found.end.tolist() == [1 + 4 + 2, 7 + 4 + 4, 15 + 3 + 4, 23]
    assert found.cycles == 23
    assert found.waits[ALU, CAUSES.index("token of LOAD")] == 5
    assert found.order().tolist() == [0, 1, 2, 3]
    assert (found.busy + found.waits.sum(1) == found.cycles).all()


def test_bytes_equal_the_functional_run() -> None:
    program = copier(0, 20)
    chip = NpuChip(TINY, {(0, 0): program})
    image = np.arange(16).reshape(4, 4).astype(np.int8)
    memories = []
    for timed in (False, True):
        frame = chip.frame()
        frame.load((0, 0), 0, image)
        if timed:
            run_in_order(frame, run_core(TINY, program))
        else:
            frame.run()
        assert np.array_equal(frame.read((0, 0), 20, (4,), (1,)), image)
        memories.append(frame.memory((0, 0)))
    for name, values in memories[0].items():
        assert np.array_equal(values, memories[1][name]), name


def run_in_order(frame: Frame, times: CoreTimes) -> None:
    order = times.order()
    frame.run_in_order(np.zeros_like(order), order)


def test_a_program_without_tokens_gives_other_bytes() -> None:
    """In a cycle-accurate run, unordered instructions run in any order."""
    program = copier(0, 40)
    program.fields[1, FIELDS[Op.ALU, 3].index("n_in")] = 9  # so long that the store is ready first
    loose = program._replace(wait=np.zeros_like(program.wait), signal=np.zeros_like(program.wait))
    image = np.full((4, 4), 9, np.int8)
    made = []
    for one in (program, loose):
        chip = NpuChip(TINY, {(0, 0): one})
        frame = chip.frame()
        frame.load((0, 0), 0, image)
        run_in_order(frame, run_core(TINY, one))
        made.append(frame.read((0, 0), 40, (4,), (1,)))
    assert (made[0] == 9).all()
    assert not (made[1] == 9).all()


def test_a_deadlock_names_units_and_causes() -> None:
    steps: list[Any] = [("LOAD", "INP", COPY), ("ALU", "MOV", MOVE)]
    program = tokens(program_of(steps), (1 << ALU, 1 << ALU), (1 << LOAD, 1 << LOAD))
    with pytest.raises(
        ChipError,
        match="deadlock: LOAD waits at instruction 0 for a token of ALU; "
        "ALU waits at instruction 1 for a token of LOAD",
    ):
        run_core(TINY, program)


@pytest.mark.parametrize(
    "step",
    [
        ("CTRL", "WAIT", {"queue": 0, "count": 1}),
        ("CTRL", "SEND", {"queue": 3, "x": 1}),
        ("STORE", "REMOTE", {"x": 1, **COPY}),
    ],
)
def test_communication_with_other_cores_is_rejected(step: Any) -> None:
    name = rf"instruction 1 \({step[0]}.{step[1]}\) communicates with another core"
    with pytest.raises(ChipError, match=name):
        run_core(TINY, program_of([("LOAD", "INP", COPY), step]))


def test_a_counter_that_overflows() -> None:
    steps = [("CTRL", "NOP", {"queue": 0})] * 20
    program = tokens(program_of(steps), *[(0, 1 << ALU)] * 20)
    with pytest.raises(ChipError, match=r"16 tokens of LOAD wait for ALU, whose counter holds 15"):
        run_core(TINY, program)


@pytest.mark.parametrize("seed", range(40))
def test_one_core_equals_its_queues(seed: int) -> None:
    """Two independent models agree: events, and instruction by instruction."""
    random = np.random.default_rng(seed)
    shape = NpuShape("queue", queue_places=int(random.integers(1, 6)))
    steps: list[Any] = []
    masks = []
    given = np.zeros((4, 4), int)
    for _ in range(60):
        unit = int(random.integers(4))
        steps.append(
            [
                ("LOAD", "INP", {**COPY, "x_size": int(random.integers(1, 9))}),
                ("GEMM", "INT8", {"uops": 1, "n_out": 1, "n_in": int(random.integers(1, 30))}),
                ("ALU", "MOV", {**MOVE, "n_in": int(random.integers(1, 9))}),
                ("STORE", "LOCAL", {**COPY, "y_size": int(random.integers(1, 4))}),
            ][unit]
        )
        wait = sum(1 << u for u in range(4) if given[u, unit] and random.integers(2))
        for u in range(4):
            given[u, unit] -= wait >> u & 1
        signal = int(random.integers(16)) & int(random.integers(16))
        for u in range(4):
            given[unit, u] += signal >> u & 1
        masks.append((wait, signal))
    program = tokens(program_of(steps, rows=16), *masks)
    wanted = run_queues([Timed(*part[:4]) for part in parts_of(program, shape)], shape)
    times = run_core(shape, program)
    assert times.start.tolist() == wanted.start.tolist()
    assert times.end.tolist() == wanted.end.tolist()
    assert times.busy.tolist() == wanted.busy.tolist()
    assert times.cycles == wanted.cycles
    assert (times.busy + times.waits.sum(1) == times.cycles).all()
