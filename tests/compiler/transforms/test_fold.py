"""Several columns in the channels of a pixel: the same results to the bit, in fewer cycles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node, Pool, Unfold, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.padding import outer
from mapper.compiler.memory.regions import Place, lanes_of, share
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context, Taken, Trial
from mapper.compiler.transforms.fold import FOLD
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import compared, compiled
from tests.compiler.transforms.test_integer_passes import kinds, same, swept

SHAPE = NPU_SHAPES["npu"]
FIVE = Window((5, 5), (1, 1), Pad(2, 2, 2, 2))
VALID = Window((3, 3))
HALF = Pool("max", Window((2, 2), (2, 2)))
THIRD = Pool("max", Window((3, 3), (3, 3)))


class Calls:
    """A trial that counts only matrix calls."""

    def __call__(self, nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken:
        found = 0
        for node in nodes:
            if isinstance(node.operator, Conv):
                outputs, kh, kw, inputs = node.inputs[1].shape
                blocks = -(-outputs // 16) * -(-inputs // 16)
                found += node.output.height * node.output.width * kh * kw * blocks
        return Taken(found, 0)


def weighing(trial: Trial) -> Context:
    return Context(SHAPE, trial, few_channels="off")


def fold(graph: Graph) -> list[str]:
    return swept(FOLD, graph, weighing(Calls()))


def two_layers(
    size: tuple[int, int], first: tuple[int, Window], pool: Pool | None,
    second: tuple[int, Window], stop: Pool | None = HALF, channels: int = 3,
) -> Builder:  # fmt: skip
    """Build two convolutions, with pooling between and after them."""
    build = Builder(*size, channels, 3)
    made = build.relu(build.conv(build.input, *first))
    made = made if pool is None else build.pool(made, pool)
    made = build.relu(build.conv(made, *second))
    made = made if stop is None else build.pool(made, stop)
    build.end(build.conv(made, 5, Window((1, 1))))
    return build


NETWORKS = {
    "two columns, pooled": two_layers((12, 16), (8, FIVE), HALF, (16, FIVE), channels=1),
    "not pooled": two_layers((7, 8), (8, SAME), None, (16, SAME)),
    "four columns, pooled by three": two_layers((12, 48), (4, SAME), THIRD, (32, FIVE), channels=1),
    "no padding": two_layers((14, 18), (8, VALID), HALF, (16, VALID)),
    "kernel of even size, uneven pads": two_layers(
        (8, 16), (8, Window((2, 4), (1, 2), Pad(1, 0, 2, 0))), None,
        (16, Window((3, 2), (1, 1), Pad(1, 1, 1, 0))),
    ),
    "stride of the second layer": two_layers(
        (8, 16), (8, SAME), None, (10, Window((3, 3), (2, 2), Pad(1, 1, 1, 1))), None
    ),
    "a layer as large as its map": two_layers(
        (4, 16), (8, SAME), HALF, (20, Window((2, 8))), None
    ),
    "one channel, sixteen columns": two_layers((4, 32), (1, SAME), None, (16, SAME)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_folded_layers_give_the_same_results(name: str) -> None:
    """R4.1: with and without the pass, to the bit."""
    same(NETWORKS[name], fold)


def test_literal_kernels_of_two_columns() -> None:
    """5x5 kernels with 2x2 pooling between: 5x8 kernels for two blocks of two columns.

    Then 5x3 kernels, whose blocks compute an even and an odd column.
    """
    made = same(NETWORKS["two columns, pooled"], fold)
    assert kinds(made)[:7] == [
        "conv",
        "requantise",
        "unfold",
        "pool",
        "conv",
        "requantise",
        "unfold",
    ]
    first, second = (node for node in made.nodes[:5] if isinstance(node.operator, Conv))
    assert first.inputs[1].shape == (32, 5, 8, 1)
    assert (first.operator, first.output.shape) == (
        Conv(Window((5, 8), (1, 4), Pad(2, 2, 2, 2))), (1, 12, 4, 32),
    )  # fmt: skip
    assert second.inputs[1].shape == (32, 5, 3, 16)
    assert (second.operator, second.output.shape) == (
        Conv(Window((5, 3), (1, 1), Pad(2, 2, 1, 1))), (1, 6, 4, 32),
    )  # fmt: skip
    weights = second.inputs[1].value
    assert weights is not None
    even, odd = weights[:16], weights[16:]
    assert not even[:, :, 2, 8:].any()  # after the fifth column
    assert not odd[:, :, 0, :8].any()  # before the first one


REFUSED = {
    "the width is not a multiple": two_layers((8, 14), (8, SAME), HALF, (16, SAME)),
    "six channels": two_layers((8, 16), (6, SAME), None, (16, SAME)),
    "sixteen channels": two_layers((8, 16), (16, SAME), None, (16, SAME)),
    "results end inside of a block": two_layers((8, 16), (8, SAME), None, (10, SAME)),
    "windows of pooling overlap": two_layers(
        (9, 17), (8, SAME), Pool("max", Window((3, 3), (2, 2))), (16, SAME), None
    ),
    "a mean": two_layers((8, 16), (8, SAME), Pool("average", HALF.window), (16, SAME)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_illegal_folds_are_kept(name: str) -> None:
    same(REFUSED[name], fold, changed=False)


def test_a_map_with_other_users_is_kept() -> None:
    build = Builder(8, 16, 3)
    first = build.relu(build.conv(build.input, 8))
    build.end(build.concat(build.relu(build.conv(first, 16)), first))
    same(build, fold, changed=False)


@pytest.mark.parametrize("what", ["cycles", "memory"])
def test_folding_without_gain_or_room_is_skipped(what: str) -> None:
    if what == "cycles":
        how = weighing(lambda *_: Taken(7, 0))
    else:
        how = weighing(Calls())
        how.fits = lambda _: False
    made = same(NETWORKS["not pooled"], lambda graph: swept(FOLD, graph, how), changed=False)
    assert "unfold" not in kinds(made)


def test_columns_of_a_pixel_are_pixels_of_the_same_region() -> None:
    """A15: no data moves; a row stays a row, and each column begins at a vector."""
    data, made = Tensor("x", (1, 2, 3, 32), "int8"), Tensor("y", (1, 2, 6, 16), "int8")
    graph = Graph()
    node = Node(Unfold(2), [data], [made], ())
    graph.nodes = [node]
    numbers = np.arange(2 * 3 * 32).reshape(1, 2, 3, 32)
    found = run_graph(graph, {data: numbers}, INTEGER, [made])[made]
    np.testing.assert_array_equal(found[0, :, 1::2], numbers[0, :, :, 16:])
    graph.nodes += [Node(Conv(SAME), [made], [Tensor("z", (1, 2, 6, 1), "int32")], ())]
    places = share(graph, lanes_of(SHAPE), CompileLog())
    assert places == {made: Place(data, columns=2)}
    assert outer(Pad(1, 1, 1, 1), made, places[made]) == Pad()


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("padding", ["load", "stored"])
@pytest.mark.parametrize("name", ["two columns, pooled", "four columns, pooled by three"])
def test_folded_programs_are_valid_and_equal_the_reference(name: str, padding: str) -> None:
    """R4.1, R7.3: with padding by loads and with stored borders; in fewer cycles."""
    build = NETWORKS[name]
    made = compiled(build, SHAPE, padding=padding)
    without = compiled(build, SHAPE, padding=padding, off=("fold",))
    (line,) = (line for line in made.compiled.log if line.startswith("fold: "))
    assert "columns per pixel" in line
    assert {one.differences for one in compared(build, made)} == {0}
    verify_compiled(made.folder)
    assert made.compiled.code.timeline.cycles < without.compiled.code.timeline.cycles
    assert not any(node.kind == "unfold" for node in without.compiled.graph.nodes)


def test_trials_do_not_change_the_model() -> None:
    """A trial does not leave the map of the host in planes."""

    def change(graph: Graph) -> list[str]:
        return swept(FOLD, graph, Context(SHAPE, Calls(), few_channels="core"))

    made = same(NETWORKS["two columns, pooled"], change)
    (view,) = made.inputs.values()
    assert not view.tensor.planes
