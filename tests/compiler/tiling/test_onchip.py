"""Tiling of maps in a core's own memory, by search or fixed rule: results never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from mapper.cli.main import main
from mapper.compiler.ir.node import Add, Pool, Window
from mapper.compiler.settings import CompileSettings
from mapper.compiler.tiling.onchip import Limits, chosen
from mapper.compiler.tiling.tile_pipeline import CutChoice, Pipeline, TileCost
from mapper.compiler.tiling.tiles import Cut, fits, fixed_cut, largest_cut
from mapper.errors import DoesNotFitError, UsageError
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE, Made, compared, compiled

pytestmark = pytest.mark.jit

EXTERNAL = NpuShape("external", map_vectors=0, instructions=0, weight_words=4096)


def network(seed: int = 4) -> Builder:
    build = Builder(20, 18, 20, seed)
    first = build.pool(build.conv(build.input, 40), Pool("max", Window((2, 2), (2, 2))))
    summed = build.like(Add(), build.relu(build.conv(first, 40)), first)
    build.end(build.conv(summed, 12, Window((10, 9))))
    return build


def cycles(made: Made) -> int:
    return made.compiled.code.timeline.cycles


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_schedules_change_cycles_and_no_result() -> None:
    """A38: the search is never slower than a rule; every option gives the reference's bytes."""
    asked: list[dict[str, Any]] = [
        {},
        {"schedule": "rows"},
        {"schedule": "plane8"},
        {"schedule": "plane16"},
        {"first_tile": (4, 3)},
        {"schedule": "rows", "first_tile": (4, 3)},
    ]
    found, values = [], []
    for settings in asked:
        build = network()
        made = compiled(build, SHAPE, **settings)
        assert {one.differences for one in compared(build, made)} == {0}
        found.append(cycles(made))
        values.append([t.value for t in made.compiled.graph.tensors() if t.value is not None])
    assert all(found[0] < other for other in found[1:4])
    assert len(set(found)) >= 4
    for other in values[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(values[0], other, strict=True))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_fixed_rules_by_hand() -> None:
    build = network()
    macro = compiled(build).compiled.macros[0]
    assert fixed_cut("rows", macro, SHAPE)[:4] == (10, 9, 1, 1)
    assert fixed_cut("plane8", macro, SHAPE)[:4] == (8, 8, 1, 1)
    few = NpuShape("few", entries=260)
    assert fixed_cut("rows", macro, few)[:4] == (2, 9, 1, 1)  # 36 sums per row, and 9 pooled
    assert fixed_cut("plane16", macro, few)[:4] == (2, 9, 1, 1)
    assert fits(macro, few, Cut(2, 9, 1, 1, (1, 1)))
    assert not fits(macro, few, Cut(3, 9, 1, 1, (1, 1)))


def test_first_tiles_that_do_not_fit() -> None:
    with pytest.raises(DoesNotFitError, match="tiles of 18x10 do not fit in half of the buffers"):
        compiled(network(), NpuShape("few", entries=96), first_tile=(18, 10))
    with pytest.raises(UsageError, match="--first-tile is 0x4"):
        CompileSettings(first_tile=(0, 4))
    with pytest.raises(SystemExit):
        main(["compile", "model.onnx", "--chip", "1x1", "--first-tile", "8"])


def tile(load: int, matrix: int, alu: int, store: int) -> TileCost:
    return TileCost(load, matrix, alu, store, 1, 4, 9)


