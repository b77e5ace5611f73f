"""Fusion: operators after a layer on the same tile leave only the last map in memory."""

from __future__ import annotations

import pytest

from mapper.compiler.ir.node import Add, Pool, Requantise, Upsample, Window
from mapper.compiler.transforms.base import Context, sweep
from mapper.compiler.transforms.fuse import fuse
from mapper.compiler.transforms.pool_first import POOL_FIRST
from mapper.compiler.transforms.registry import optimise
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder
from tests.compiler.programs import Made, compared, compiled
from tests.compiler.quantisation.test_convert import quantised

HALF = Window((2, 2), (2, 2))


def network() -> Builder:
    """Build, after convolutions: an activation and a residual sum, pooling, and upsampling."""
    build = Builder(8, 8, 16)
    first = build.relu(build.conv(build.input, 16))
    summed = build.relu(build.like(Add(), build.conv(first, 16), first))
    pooled = build.pool(build.relu(build.conv(summed, 32)), Pool("max", HALF))
    small = build.conv(pooled, 16)
    build.end(build.node(Upsample(), [small], (8, 8, 16)))
    return build


def test_a07_operators_after_a_layer_are_one_macro_node() -> None:
    """A07: only the last result of each is stored."""
    build = network()
    optimise(build.graph)
    graph = quantised(build).graph
    sweep(POOL_FIRST, graph, Context())
    macros = fuse(graph)
    assert [[node.kind for node in macro.nodes] for macro in macros] == [
        ["conv", "requantise"],
        ["conv", "requantise", "add"],
        ["conv", "pool", "requantise"],
        ["conv", "requantise", "upsample"],
    ]
    for macro in macros:
        assert [node.output.stored for node in macro.nodes] == [False] * (len(macro.nodes) - 1) + [
            True
        ]


def stores(made: Made) -> int:
    """Return the number of vectors stored to memory."""
    found = [one.fields for one in made.compiled.code.program if one.op == "STORE"]
    return sum(one["c_size"] * one["y_size"] * one["x_size"] for one in found)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_a07_fewer_maps_get_memory_and_less_is_stored() -> None:
    """A07: with and without fusion, the results equal the reference."""
    found = []
    for off in ((), ("fuse",)):
        build = network()
        made = compiled(build, off=off)
        assert {one.differences for one in compared(build, made)} == {0}
        found.append((len(made.compiled.code.regions), stores(made)))
    (maps, vectors), (more_maps, more_vectors) = found
    assert (maps, more_maps) == (
        5,
        8,
    )  # with the input; without: the sum, the pooled, the upsampled
    assert vectors < more_vectors


@pytest.mark.parametrize("seed", range(12))
def test_a12_each_macro_node_requantises_once(seed: int) -> None:
    """A12: on the path to memory, from sums to stored integers."""
    build = random_network(seed)
    optimise(build.graph)
    graph = quantised(build).graph
    seen = set()
    for macro in fuse(graph):
        count = sum(isinstance(node.operator, Requantise) for node in macro.nodes)
        mean = isinstance(macro.nodes[0].operator, Pool) and macro.nodes[0].operator.kind != "max"
        assert count == int(macro.conv is not None or mean)
        assert macro.output.type == "int8"
        seen |= {id(node) for node in macro.nodes}
    assert seen == {id(node) for node in graph.nodes}
