"""Parts of layers compute the parts of maps of whole layers."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Pool, Product, Window
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.multicore.slices import Held, can_split_blocks, slice_macro
from mapper.compiler.numerics.execute import Data, run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import DoesNotFitError
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE, compiled

pytestmark = pytest.mark.jit


def gated() -> Builder:
    """A map that one pixel scales."""
    build = Builder(7, 5, 4)
    data = build.conv(build.input, 35)
    gate = build.pool(data, Pool("average", Window((7, 5))))
    build.end(build.conv(build.like(Product(), data, gate), 3, Window((1, 1))))
    return build


def some(length: int, rng: np.random.Generator) -> Span:
    first = int(rng.integers(0, length))
    return Span(first, int(rng.integers(first + 1, length + 1)))


def part(data: Data, held: Held) -> Data:
    return data[:, slice(*held.rows), :, slice(*held.channels)]


def made(macro: Macro, feeds: dict[Tensor, Data]) -> dict[Tensor, Data]:
    """Return the stored maps of a macro node, computed node by node by the reference."""
    values = dict(feeds)
    nodes = [] if macro.windows is None else [macro.windows]
    nodes += macro.nodes + ([] if macro.sign is None else [macro.sign])
    for node in nodes:
        inputs = [values[one] if one.value is None else one.value for one in node.inputs]
        values[node.output] = INTEGER(node, inputs)  # type: ignore[assignment]
    values |= dict.fromkeys(macro.copies, values[macro.output])
    return values


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(21))
def test_parts_of_random_layers(seed: int) -> None:
    """Random rows and blocks of each layer of a network equal the whole layer.

    The parts of inputs that it names are sufficient.
    """
    rng = np.random.default_rng(seed)
    build = random_network(seed) if seed < 20 else gated()
    try:
        one = compiled(deepcopy(build), SHAPE, few_channels=("core", "off")[seed % 2])
    except DoesNotFitError as error:
        pytest.skip(str(error))
    graph, macros = one.compiled.graph, one.compiled.macros
    wanted = list(dict.fromkeys(t for macro in macros for t in (*macro.inputs, *macro.outputs)))
    inputs = {
        view.tensor: rng.integers(-128, 128, view.tensor.shape) for view in graph.inputs.values()
    }
    values = run_graph(graph, inputs, INTEGER, wanted)
    for macro in macros:
        extent = extent_of(macro, SHAPE)
        for _ in range(4):
            rows, blocks = some(extent.rows, rng), Span(0, extent.blocks)
            if can_split_blocks(macro) and extent.share == 1:
                blocks = some(extent.blocks, rng)
            piece = slice_macro(macro, rows, blocks, SHAPE.columns)
            feeds = {each.part: part(values[each.whole], each.held) for each in piece.inputs}
            found = made(piece.macro, feeds)
            for each in piece.outputs:
                assert each.part.shape == found[each.part].shape
                assert np.array_equal(found[each.part], part(values[each.whole], each.held))
