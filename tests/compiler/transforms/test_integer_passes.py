"""Passes over integer graphs: applied where they are legal, with bit-identical results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Pool, Slice, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context, Pass, Taken, sweep
from mapper.compiler.transforms.concat import CONCAT
from mapper.compiler.transforms.siblings import SIBLINGS
from mapper.compiler.transforms.split_groups import SPLIT_GROUPS, block_diagonal, join_groups
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import DUAL, SHAPE, WIDE, compared, compiled
from tests.compiler.quantisation.test_convert import quantised

POINT = Window((1, 1))
HALF = Pool("max", Window((2, 2), (2, 2)))


class Fewer:
    """A trial in which one convolution is better than two, and nothing else differs."""

    def __call__(self, nodes: object, results: object) -> Taken:
        convolutions = [one for one in nodes if isinstance(one.operator, Conv)]  # type: ignore[attr-defined]
        return Taken(100 * len(convolutions), 10 * len(convolutions))


def swept(one: Pass, graph: Graph, context: Context) -> list[str]:
    """Run a pass; return its log."""
    sweep(one, graph, context)
    return context.log.lines


def join_siblings(graph: Graph, context: Context | None = None) -> list[str]:
    return swept(SIBLINGS, graph, context or Context(trial=Fewer()))


def concatenate_last(graph: Graph) -> list[str]:
    return swept(CONCAT, graph, Context(trial=Fewer()))


def place_groups(graph: Graph, split: bool = True) -> list[str]:
    context = Context()
    if split:
        sweep(SPLIT_GROUPS, graph, context)
    join_groups(graph, context)
    return context.log.lines


def same(build: Builder, change: Callable[[Graph], list[str]], changed: bool = True) -> Graph:
    """Quantise a network, and compare its results with the changed network, to the bit."""
    made = quantised(build).graph
    (view,), (wanted,) = made.inputs.values(), made.outputs.values()
    random = np.random.default_rng(5)
    feeds = {view.tensor: random.integers(-128, 128, (2, *view.tensor.shape[1:]))}
    before = run_graph(made, feeds, INTEGER, [wanted.tensor])[wanted.tensor]
    lines = change(made)
    assert bool(lines) == changed, lines
    (wanted,) = made.outputs.values()
    np.testing.assert_array_equal(
        run_graph(made, feeds, INTEGER, [wanted.tensor])[wanted.tensor], before
    )
    return made


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph.nodes]


def inception(channels: tuple[int, int, int] = (16, 24, 8), seed: int = 3) -> Builder:
    """Build branches of 1x1 and 3x3 kernels on one map, two of them with a layer after, joined."""
    build = Builder(9, 7, 8, seed)
    first = build.relu(build.conv(build.input, 16))
    one = build.relu(build.conv(first, channels[0], POINT))
    other = build.relu(build.conv(first, channels[1]))
    third = build.relu(build.conv(first, channels[2], POINT))
    stop = build.relu(build.conv(third, 16))
    whole = build.concat(build.conv(one, 16), build.conv(other, 16), stop)
    build.end(build.conv(whole, 8, POINT))
    return build


def fire() -> Builder:
    """Build branches that are concatenated directly."""
    build = Builder(9, 7, 8, 4)
    first = build.relu(build.conv(build.input, 16))
    other = build.relu(build.conv(first, 24))
    one = build.relu(build.conv(first, 8, POINT))
    build.end(build.conv(build.concat(one, other), 8, POINT))
    return build


def test_a09_siblings_become_one_convolution() -> None:
    """A09: one convolution, then split: parts begin at blocks."""
    made = same(inception(), join_siblings)
    joined = [node for node in made.nodes if node.kind == "conv"][1]
    assert joined.inputs[1].shape == (24, 1, 1, 16)
    slices = [node.operator for node in made.nodes if isinstance(node.operator, Slice)]
    assert [one.first for one in slices] == [0, 16]


def test_a09_siblings_of_one_concatenation_are_not_split() -> None:
    """A09: 1x1 kernels are at the centre of 3x3, stacked on output channels; no split."""
    made = same(fire(), join_siblings)
    assert kinds(made).count("conv") == 3
    assert "slice" not in kinds(made)
    (both,) = (node for node in made.nodes if node.kind == "concat")
    assert [one.channels for one in both.inputs] == [32]
    joined = [node for node in made.nodes if node.kind == "conv"][1]
    value = joined.inputs[1].value
    assert value is not None
    assert value.shape == (32, 3, 3, 16)
    assert not np.delete(value[:8].reshape(8, 9, 16), 4, axis=1).any()
    assert np.delete(value[8:].reshape(24, 9, 16), 4, axis=1).any(axis=(1, 2)).all()


def unlike(case: str) -> Builder:
    """Build two convolutions on a map that cannot be joined."""
    build = Builder(9, 9, 8)
    first = build.relu(build.conv(build.input, 16))
    windows = {
        "stride": (SAME, Window((3, 3), (2, 2), Pad(1, 1, 1, 1))),
        "padding": (SAME, Window((1, 1), pad=Pad(1, 1, 1, 1))),
        "even": (Window((2, 2)), POINT),
        "dilation": (SAME, Window((3, 3), pad=Pad(2, 2, 2, 2), dilation=(2, 2))),
    }
    a, b = windows.get(case, (SAME, SAME))
    groups, channels = (2 if case == "groups" else 1), (24 if case == "blocks" else 16)
    one = build.relu(build.conv(first, channels, a, groups))
    other = build.conv(first, channels, b)
    other = other if case == "clipped" else build.relu(other)
    ends = [build.conv(tensor, 16) for tensor in (one, other)]
    pooled = [build.pool(end, Pool("max", Window((end.height, end.width)))) for end in ends]
    build.end(build.concat(*pooled))
    return build


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "case", ["stride", "padding", "even", "dilation", "groups", "blocks", "clipped"]
)
def test_a09_convolutions_that_cannot_be_joined(case: str) -> None:
    same(unlike(case), join_siblings, changed=False)


def test_a09_dilated_and_1x1_kernels() -> None:
    build = Builder(9, 9, 8)
    first = build.relu(build.conv(build.input, 16))
    wide = Window((3, 3), pad=Pad(2, 2, 2, 2), dilation=(2, 2))
    one = build.relu(build.conv(first, 24, wide))
    other = build.relu(build.conv(first, 8, POINT))
    build.end(build.conv(build.concat(other, one), 8))
    made = same(build, join_siblings)
    joined = [node for node in made.nodes if node.kind == "conv"][1]
    assert isinstance(joined.operator, Conv)
    assert joined.operator.window == wide


def test_a09_joining_without_gain_or_room_is_skipped() -> None:
    def never(*_: object) -> Taken:
        return Taken(1, 1)

    same(inception(), lambda graph: join_siblings(graph, Context(trial=never)), changed=False)
    lines: list[str] = []
    full = Context(trial=Fewer(), fits=lambda _: False)
    made = same(inception(), lambda graph: lines.extend(join_siblings(graph, full)) or lines)
    assert all("feature memory" in line for line in lines)
    assert "slice" not in kinds(made)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("network", "shape"),
    [(inception, SHAPE), (inception, DUAL), (fire, SHAPE), (fire, WIDE)],
    ids=["inception", "inception, dual", "fire", "fire, wide"],
)
def test_a09_joined_siblings_on_cores(network: Callable[[], Builder], shape: NpuShape) -> None:
    """A09: the cost model decides; programs of joined convolutions give the reference's bytes."""
    build = network()
    made = compiled(build, shape)
    lines = [line for line in made.compiled.log if line.startswith("siblings: ")]
    assert lines
    assert "cycles" in lines[0]
    assert {one.differences for one in compared(build, made)} == {0}
    verify_compiled(made.folder)


