"""Cycles of instructions by hand, and their start in the queues of a core."""

from __future__ import annotations

from typing import Any

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.cycles import Timed, run_queues
from chipsim.npu.timing import cycles_of, matrix_cycles, vectors_of_entry

NPU, DUAL, REF = (NPU_SHAPES[name] for name in ("npu", "npu-dual", "ref32"))
AREA = {"c_size": 3, "x_size": 5, "y_size": 4, "x_stride": 3, "up": 0}
LOOPS = {"n_out": 6, "n_in": 7, "uops": 2}


@pytest.mark.parametrize(
    ("op", "kind", "fields", "cycles"),
    [
        ("CTRL", "NOP", {}, 1),
        ("LOAD", "INP", AREA, 4 + 4 * 8),  # rows of 15 vectors, two per cycle
        ("LOAD", "INP", {**AREA, "x_stride": 9}, 4 + 4 * 5 * 2),  # pixels of 3 vectors
        ("LOAD", "ACC32", AREA, 4 + 4 * 30),
        ("LOAD", "BIAS", {"n_out": 2, "n_in": 9}, 4 + 18),
        ("LOAD", "TABLE", {"vectors": 7}, 4 + 7),
        ("LOAD", "WSTREAM", {}, 2),
        ("ALU", "ADD", LOOPS, 4 + 84),
        ("ALU", "MAC2", LOOPS, 4 + 2 * 84),  # 16 rows, 8 multipliers
        ("RQ", "RQ", LOOPS, 5 + 2 * 42),
        ("ALU", "MUL", LOOPS, 4 + 2 * 84),
        ("RQ", "THRESHOLD", LOOPS, 5 + 42),
        ("RQ", "LOOKUP", LOOPS, 6 + 16 + 2 * 42),  # 256 bytes, 16 per cycle
        ("STORE", "LOCAL", AREA, 3 + 60),
        ("STORE", "LOCAL", {**AREA, "up": 1}, 3 + 240),
        ("STORE", "REMOTE", AREA, 3 + 120),  # 128 bits in flits of 64
        ("STORE", "PARTIAL", AREA, 3 + 240),
    ],
)
def test_times_by_hand(op: str, kind: str, fields: dict[str, Any], cycles: int) -> None:
    assert cycles_of(op, kind, fields, [], NPU) == cycles
    if kind == "LOOKUP":
        assert cycles_of(op, kind, fields, [], DUAL) == cycles + 16  # entries of 16 bits


def test_matrix_times_by_hand() -> None:
    stay = {"n_out": 6, "n_in": 7, "wgt_out": 0, "wgt_in": 0}
    assert matrix_cycles(stay, NPU) == 42
    assert matrix_cycles(stay, REF) == 42 + 7 * 2  # two more for each row, and once
    assert matrix_cycles({**stay, "n_out": 2}, REF) == 32 + 3 * 2  # a word enters in 32 cycles
    assert matrix_cycles({**stay, "wgt_out": 1}, REF) == 6 * 32 + 7 * 2
    assert matrix_cycles({**stay, "wgt_in": 1}, REF) == 42 * 32 + 7 * 2
    assert cycles_of("GEMM", "INT8", stay, [42, 42], NPU) == 5 + 84
    assert [vectors_of_entry(shape) for shape in (NPU, DUAL)] == [4, 8]


def test_units_run_in_parallel() -> None:
    load, gemm, alu = 0, 1, 2
    program = [
        Timed(load, 0, 1 << gemm, 10),
        Timed(gemm, 1 << load, 1 << alu, 20),
        Timed(load, 0, 1 << gemm, 10),
        Timed(gemm, 1 << load, 1 << alu, 20),
        Timed(alu, 1 << gemm, 0, 5),
        Timed(alu, 1 << gemm, 0, 5),
    ]
    found = run_queues(program, NPU)
    assert found.start.tolist() == [1, 11, 11, 31, 31, 51]
    assert found.end.tolist() == [11, 31, 21, 51, 36, 56]
    assert found.busy.tolist() == [20, 40, 10, 0]
    assert found.cycles == 56


def test_a_full_queue_blocks_later_instructions() -> None:
    one = NpuShape("one", queue_places=1)
    program = [Timed(0, 0, 0, 10), Timed(0, 0, 0, 10), Timed(0, 0, 0, 10), Timed(1, 0, 0, 1)]
    assert run_queues(program, one).start.tolist() == [1, 11, 21, 14]
    assert run_queues(program, NPU).start.tolist() == [1, 11, 21, 4]


def test_tokens_that_never_come_and_counters_that_overflow() -> None:
    with pytest.raises(ChipError, match="deadlock: instruction 0 of GEMM waits for a token of LOA"):
        run_queues([Timed(1, 1, 0, 1)], NPU)
    narrow = NpuShape("narrow", token_bits=1)
    gives = [Timed(0, 0, 2, 1)] * 2
    with pytest.raises(ChipError, match="2 tokens of LOAD wait for GEMM, whose counter holds 1"):
        run_queues([*gives, *[Timed(1, 1, 0, 9)] * 2], narrow)


def test_units_share_the_channel_to_external_memory() -> None:
    """512 bits need two cycles of the channel, first come, first served."""
    load, store = 0, 3
    program = [
        Timed(load, 0, 0, 4, 256 * 10),
        Timed(load, 0, 0, 4, 256 * 10),
        Timed(store, 0, 0, 3 + 5, 256 * 5),
        Timed(load, 0, 0, 4 + 20, 256),
        Timed(store, 0, 0, 8, 256 * 5),
    ]
    found = run_queues(program, REF)
    # the store requests in cycle 3, the second load in cycle 11: the channel is free in 11, then in
    # 16
    assert found.start.tolist() == [1, 11, 3, 26, 19]
    assert found.end.tolist() == [11, 26, 19, 55, 34]
