"""Max pooling of sums: the same integers, with fewer requantisations."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Conv, Node, Pool, Requantise, Window
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import multiplier
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context, sweep
from mapper.compiler.transforms.pool_first import POOL_FIRST

POOL = Pool("max", Window((2, 2), (2, 2)))


def network(factor: Multiplier, negative: Multiplier | None = None, pool: Pool = POOL) -> Graph:
    """Return a convolution of three channels into four, requantised, and pooled."""
    random = np.random.default_rng(2)
    weights = random.integers(-127, 128, (4, 3, 3, 3))
    x = Tensor("x", (1, 8, 9, 3), "int8", 0.1, 3, stored=True)
    sums = Tensor("sums", (1, 6, 7, 4), "int32")
    made = Tensor("made", (1, 6, 7, 4), "int8", 0.2, -4, stored=True)
    rows, columns = pool.window.results(6, 7)
    pooled = Tensor("pooled", (1, rows, columns, 4), "int8", 0.2, -4, stored=True)
    constants = [
        Tensor("weights", weights.shape, "int8", value=weights),
        Tensor("bias", (4,), "int32", value=random.integers(-999, 999, 4)),
    ]
    how = Requantisation(factor, -4, -128, 127, negative=negative)
    graph = Graph()
    graph.inputs["x"] = View(x, shape=(1, 3, 8, 9))
    graph.nodes = [
        Node(Conv(Window((3, 3))), [x, *constants], [sums], ("conv",)),
        Node(Requantise(how), [sums], [made], ("conv",)),
        Node(pool, [made], [pooled], ("pool",)),
    ]
    graph.outputs["y"] = View(pooled, shape=(1, 4, rows, columns))
    return graph


def results(graph: Graph) -> np.ndarray:
    x = np.random.default_rng(3).integers(-128, 128, (5, 8, 9, 3))
    ((_, taken),), ((_, made),) = graph.inputs.items(), graph.outputs.items()
    return run_graph(graph, {taken.tensor: x}, INTEGER, [made.tensor])[made.tensor]


FACTOR = multiplier(np.array([0.01, 0.002, 0.0, 0.05]), "here")


@pytest.mark.parametrize("negative", [None, multiplier(np.array([0.001, 0, 0, 0.05]), "here")])
def test_a11_pooling_moves_first(negative: Multiplier | None) -> None:
    """ReLU and leaky slopes of at least 0; a quarter of the elements is requantised."""
    plain = network(FACTOR, negative)
    graph = deepcopy(plain)
    context = Context()
    assert sweep(POOL_FIRST, graph, context)
    (line,) = context.log.lines
    assert line.startswith(
        "pool-first: pool 'pool': before the requantisation of requantise 'conv';"
    )
    assert line.endswith("about 66 cycles and 0 bytes less")  # 42 - 9 vectors, two cycles each
    assert [node.kind for node in graph.nodes] == ["conv", "pool", "requantise"]
    assert np.array_equal(results(graph), results(plain))
    before, after = (
        next(node.output for node in one.nodes if node.kind == "requantise")
        for one in (plain, graph)
    )
    assert np.prod(after.shape) * 4 <= np.prod(before.shape)


@pytest.mark.parametrize(
    "graph",
    [
        network(multiplier(np.array([0.01, -0.002, 0.1, 0.1]), "here")),
        network(FACTOR, multiplier(np.float64(-0.1), "here")),
        network(FACTOR, pool=Pool("max", Window((3, 3), (1, 1), Pad(1, 1, 1, 1)))),
        network(FACTOR, pool=Pool("average", Window((2, 2), (2, 2)))),
    ],
    ids=["falling", "falling below zero", "padded", "mean"],
)
def test_a11_pooling_is_kept_where_it_changes_results(graph: Graph) -> None:
    assert not sweep(POOL_FIRST, graph, Context())
    assert [node.kind for node in graph.nodes] == ["conv", "requantise", "pool"]
