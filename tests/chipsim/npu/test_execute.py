"""Programs of NPU cores: against the reference implementation, address checks, order of cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.errors import ChipError
from chipsim.npu.arithmetic import _round
from chipsim.npu.execute import Frame, NpuChip, run_frames
from tests.chipsim.npu.programs import SHAPES, Case, host_words, program_of, random_case
from tests.reference.npu import FaultError, rounded

TINY = NPU_SHAPES["tiny"]
PROGRAMS = 6 if numba.config.DISABLE_JIT else 150
HERE = (0, 0)


def outcome(case: Case, odd: bool) -> tuple[Any, ...]:
    """Return the memories after a program, or the number of the faulting instruction."""
    words = host_words(case.shape)
    frame = NpuChip(case.shape, {HERE: case.program()}, None, words, logged=True).frame()
    try:
        frame.run(odd)
    except ChipError as error:
        return ("fault", int(str(error).split("instruction ")[1].split()[0]))
    found = frame.memory(HERE)
    addresses, vectors = frame.host(HERE)
    sent = sorted(zip(addresses.tolist(), vectors.tolist(), strict=True))
    memories = (found[name].tolist() for name in ("FM", "INP", "ACC", "OUT"))
    return *memories, sent, by_address(zip(*frame.log(HERE), strict=True))


def expected(case: Case, odd: bool) -> tuple[Any, ...]:
    twin = case.twin()
    twin.odd = odd
    try:
        twin.run(case.steps)
    except FaultError as fault:
        return ("fault", fault.args[0])
    sent = sorted((at, list(vector)) for at, vector in twin.host)
    memories = (twin.maps, twin.inputs, twin.sums, twin.results)
    return *([list(row) for row in memory] for memory in memories), sent, by_address(twin.log)


def by_address(log: Iterable[tuple[Any, Any]]) -> dict[int, list[list[int]]]:
    """Return the vectors that were stored at each address, in order."""
    found: dict[int, list[list[int]]] = {}
    for at, vector in log:
        found.setdefault(int(at), []).append([int(lane) for lane in vector])
    return found


def test_read_only_words_need_no_recompilation() -> None:
    """Words of a compiled folder are stored in the bytes of its file."""
    words = host_words(TINY)
    fixed = np.frombuffer(words.tobytes(), np.int8).reshape(words.shape)
    chips = [NpuChip(TINY, {}, host_weights=one) for one in (None, words, fixed)]
    assert len({numba.typeof(chip._code) for chip in chips}) == 1
    assert (chips[2]._code.host_weights == words).all()


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", list(SHAPES))
@pytest.mark.parametrize("wild", [False, True])
def test_random_programs_match_reference(name: str, wild: bool) -> None:
    ran, faults, kinds = 0, 0, set()
    for seed in range(PROGRAMS):
        case = random_case(SHAPES[name], seed, 12, wild)
        found = outcome(case, bool(seed % 2))
        wanted = expected(case, bool(seed % 2))
        assert found == wanted, (seed, case.steps)
        faults += found[0] == "fault"
        if found[0] != "fault":
            ran += 1
            kinds |= {(op, kind) for op, kind, _ in case.steps}
    if wild:
        assert ran
        assert faults or numba.config.DISABLE_JIT  # a small sample may be all legal
    elif not numba.config.DISABLE_JIT:
        assert ran > PROGRAMS // 4
        everything = 32 if SHAPES[name].multiplier == "dual" else 29
        assert len(kinds) == everything, sorted(kinds)


def test_rounding_shifts_equal_their_definition() -> None:
    for x in [*range(-70, 71), 2**40 + 1, -(2**40) - 1, 2**31 - 1, -(2**31)]:
        for n in (0, 1, 2, 5, 17, 40, 63):
            for mode in range(4):
                assert _round(np.int64(x), np.int64(n), mode) == rounded(x, n, mode), (x, n, mode)
    assert [rounded(x, 1, 0) for x in (-3, -1, 1, 3)] == [-2, -1, 1, 2]
    assert [rounded(x, 1, 1) for x in (-3, -1, 1, 3)] == [-1, 0, 1, 2]
    assert [rounded(x, 1, 2) for x in (-3, -1, 1, 3)] == [-2, 0, 0, 2]
    assert [rounded(x, 1, 3) for x in (-3, -1, 1, 3)] == [-2, -1, 0, 1]


COPY = {"x_size": 4, "y_size": 1, "c_size": 1, "x_stride": 1}
"""Four vectors in a row."""


def copies(source: int, target: int, store: str, **fields: int) -> list[Any]:
    """Return a program that copies four vectors."""
    move = {"uops": 1, "n_out": 1, "n_in": 4, "dst_in": 1, "src_in": 1, "source": 1, "out": 1}
    return [
        ("LOAD", "ACC8", {"src": source, **COPY}),
        ("ALU", "MOV", move),
        ("STORE", store, {"dst": target, **COPY, **fields}),
    ]


MOVES = [[0] * 6]


def test_cores_run_in_the_order_of_their_streams() -> None:
    """The first core waits for the second, which waits for a credit of the first."""
    first = program_of(
        [
            ("CTRL", "SEND", {"stream": 2, "count": 1, "x": 1, "y": 0}),
            ("CTRL", "WAIT", {"stream": 5, "count": 4}),
            *copies(8, 0, "HOST"),
            ("CTRL", "END", {}),
        ],
        MOVES,
    )
    second = program_of(
        [
            ("CTRL", "WAIT", {"stream": 2, "count": 3}),
            *copies(0, 8, "REMOTE", x=0, y=0, stream=5),
        ],
        MOVES,
    )
    chip = NpuChip(TINY, {(0, 0): first, (1, 0): second}, {(1, 0): [0, 0, 2] + [0] * 13})

    def work(frame: Frame, number: int) -> np.ndarray[Any, Any]:
        frame.load((1, 0), 0, np.full((4, 4), number, np.int8))
        frame.run()
        assert not frame.memory((0, 0))["streams"].any()
        assert np.array_equal(frame.read((0, 0), 8, (4,), (1,)), frame.host((0, 0))[1])
        return frame.host((0, 0))[1]

    for threads in (1, 3):
        found = list(run_frames(chip, range(-20, 20), work, threads))
        assert [each.tolist() for each in found] == [[[n] * 4] * 4 for n in range(-20, 20)]


def test_deadlock_of_cores_is_an_error() -> None:
    wait = program_of([("CTRL", "NOP", {}), ("CTRL", "WAIT", {"stream": 5, "count": 4})])
    chip = NpuChip(TINY, {(0, 0): wait, (3, 2): wait})
    with pytest.raises(ChipError, match=r"deadlock: core \(0, 0\) waits at instruction 1 for 4 of "
                       r"stream 5, which has counted 0; core \(3, 2\) waits"):  # fmt: skip
        chip.frame().run()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (("LOAD", "INP", {"src": 510, **COPY}), r"address 513 is outside the feature memory \(FM\) "
         "of 512"),
        (("LOAD", "INP", {"dst": 126, **COPY}), r"address 129 is outside the input buffer \(INP\)"),
        (("STORE", "LOCAL", {"src": 126, **COPY}), "address 129 is outside the result buffer"),
        (("GEMM", "INT16", {"uops": 1, "n_out": 1, "n_in": 1}), "the core tiny does not support"),
        (("STORE", "REMOTE", {**COPY, "x": 4, "y": 2}), r"core \(4, 2\) has no program"),
        (("LOAD", "WSTREAM", {"words": 1}), "weight word 0 is static"),
        (("GEMM", "INT8", {"uops": 1, "n_out": 1, "n_in": 1, "wgt_in": 1, "dyn": 1, "uop": 1}),
         "weight word 63 never arrives"),
    ],
)  # fmt: skip
def test_faulting_instructions_are_named(step: Any, said: str) -> None:
    base = ("CTRL", "BASE", {"space": 2, "value": 60})
    program = program_of([base, step], [[0] * 6, [0, 0, 63, 0, 0, 0]])
    name = f"{step[0]}.{step[1]}"
    with pytest.raises(ChipError, match=rf"core \(0, 0\): instruction 1 \({name}\): {said}"):
        NpuChip(TINY, {HERE: program}).frame().run()


def test_programs_and_vectors_of_another_shape_are_refused() -> None:
    program = program_of([])
    with pytest.raises(ChipError, match="equal numbers"):
        NpuChip(replace(TINY, name="odd", columns=8), {HERE: program})
    with pytest.raises(ChipError, match=r"core \(0, 0\): maps of shape \(0, 4\); npu npu has"):
        NpuChip(NPU_SHAPES["npu"], {HERE: program._replace(weights=np.zeros((0, 16, 16), np.int8))})
    wrong = program_of([("CTRL", "WAIT", {"stream": 16})])
    with pytest.raises(ChipError, match=r"instruction 0 \(CTRL.WAIT\): stream is 16"):
        NpuChip(TINY, {HERE: wrong})
    frame = NpuChip(TINY, {HERE: program}).frame()
    with pytest.raises(ChipError, match="vectors 510 to 512; its feature memory has 512"):
        frame.load(HERE, 510, np.zeros((3, 4), np.int8))
    with pytest.raises(ChipError, match="vectors 509 to 512; its feature memory has 512"):
        frame.read(HERE, 509, (2, 2), (2, 1))
    with pytest.raises(ChipError, match=r"give bytes of shape \(count, 4\)"):
        frame.load(HERE, 0, np.zeros((3, 5), np.int8))
    with pytest.raises(ChipError, match=r"core \(1, 0\) has no program"):
        frame.load((1, 0), 0, np.zeros((3, 4), np.int8))
