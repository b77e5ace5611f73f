"""Changed graphs as programs: the same results as the reference, in fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Pool, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.padding import outer
from mapper.compiler.memory.regions import Place, lanes_of, share
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from tests.compiler.graph_text import parse
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import DUAL, SHAPE, WIDE, compared, compiled

NPU = NPU_SHAPES["npu"]
POINT = Window((1, 1))
FIVE = Window((5, 5), (1, 1), Pad(2, 2, 2, 2))
HALF = Pool("max", Window((2, 2), (2, 2)))
THIRD = Pool("max", Window((3, 3), (3, 3)))


def inception() -> Builder:
    """Build branches of 1x1 and 3x3 kernels on one map, two of them with a layer after, joined."""
    build = Builder(9, 7, 8, 3)
    first = build.relu(build.conv(build.input, 16))
    one = build.relu(build.conv(first, 16, POINT))
    other = build.relu(build.conv(first, 24))
    third = build.relu(build.conv(first, 8, POINT))
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


def pooled() -> Builder:
    """Build two layers, concatenated, pooled, and clipped afterwards."""
    build = Builder(8, 8, 8, 2)
    whole = build.concat(*(build.relu(build.conv(build.input, 16)) for _ in range(2)))
    build.end(build.conv(build.relu(build.pool(whole, HALF)), 8, POINT))
    return build


def two_layers(
    size: tuple[int, int], outputs: tuple[int, int], first: Window, pool: Pool
) -> Builder:
    """Build two convolutions of a map of one channel, with pooling between and after them."""
    build = Builder(*size, 1, 3)
    made = build.pool(build.relu(build.conv(build.input, outputs[0], first)), pool)
    made = build.pool(build.relu(build.conv(made, outputs[1], FIVE)), HALF)
    build.end(build.conv(made, 5, POINT))
    return build


FOLDED = {
    "two columns": partial(two_layers, (12, 16), (8, 16), FIVE, HALF),
    "four columns": partial(two_layers, (12, 48), (4, 32), SAME, THIRD),
}


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "build", "shape", "padding"),
    [
        *(("siblings", inception, shape, "load") for shape in (SHAPE, DUAL)),
        *(("siblings", fire, shape, "load") for shape in (SHAPE, WIDE)),
        ("concat", pooled, SHAPE, "load"),
        *(("fold", one, NPU, way) for one in FOLDED.values() for way in ("load", "stored")),
    ],
)
def test_a09_a10_changed_graphs_on_cores(
    name: str, build: Callable[[], Builder], shape: NpuShape, padding: str
) -> None:
    """R4.1, R7.3: the cost model decides; programs give the reference's bytes, in fewer cycles."""
    network = build()
    made = compiled(network, shape, padding=padding)
    lines = [line for line in made.compiled.log if line.startswith(f"{name}: ")]
    assert lines
    assert "cycles" in lines[0]
    assert {one.differences for one in compared(network, made)} == {0}
    verify_compiled(made.folder)
    if name == "concat":
        assert all(macro.conv is not None for macro in made.compiled.macros)
    if name == "fold":
        without = compiled(network, shape, padding=padding, off=("fold",)).compiled
        assert made.compiled.code.timeline.cycles < without.code.timeline.cycles
        assert not any(node.kind == "unfold" for node in without.graph.nodes)


def test_columns_of_a_pixel_are_pixels_of_the_same_region() -> None:
    """A15: no data moves; a row stays a row, and each column begins at a vector."""
    graph = parse("""
        input x int8[2,3,32]
        unfold y <- x  count=2
        conv z <- y, w(1,3,3,16), b(1)  pad=1
    """)
    data, made = graph.nodes[0].inputs[0], graph.nodes[0].output
    numbers = np.arange(2 * 3 * 32).reshape(1, 2, 3, 32)
    found = run_graph(graph, {data: numbers}, INTEGER, [made])[made]
    np.testing.assert_array_equal(found[0, :, 1::2], numbers[0, :, :, 16:])
    places = share(graph, lanes_of(NPU), CompileLog())
    assert places == {made: Place(data, columns=2)}
    assert outer(Pad(1, 1, 1, 1), made, places[made]) == Pad()