def pooled(axis: int = 3, both: bool = False) -> Builder:
    """Build two layers, concatenated, pooled, and clipped afterwards."""
    build = Builder(8, 8, 8, 2)
    parts = [build.relu(build.conv(build.input, 16)) for _ in range(2)]
    whole = build.concat(*parts, axis=axis)
    made = build.conv(build.relu(build.pool(whole, HALF)), 8, POINT)
    if both:
        made = build.concat(made, build.pool(build.conv(whole, 8, POINT), HALF))
    build.end(made)
    return build


def test_a10_concatenation_moves_after_pooling_and_activation() -> None:
    """A10: concat(a, b) -> max pooling = concat(max pooling a, max pooling b)."""
    made = same(pooled(), concatenate_last)
    order = kinds(made)
    assert order.count("pool") == 2
    assert order.index("concat") > max(at for at, kind in enumerate(order) if kind == "pool")


@pytest.mark.parametrize("axis", [1, 2])
def test_a10_concatenation_of_rows_and_columns_is_kept(axis: int) -> None:
    """A10: rejected for height and width."""
    same(pooled(axis), concatenate_last, changed=False)


def test_a10_concatenation_with_other_users_is_kept() -> None:
    same(pooled(both=True), concatenate_last, changed=False)


def test_a10_concatenation_of_parts_with_other_users_is_kept() -> None:
    build = Builder(8, 8, 8, 2)
    one, other = (build.relu(build.conv(build.input, 16)) for _ in range(2))
    halves = [build.pool(build.concat(one, other), HALF), build.pool(build.conv(one, 16), HALF)]
    build.end(build.conv(build.concat(*(build.conv(half, 16) for half in halves)), 8))
    same(build, concatenate_last, changed=False)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_a10_pooled_parts_run_with_their_layers() -> None:
    build = pooled()
    made = compiled(build)
    assert any(line.startswith("concat: ") for line in made.compiled.log)
    assert {one.differences for one in compared(build, made)} == {0}
    verify_compiled(made.folder)
    assert all(macro.conv is not None for macro in made.compiled.macros)


