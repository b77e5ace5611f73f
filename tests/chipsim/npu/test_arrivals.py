"""Weight words of the host: against a cycle-by-cycle reference, by hand, on several cores."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.arrivals import Asked, HostLink, HostWords, Taken, WordOrder
from chipsim.npu.core_run import parts_of, run_core
from chipsim.npu.cycles import CAUSES, Timed, run_queues
from chipsim.npu.records import FIELDS, Op, Program
from chipsim.npu.timing import matrix_cycles
from tests.chipsim.npu.programs import program_of

NPU, REF, TINY = (NPU_SHAPES[name] for name in ("npu", "ref32", "tiny"))
LOAD, GEMM = 0, 1
LINEAR = {"n_out": 1, "n_in": 1, "wgt_out": 0, "wgt_in": 0, "dyn": 1, "uop": 0}


def nothing(first: int, count: int) -> bytes:
    return b""


def products(f: dict[str, int], micro_ops: list[int], shape: NpuShape) -> list[tuple[int, int]]:
    """Return each word that enters the array and the cycles until the next one may, in order."""
    enter = shape.rows if shape.weight_port == "row" else 1
    b = shape.loop_overhead
    found = []
    for first in micro_ops[f["uop"] : f["uop"] + f["uops"]]:
        for o in range(f["n_out"] if f["wgt_out"] or f["wgt_in"] else 1):
            for i in range(f["n_in"] if f["wgt_in"] else 1):
                word = first + o * f["wgt_out"] + i * f["wgt_in"]
                if f["wgt_in"]:
                    took = enter + b * (i == f["n_in"] - 1)
                elif f["wgt_out"]:
                    took = max(f["n_in"], enter) + b
                else:
                    took = max(f["n_out"] * f["n_in"], enter) + b * f["n_out"]
                found.append((word, took))
    return found


def ends_by_cycle(
    order: list[tuple[int, int]], f: dict[str, int], shape: NpuShape, host: HostLink, start: int,
    asked: Asked,
) -> int:  # fmt: skip
    """Simulate flits and products one by one: a request in cycle 0, products from `start` on."""
    need = shape.rows * shape.columns * 8 // shape.payload_bits
    rate = Fraction(host.flits).limit_denominator(1000)
    flits, there = Fraction(0), 0
    left = list(order)
    each = len(order) // f["uops"]
    now, free = 0, start + shape.loop_overhead
    while left:
        if now > host.latency:
            flits += rate
        there = min(asked.words, int(flits / need))
        if now >= free and left[0][0] < asked.first + there:
            free = now + left.pop(0)[1]
            if left and len(left) % each == 0:
                free += shape.loop_overhead
        now += 1
    return free + shape.latency.matrix


def random_case(seed: int) -> Any:
    random = np.random.default_rng(seed)
    shape = [NPU, replace(REF, map_vectors=64), TINY][seed % 3]
    inside = seed // 3 % 3
    f = {**LINEAR, "n_out": int(random.integers(1, 5)), "n_in": int(random.integers(1, 40)),
         "uops": int(random.integers(1, 6))}  # fmt: skip
    f["wgt_out"] = int(random.integers(1, 3)) if inside else 0
    f["wgt_in"] = int(random.integers(1, 3)) if inside == 2 else 0
    first = int(random.integers(0, 8))
    micro_ops = [int(at) for at in random.integers(0, 20, f["uops"])]
    most = max(word for word, _ in products(f, micro_ops, shape)) + 1
    asked = Asked(first, max(1, most - first + int(random.integers(0, 3))))
    flits = [1.0, 0.5, 0.25, 2.0, 0.1][int(random.integers(5))]
    return (
        shape,
        f,
        micro_ops,
        asked,
        HostLink(int(random.integers(0, 50)), flits),
        int(random.integers(2, 300)),
    )


@pytest.mark.sample(25)
@pytest.mark.parametrize("seed", range(60))
def test_c07_stalls_match_cycle_by_cycle_reference(seed: int) -> None:
    """C07: no product uses a word before it has arrived, and none waits longer than necessary."""
    shape, f, micro_ops, asked, host, start = random_case(seed)
    taken = WordOrder(shape, micro_ops, nothing).follow("GEMM", "INT8", f)
    assert isinstance(taken, Taken)
    order = products(f, micro_ops, shape)
    assert taken.words.tolist() == [word for word, _ in order]
    late = HostWords(shape, host).ask(asked, 0).wait(taken, start)
    whole = shape.latency.matrix + f["uops"] * matrix_cycles(f, shape)
    assert start + whole + late == ends_by_cycle(order, f, shape, host, start, asked)


def test_words_by_hand() -> None:
    """Four words of 32 flits, requested in cycle 1, the first arrived at 1 + 32 + 32 = 65."""
    f = {**LINEAR, "n_in": 4, "uops": 4}
    taken = WordOrder(NPU, [10, 11, 12, 13], nothing).follow("GEMM", "INT8", f)
    program = [Timed(LOAD, 0, 0, 2, 0, Asked(10, 4)), Timed(GEMM, 0, 0, 21, 0, taken)]
    found = run_queues(program, NPU)
    assert found.start.tolist() == [1, 2]
    # the last word arrives in cycle 161, its four products take 4, the array pipeline 5
    assert found.end.tolist() == [3, 161 + 4 + 5]
    assert found.late.tolist() == [0, 170 - 2 - 21]
    assert found.busy.tolist() == [2, 21, 0, 0]
    assert run_queues([program[1]], NPU).late.tolist() == [0]  # nothing is in transit


def test_words_of_external_memory() -> None:
    """Words share the channel with maps: two words of 32 cycles after ten cycles of a load."""
    f = {**LINEAR, "n_in": 40, "uops": 2}
    taken = WordOrder(REF, [0, 1], nothing).follow("GEMM", "INT8", f)
    program = [
        Timed(LOAD, 0, 0, 4, 256 * 10),
        Timed(LOAD, 0, 1 << GEMM, 2, 256 * 64, Asked(0, 2)),
        Timed(GEMM, 1 << LOAD, 0, 5 + 2 * 44, 0, taken),
    ]
    found = run_queues(program, REF)
    assert found.start.tolist() == [1, 11, 13]
    # the first word arrives in cycle 43; the loop of the first product starts two earlier
    assert found.late.tolist() == [0, 0, 43 - 13 - 2]


def test_two_requests_are_served_in_order() -> None:
    link = HostWords(NPU, HostLink(32, 1.0))
    first, second = link.ask(Asked(0, 3), 5), link.ask(Asked(3, 1), 7)
    assert (first.begin, second.begin) == (37, 37 + 96)
    third = link.ask(Asked(0, 1), 1000)
    assert third.begin == 1032


def test_unrequested_words_are_a_deadlock() -> None:
    taken = WordOrder(NPU, [9], nothing).follow("GEMM", "INT8", {**LINEAR, "uops": 1})
    assert isinstance(taken, Taken)
    with pytest.raises(ChipError, match=r"deadlock: .* for weight word 9; .* at word 8"):
        HostWords(NPU).ask(Asked(5, 4), 0).wait(taken, 0)


def test_the_later_of_two_words_of_a_product_counts() -> None:
    order = WordOrder(NPU_SHAPES["npu-dual"], [3, 5], nothing)
    f = {**LINEAR, "uops": 2}
    found = [order.follow("GEMM", "INT16", f)]
    order.follow("CTRL", "DIST", {"queue": GEMM, "wgt": 9})
    found += [order.follow("GEMM", kind, f) for kind in ("DUAL_KERNEL", "DUAL_PIXEL")]
    words = [one.words.tolist() for one in found if isinstance(one, Taken)]
    assert words == [[4, 6], [12, 14], [3, 5]]


def test_reloaded_micro_ops() -> None:
    """A vector of 16 bytes has two micro-ops; the load base is added to its address."""
    asked: list[tuple[int, int]] = []

    def fetch(first: int, count: int) -> bytes:
        asked.append((first, count))
        return np.array([7 << 24 | 0xFFF, 9 << 24 | 1 << 36], "<u8").tobytes()

    order = WordOrder(NPU, [1, 2, 3], fetch)
    order.follow("CTRL", "BASE", {"queue": LOAD, "space": 0, "value": 100})
    order.follow("LOAD", "TABLE", {"dst": 1, "src": 5, "vectors": 1, "memory": 0})
    order.follow("LOAD", "TABLE", {"dst": 0, "src": 5, "vectors": 1, "memory": 1})
    taken = order.follow("GEMM", "INT8", {**LINEAR, "uops": 3})
    assert isinstance(taken, Taken)
    assert taken.words.tolist() == [1, 7, 9]
    assert asked == [(105, 1)]


def streamed(seed: int) -> Program:
    """Return requests, and products that wait for their words, one request after the other."""
    random = np.random.default_rng(seed)
    steps: list[Any] = []
    masks = []
    for _ in range(6):
        words = int(random.integers(1, 5))
        steps += [
            ("LOAD", "WSTREAM", {"dst": 2, "words": words}),
            ("GEMM", "INT8", {"uop": 2, "uops": words, "n_out": 1, "dyn": 1,
                              "n_in": int(random.integers(1, 50))}),
        ]  # fmt: skip
        masks += [(1 << GEMM if masks else 0, 1 << GEMM), (1 << LOAD, 1 << LOAD)]
    rows = [[0, 0, at, 0, 0, 0] for at in range(8)]
    wait, signal = np.array(masks, np.uint8).T
    made = program_of(steps, rows)
    return made._replace(wait=wait.copy(), signal=signal.copy())


@pytest.mark.parametrize("seed", range(12))
def test_c07_one_core_equals_its_queues(seed: int) -> None:
    """C07: the chip simulator and the compiler's timeline are independent and agree on stalls."""
    program = streamed(seed)
    host = HostLink(seed * 7, [1.0, 0.5, 0.02][seed % 3])
    parts = parts_of(program, TINY)
    wanted = run_queues(
        [Timed(*part[:4], words=part.words) for part in parts], TINY, host
    )  # fmt: skip
    times = run_core(TINY, program, host)
    assert times.start.tolist() == wanted.start.tolist()
    assert times.end.tolist() == wanted.end.tolist()
    assert times.busy.tolist() == wanted.busy.tolist()
    assert times.waits[GEMM, CAUSES.index("weights")] == wanted.late.sum() > 0
    assert (times.busy + times.waits.sum(1) == times.cycles).all()


def test_words_that_never_arrive_are_named() -> None:
    program = streamed(3)
    program.fields[0, FIELDS[Op.LOAD, 5].index("words")] = 0
    with pytest.raises(ChipError, match="deadlock: a product waits for weight"):
        run_core(TINY, program)
