"""Cycle-true runs of several cores: by hand, beside one core alone, and with equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.chip_run import CAUSES, ChipTimes, parts_of, run_chip
from chipsim.npu.cycles import Timed, run_queues
from chipsim.npu.execute import NpuChip
from chipsim.npu.records import FIELDS, Op, Program
from tests.chipsim.npu.programs import program_of

TINY = NPU_SHAPES["tiny"]
LOAD, GEMM, ALU, STORE = range(4)
COPY = {"x_size": 4, "y_size": 1, "c_size": 1, "x_stride": 1}
MOVE = {"uops": 1, "n_out": 1, "n_in": 4, "dst_in": 1, "src_in": 1, "source": 1, "out": 1}
QUEUE = {"LOAD": 0, "GEMM": 1, "ALU": 2, "STORE": 3}


def tokens(program: Program, *masks: tuple[int, int]) -> Program:
    """With masks of waits and signals."""
    wait, signal = np.array(masks, np.uint8).reshape(-1, 2).T
    return program._replace(wait=np.ascontiguousarray(wait), signal=np.ascontiguousarray(signal))


def copier(source: int, target: int, *around: Any, store: str = "LOCAL", **more: int) -> Program:
    """Four vectors from one address to another; around : what LOAD does before, STORE behind."""
    before, behind = around or ([], [])
    made = program_of(
        [
            *before,
            ("LOAD", "ACC8", {"src": source, **COPY}),
            ("ALU", "MOV", MOVE),
            ("STORE", store, {"dst": target, **COPY, **more}),
            *behind,
            ("CTRL", "END", {"drain": 1}),
        ],
        [[0] * 6],
    )
    masks = [(0, 0)] * len(before) + [(0, 1 << ALU), (1 << LOAD, 1 << STORE), (1 << ALU, 0)]
    return tokens(made, *masks, *[(0, 0)] * (len(behind) + 1))


def wait(queue: str, stream: int, count: int) -> Any:
    return ("CTRL", "WAIT", {"queue": QUEUE[queue], "stream": stream, "count": count})


def send(queue: str, stream: int, x: int, count: int = 1) -> Any:
    return ("CTRL", "SEND", {"queue": QUEUE[queue], "stream": stream, "count": count, "x": x})


def pair() -> dict[tuple[int, int], Program]:
    """(0, 0) sends four vectors to (1, 0) when it has a credit; that one copies and gives one
    back."""
    return {
        (0, 0): copier(0, 20, [wait("LOAD", 3, 1)], [], store="REMOTE", x=1, stream=5),
        (1, 0): copier(20, 40, [wait("LOAD", 5, 4)], [send("STORE", 3, 0)]),
    }


def test_two_cores_by_hand() -> None:
    """A store of four vectors of 4 bytes is four flits of 32 bits, behind 3 cycles."""
    found = run_chip(TINY, pair(), {(0, 0): [0, 0, 0, 1] + [0] * 12})
    first, second = found.cores[0, 0], found.cores[1, 0]
    assert first.start.tolist() == [1, 2, 8, 16, 8]
    assert first.end.tolist()[:4] == [2, 2 + 4 + 2, 8 + 4 + 4, 16 + 3 + 4]
    # the other waits from the start until the store has ended
    assert second.start.tolist()[:2] == [1, 24]
    assert second.end[0] == 24
    assert second.waits[LOAD, CAUSES.index("stream")] == 22
    assert found.cycles == int(second.end.max())
    for times in found.cores.values():
        assert (times.busy + times.waits.sum(1) == found.cycles).all()


def test_equal_bytes_as_the_functional_run() -> None:
    credits = {(0, 0): [0, 0, 0, 1] + [0] * 12}
    programs = pair()
    chip = NpuChip(TINY, programs, credits)
    image = np.arange(16).reshape(4, 4).astype(np.int8)
    memories = []
    for timed in (False, True):
        frame = chip.frame()
        frame.load((0, 0), 0, image)
        if timed:
            frame.run_in_order(*run_chip(TINY, programs, credits).order())
        else:
            frame.run()
        assert np.array_equal(frame.read((1, 0), 40, (4,), (1,)), image)
        memories.append([frame.memory(place) for place in programs])
    for ours, others in zip(*memories, strict=True):
        for name, values in ours.items():
            assert np.array_equal(values, others[name]), name


def test_a_program_without_its_tokens_makes_other_bytes() -> None:
    """Cycle-true means that what nothing orders is not ordered."""
    program = copier(0, 40)
    program.fields[1, FIELDS[Op.ALU, 3].index("n_in")] = 9  # so long that the store is ready first
    loose = program._replace(wait=np.zeros_like(program.wait), signal=np.zeros_like(program.wait))
    image = np.full((4, 4), 9, np.int8)
    made = []
    for one in (program, loose):
        chip = NpuChip(TINY, {(0, 0): one})
        frame = chip.frame()
        frame.load((0, 0), 0, image)
        frame.run_in_order(*run_chip(TINY, {(0, 0): one}).order())
        made.append(frame.read((0, 0), 40, (4,), (1,)))
    assert (made[0] == 9).all()
    assert not (made[1] == 9).all()


def test_two_stores_share_a_stream() -> None:
    """The one that ends first counts first, whichever core it is on."""
    late = [("CTRL", "NOP", {"queue": 0})] * 30
    programs = {
        (0, 0): copier(0, 20, late, [], store="REMOTE", x=2, stream=5),
        (1, 0): copier(0, 24, [], [], store="REMOTE", x=2, stream=5),
        (2, 0): copier(20, 40, [wait("LOAD", 5, 4), wait("LOAD", 5, 4)], []),
    }
    found = run_chip(TINY, programs)
    ends = [int(found.cores[0, 0].end[32]), int(found.cores[1, 0].end[2])]
    assert ends[1] < ends[0]
    assert found.cores[2, 0].end.tolist()[:2] == [ends[1] + 1, ends[0] + 1]


DEADLOCKS: list[tuple[dict[tuple[int, int], Program], str]] = [
    (
        {(0, 0): tokens(program_of([("LOAD", "INP", COPY), ("ALU", "MOV", MOVE)]),
                        (1 << ALU, 1 << ALU), (1 << LOAD, 1 << LOAD))},
        r"core \(0, 0\): LOAD waits at instruction 0 for a token of ALU; "
        r"core \(0, 0\): ALU waits at instruction 1 for a token of LOAD",
    ),
    (
        {place: copier(0, 20, [wait("LOAD", 2, 1)], [send("STORE", 2, x)])
         for place, x in (((0, 0), 1), ((1, 0), 0))},
        r"core \(0, 0\): LOAD waits at instruction 0 for 1 of stream 2, which has counted 0; .*"
        r"core \(1, 0\): LOAD waits at instruction 0 for 1 of stream 2",
    ),
    (
        {(0, 0): copier(0, 20, [wait("LOAD", 1, 9)], [])},
        r"core \(0, 0\): LOAD waits at instruction 0 for 9 of stream 1, which has counted 0; .*"
        "ALU waits at instruction 2 for a token of LOAD",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("programs", "says"), DEADLOCKS)
def test_deadlocks_name_units_and_what_they_wait_for(
    programs: dict[tuple[int, int], Program], says: str
) -> None:
    with pytest.raises(ChipError, match=f"deadlock: {says}"):
        run_chip(TINY, programs)


def test_stores_to_nobody_and_counters_that_overflow() -> None:
    with pytest.raises(ChipError, match=r"instruction 2 \(STORE.REMOTE\): core \(7, 0\) has no"):
        run_chip(TINY, {(0, 0): copier(0, 20, store="REMOTE", x=7)})
    steps = [("CTRL", "NOP", {"queue": 0})] * 20
    program = tokens(program_of(steps), *[(0, 1 << ALU)] * 20)
    with pytest.raises(ChipError, match=r"16 tokens of LOAD wait for ALU, whose counter holds 15"):
        run_chip(TINY, {(0, 0): program})


@pytest.mark.parametrize("seed", range(40))
def test_one_core_equals_its_queues(seed: int) -> None:
    """Two ways to the same times: events here, instruction by instruction there."""
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
    parts = parts_of(program, shape, {(0, 0): 0}, "core")
    wanted = run_queues([Timed(*part[:4]) for part in parts], shape)
    found: ChipTimes = run_chip(shape, {(0, 0): program})
    times = found.cores[0, 0]
    assert times.start.tolist() == wanted.start.tolist()
    assert times.end.tolist() == wanted.end.tolist()
    assert times.busy.tolist() == wanted.busy.tolist()
    assert found.cycles == wanted.cycles
    assert (times.busy + times.waits.sum(1) == found.cycles).all()