def grouped(groups: int, channels: int) -> Builder:
    build = Builder(7, 7, 8, 6)
    first = build.relu(build.conv(build.input, channels))
    build.end(build.conv(build.relu(build.conv(first, channels, SAME, groups)), 8, POINT))
    return build


@pytest.mark.parametrize(
    ("groups", "channels", "form"), [(2, 64, "18 -> "), (2, 16, "one convolution"), (4, 48, "")]
)
def test_groups_by_blocks_or_as_one_convolution(groups: int, channels: int, form: str) -> None:
    """split-groups: with 2 groups of 32 channels, each output block reads 2 of 4 input blocks."""
    lines: list[str] = []

    def change(graph: Graph) -> list[str]:
        lines.extend(place_groups(graph))
        return lines

    made = same(grouped(groups, channels), change)
    whole = same(grouped(groups, channels), lambda graph: place_groups(graph, split=False))
    assert all(node.operator.groups == 1 for node in whole.nodes if isinstance(node.operator, Conv))
    (line,) = lines
    if form == "18 -> ":
        assert "2 groups by blocks, 144 -> 72 calls per pixel; about 3,528 cycles" in line
        assert any(
            node.operator.groups == 2 for node in made.nodes if isinstance(node.operator, Conv)
        )
    else:
        assert form in line


def test_depthwise_kernels_keep_their_unit() -> None:
    same(grouped(16, 16), lambda graph: place_groups(graph, split=False), changed=False)


def test_block_diagonal_kernels() -> None:
    weights = np.arange(1, 9).reshape(4, 1, 1, 2)
    expected = [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 5, 6], [0, 0, 7, 8]]
    assert block_diagonal(weights, 2).reshape(4, 4).tolist() == expected
