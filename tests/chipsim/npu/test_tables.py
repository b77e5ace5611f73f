"""LOOKUP and MUL by hand: every entry of a table, its place, wrapped factors, and faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.errors import ChipError
from chipsim.npu.execute import NpuChip
from chipsim.npu.records import Program
from tests.chipsim.npu.programs import program_of

TINY = NPU_SHAPES["tiny"]
DUAL = replace(TINY, multiplier="dual")
HERE = (0, 0)
ONE = 1 << 6
"""Scale of 1."""


def table_of(shape: NpuShape, seed: int) -> np.ndarray[Any, Any]:
    """Return 256 entries of the lane width, the ends of their range among them."""
    kind = np.int16 if shape.multiplier == "dual" else np.int8
    ends = np.iinfo(kind)
    found = np.random.default_rng(seed).integers(ends.min, ends.max + 1, 256).astype(kind)
    found[[0, 127, 128, 255]] = ends.max, ends.min, -1, ends.min
    return found


def looked_up(
    shape: NpuShape, entries: np.ndarray[Any, Any], first: int, **fields: int
) -> tuple[Program, np.ndarray[Any, Any]]:
    """Return a program that looks up -128 to 127, and these numbers by entry and lane.

    first : parameter word of the table; the record is in words 0 and 1
    """
    numbers = np.random.default_rng(1).permutation(np.arange(-128, 128)).reshape(-1, 4)
    parameters = np.zeros((shape.parameter_words, 16), np.int32)
    words = entries.view(np.int32).reshape(-1, 16)[: len(parameters) - first]
    parameters[first : first + len(words)] = words
    parameters[0, :3] = 0, -128, 127
    parameters[1] = ONE
    count = len(numbers)
    area = {"c_size": 1, "y_size": 1, "x_stride": 1}
    steps = [
        ("LOAD", "ACC8", {**area, "x_size": count}),
        ("RQ", "LOOKUP", {"n_out": 1, "n_in": count, "dst_in": 1, "table": first, **fields}),
    ]
    maps = numbers.astype(np.int8).view(np.uint8)
    return program_of(steps, parameters=parameters, maps=maps), numbers


@pytest.mark.parametrize("shape", [TINY, DUAL], ids=["bytes", "16 bits"])
@pytest.mark.parametrize("place", ["first", "last"])
def test_every_entry_is_found(shape: NpuShape, place: str) -> None:
    """Sums and results get the entry of the low 8 bits, also from the last parameter words."""
    entries = table_of(shape, 3)
    words = entries.nbytes // 64
    first = 2 if place == "first" else shape.parameter_words - words
    program, numbers = looked_up(shape, entries, first, out=1)
    frame = NpuChip(shape, {HERE: program}).frame()
    frame.run()
    found = frame.memory(HERE)
    wanted = entries[numbers & 255]
    assert np.array_equal(found["ACC"][: len(wanted)], wanted)
    assert np.array_equal(found["OUT"][: len(wanted)], wanted)


def test_results_stay_without_out() -> None:
    program, numbers = looked_up(TINY, table_of(TINY, 4), 2)
    frame = NpuChip(TINY, {HERE: program}).frame()
    frame.run()
    assert not frame.memory(HERE)["OUT"].any()
    assert np.array_equal(
        frame.memory(HERE)["ACC"][: len(numbers)], table_of(TINY, 4)[numbers & 255]
    )


def test_wider_results_select_by_their_low_bits() -> None:
    """Zero point and range act before the table: 300 selects entry 44, and -300 entry 212."""
    entries = table_of(TINY, 5)
    program, numbers = looked_up(TINY, entries, 2)
    program.parameters[0, :3] = 300, 200, 400
    frame = NpuChip(TINY, {HERE: program}).frame()
    frame.run()
    wanted = entries[np.clip(numbers + 300, 200, 400) & 255]
    assert np.array_equal(frame.memory(HERE)["ACC"][: len(wanted)], wanted)
    assert wanted[numbers == 0] == entries[44]


@pytest.mark.parametrize("shape", [TINY, DUAL], ids=["bytes", "16 bits"])
def test_tables_end_inside_the_parameter_memory(shape: NpuShape) -> None:
    words = 8 if shape is DUAL else 4
    program, _ = looked_up(shape, table_of(shape, 3), shape.parameter_words - words + 1)
    with pytest.raises(ChipError, match=r"\(RQ.LOOKUP\): address 64 is outside the parameter mem"):
        NpuChip(shape, {HERE: program}).frame().run()


@pytest.mark.parametrize(("loops", "early"), [
    ({"n_out": 1, "n_in": 3, "dst_in": 1}, None),
    ({"n_out": 1, "n_in": 2, "dst_in": 0}, 0),
    ({"n_out": 2, "n_in": 2, "dst_in": 1, "dst_out": 0}, 0),  # 0, 1, 0, 1
    ({"n_out": 2, "n_in": 3, "dst_in": 1, "dst_out": 0}, None),  # 0, 1, 2, 0, 1, 2
    ({"n_out": 2, "n_in": 3, "dst_in": 1, "dst_out": 1}, 1),  # 0, 1, 2, 1, 2, 3
    ({"n_out": 2, "n_in": 3, "dst_in": 1, "dst_out": 2}, 2),  # 0, 1, 2, 2, 3, 4
])  # fmt: skip
def test_entries_differ_from_two_steps_before(loops: dict[str, int], early: int | None) -> None:
    program, _ = looked_up(TINY, table_of(TINY, 3), 4, **loops)
    program.parameters[2] = ONE
    frame = NpuChip(TINY, {HERE: program}).frame()
    if early is None:
        frame.run()
        return
    said = rf"\(RQ.LOOKUP\): uses accumulator {early} again before its result is written"
    with pytest.raises(ChipError, match=said):
        frame.run()


def multiplied(shape: NpuShape, pairs: list[tuple[int, int]], **fields: int) -> Program:
    """Return a program that multiplies accumulators; numbers enter by biases.

    Destinations are entries 0, 1 and so on; sources are entries 32, 33 and so on.
    """
    count = len(pairs)
    parameters = np.zeros((2 * count, 16), np.int32)
    parameters[:count] = np.array(pairs)[:, :1]
    parameters[count:] = np.array(pairs)[:, 1:]
    bias = {"n_out": count, "n_in": 1, "dst_out": 1}
    loops = {"uops": 1, "n_out": 1, "n_in": count, "dst_in": 1, "src_in": 1, "out": 1}
    steps = [
        ("LOAD", "BIAS", bias),
        ("LOAD", "BIAS", {**bias, "dst": 32, "bm": count}),
        ("ALU", "MUL", {**loops, **fields}),
    ]
    return program_of(steps, [[0, 32, 0, 0, 0, 0]], parameters=parameters)


def test_products_wrap() -> None:
    """The source has 26 bits, the destination 32, the product the bits of an accumulator."""
    pairs = [(7, -5), (-128, -128), (3, 1 << 25), (3, (1 << 25) - 1), (5, 1 << 26),
             (-(1 << 31), 2), ((1 << 31) - 1, (1 << 25) - 1), (1 << 20, 1 << 20)]  # fmt: skip
    products = [-35, 16384, -3 << 25, 3 * ((1 << 25) - 1), 0, -(1 << 32)]
    products += [((1 << 31) - 1) * ((1 << 25) - 1), 1 << 40]
    for shape, bits, low in ((TINY, 32, 8), (DUAL, 48, 16)):
        frame = NpuChip(shape, {HERE: multiplied(shape, pairs)}).frame()
        frame.run()
        found = frame.memory(HERE)

        def wrapped(number: int, bits: int) -> int:
            return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

        for at, product in enumerate(products):
            assert found["ACC"][at].tolist() == [wrapped(product, bits)] * 4
            assert found["OUT"][at].tolist() == [wrapped(product, low)] * 4


def test_a_source_that_stays_multiplies_all_pixels() -> None:
    pairs = [(number, 3 * number + 2) for number in range(5)]
    frame = NpuChip(TINY, {HERE: multiplied(TINY, pairs, src_in=0)}).frame()
    frame.run()
    assert frame.memory(HERE)["ACC"][:5, 0].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(("acc", "inp", "fields", "early"), [
    (0, 32, {"dst_in": 0}, 0),
    (1, 0, {}, 1),  # the source is the entry before
    (1, 1, {}, None),
])  # fmt: skip
def test_products_are_not_used_early(
    acc: int, inp: int, fields: dict[str, int], early: int | None
) -> None:
    program = multiplied(TINY, [(1, 1)] * 3, **fields)
    program.micro_ops[0, :2] = acc, inp
    frame = NpuChip(TINY, {HERE: program}).frame()
    if early is None:
        frame.run()
        return
    said = rf"\(ALU.MUL\): uses accumulator {early} again before its result is written"
    with pytest.raises(ChipError, match=said):
        frame.run()