def test_timing_of_consecutive_tiles() -> None:
    """Two layers by hand: the second one's load waits for the row that it reads."""
    cut = Cut(1, 4, 1, 1, (1, 1))
    first = CutChoice(cut, [tile(10, 20, 5, 3)] * 3, 1, [(1,), (2,), (3,)])
    second = CutChoice(cut, [tile(4, 1, 1, 1)], 1, [(2,)])
    empty = Pipeline.empty(2)
    state = empty.stop(0, first, [-1], [first, second])
    # loads end in cycles 10, 20 and, when the half is free, 40; products in 30, 50, 70
    assert state.free == (40, 70, 75, 78)
    assert state.rows[0] == (38, 58, 78)
    after = state.stop(1, second, [0], [first, second])
    assert after.free == (62, 71, 76, 79)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_memories_limit_the_choice() -> None:
    """A faster cut is rejected if its instructions or micro-ops do not fit."""
    made = compiled(network()).compiled
    macro = made.macros[0]
    cut = largest_cut(macro, SHAPE)
    slow = CutChoice(cut, [TileCost(9, 90, 9, 9, 1, 4, 10)], 1, [(1,)])
    fast = CutChoice(cut, [TileCost(9, 50, 9, 9, 1, 8, 30)], 1, [(1,)])
    for limits, wanted in (((8, 30), fast), ((7, 30), slow), ((8, 29), slow), ((1, 1), slow)):
        assert chosen([macro], [[slow, fast]], Limits(*limits)) == [wanted]
    # the fast one and the slow one after it do not fit together, but two other ones do
    few = CutChoice(cut, [TileCost(9, 95, 9, 9, 1, 4, 5)], 1, [(1,)])
    assert chosen([macro] * 2, [[fast, slow, few], [slow, few]], Limits(99, 16)) == [slow, few]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_early_rows_are_rewarded() -> None:
    """High tiles take fewer cycles; with a lag, low ones win, because later layers can start
    earlier.
    """
    macro = compiled(network()).compiled.macros[0]
    cut = largest_cut(macro, SHAPE)
    high = CutChoice(cut, [tile(40, 100, 40, 40)], 1, [(1,)])
    low = CutChoice(cut, [tile(12, 28, 12, 12)] * 4, 1, [(1,)] * 4)
    wide = CutChoice(cut, [tile(12, 28, 12, 12)] * 4, 2, [(1,)] * 4)
    assert (high.row_cycles, low.row_cycles, wide.row_cycles) == (100, 28, 56)
    slow = CutChoice(cut, [tile(12, 60, 12, 12)] * 4, 1, [(1,)] * 4)
    assert chosen([macro], [[high, slow]], Limits(99, 99)) == [high]
    assert chosen([macro], [[high, slow]], Limits(99, 99, 2.0)) == [slow]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_programs_stay_within_the_small_memories() -> None:
    tight = NpuShape("tight", instructions=100, micro_ops=560, weight_words=4096)
    made = compiled(network(), tight)
    assert len(made.compiled.code.program) <= 100
    assert len(made.compiled.code.tables.micro_ops) <= 560
    assert cycles(made) >= cycles(compiled(network()))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_external_memory_is_shared() -> None:
    """Loads and stores of all tiles are sequential, independent of the units."""
    cut = Cut(1, 4, 1, 1, (1, 1))
    layer = CutChoice(cut, [tile(30, 20, 5, 30)] * 4, 1, [(1,)] * 4)
    ends = [Pipeline.empty(1, shared).stop(0, layer, [-1], [layer]).end for shared in (False, True)]
    assert ends == [4 * 30 + 20 + 5 + 30, 4 * (30 + 30)]
    for schedule in ("search", "rows"):
        build = network()
        made = compiled(build, EXTERNAL, schedule=schedule)
        assert {one.differences for one in compared(build, made)} == {0}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_weights_that_enter_row_by_row() -> None:
    """A39: a port of a sixteenth of the width gives the same bytes.

    Planes of fewer pixels than rows take more cycles.
    """
    found = []
    for port in ("word", "row"):
        build = network()
        made = compiled(build, NpuShape("port", weight_port=port, weight_words=4096))
        assert {one.differences for one in compared(build, made)} == {0}
        found.append(cycles(made))
    assert found[0] < found[1]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "sizes",
    [
        {"rows": 8, "columns": 8, "multiply_lanes": 2, "load_bits": 64},
        {"rows": 16, "columns": 16, "entries": 512, "input_vectors": 640, "queue_places": 3},
        {"rows": 32, "columns": 32, "multiply_lanes": 16, "load_bits": 512, "token_bits": 12},
    ],
)
def test_cores_of_any_size(sizes: dict[str, int]) -> None:
    """C16: programs support the sizes that a shape names."""
    build = network()
    many = {"weight_words": 4096, "map_vectors": 1 << 14}
    made = compiled(build, NpuShape("sized", **(many | sizes)))  # type: ignore[arg-type]
    assert {one.differences for one in compared(build, made)} == {0}


@pytest.mark.parametrize(
    ("name", "value"),
    [("rows", 0), ("columns", 65), ("entries", 1), ("load_bits", 4), ("queue_places", 0),
     ("loop_overhead", -1), ("multiplier", "int4"), ("weight_port", "wide"),
     ("multiply_lanes", 17), ("binary", 1)],
)  # fmt: skip
def test_sizes_out_of_range_are_named(name: str, value: object) -> None:
    """C16"""
    with pytest.raises(ChipError, match=f"npu odd: {name} is {value!r}"):
        NpuShape("odd", **{name: value})  # type: ignore[arg-type]
