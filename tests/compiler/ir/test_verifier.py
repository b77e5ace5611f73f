"""The verifier reports every broken rule of a graph, with its node or tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import (
    Clamp,
    Concat,
    Conv,
    Dense,
    DepthToSpace,
    Interleave,
    Node,
    Slice,
    Unfold,
    Upsample,
    Window,
)
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.verifier import faults, require_sound
from mapper.errors import MapperError
from tests.compiler.graph_text import parse


def small() -> Graph:
    """conv, requantise, pool, and a sum of two slices."""
    return parse("""
        input x int8[6,6,4]
        conv s <- x, w(8,3,3,4)=1 [c]
        requantise y <- s  factor=0.5 [c]
        pool p <- y  kind=max kernel=2 stride=2
        slice l int8[2,2,4] <- p
        slice r int8[2,2,4] <- p  first=4
        add z <- l, r [a]
    """)


def test_a_sound_graph() -> None:
    assert faults(small()) == []
    require_sound(small())


def swapped(graph: Graph) -> None:
    graph.nodes[1], graph.nodes[2] = graph.nodes[2], graph.nodes[1]


def twice(graph: Graph) -> None:
    graph.nodes.append(graph.nodes[5])


def output(at: int, **fields: Any) -> Callable[[Graph], None]:
    """Return a change of the result of a node."""

    def change(graph: Graph) -> None:
        for name, value in fields.items():
            setattr(graph.nodes[at].output, name, value)

    return change


def operator(at: int, made: Any) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        graph.nodes[at].operator = made

    return change


def bias(graph: Graph) -> None:
    graph.nodes[0].inputs.append(Tensor("b", (3,), "int32", value=np.zeros(3, np.int32)))


def result(**changes: Any) -> Callable[[Graph], None]:
    """Return a change of the view of the output."""
    return lambda graph: graph.outputs.update(z=graph.outputs["z"]._replace(**changes))


def constant(graph: Graph) -> None:
    graph.nodes[0].inputs[1] = replace(graph.nodes[0].inputs[1], shape=(8, 3, 3, 5))


def joined(graph: Graph) -> None:
    """Join maps of different scales."""
    left, right = graph.nodes[5].inputs
    right.scale = 2.0
    graph.nodes[5] = Node(Concat(2), [left, right], [Tensor("z", (1, 2, 4, 4), "int8")], ("j",))
    graph.outputs = {}


def phases(graph: Graph) -> None:
    """Interleave the columns of two maps, and lose one."""
    made = Tensor("z", (1, 2, 3, 4), "int8")
    graph.nodes[5] = Node(Interleave(1, 2), graph.nodes[5].inputs, [made], ("i",))
    graph.outputs = {}


CASES = {
    "order": (swapped, "reads 'y' before it is computed"),
    "producer": (twice, "computes 'z' again"),
    "missing": (result(tensor=Tensor("t", (1, 2, 2, 4))), "output 'z': no node computes 't'"),
    "view": (result(shape=(1, 4, 2, 3)), "z: view (1, 4, 2, 3) of a tensor (1, 2, 2, 4)"),
    "constant": (constant, "constant 'w': shape (8, 3, 3, 5), values (8, 3, 3, 4)"),
    "size": (output(0, shape=(1, 4, 5, 8)), "conv 'c': result (1, 4, 5, 8), expected (1, 4, 4, 8)"),
    "kernel": (operator(0, Conv(Window((5, 3)))), "conv 'c': result"),
    "groups": (operator(0, Conv(Window((3, 3)), 2)), "conv 'c': result"),
    "bias": (bias, "conv 'c': result"),
    "dense": (operator(0, Dense()), "dense 'c': result"),
    "pool": (output(2, shape=(1, 1, 2, 8)), "pool 'p': result (1, 1, 2, 8), expected (1, 2, 2, 8)"),
    "slice": (operator(4, Slice(3, 5)), "slice 'r': result"),
    "unfold": (operator(3, Unfold(2)), "unfold 'l': result"),
    "spaced": (operator(3, DepthToSpace(1, 2, 4)), "depth_to_space 'l': result"),
    "phases": (phases, "interleave 'i': result (1, 2, 3, 4), expected (1, 2, 4, 4)"),
    "lost phase": (lambda graph: (phases(graph), graph.nodes[5].inputs.pop()), "expected ()"),
    "upsample": (operator(3, Upsample()), "upsample 'l': result"),
    "sum": (output(4, shape=(1, 2, 2, 3)), "add 'a': result"),
    "sums": (output(0, type="int8"), "conv 'c': computes int8 from int8"),
    "requantise": (output(1, type="int32"), "requantise 'c': converts int32 to int32"),
    "scale": (joined, "concat 'j': moves int8 of scale 2 and zero point 0 to int8 of scale 1"),
    "clip": (
        lambda graph: (operator(3, Clamp(0, 9))(graph), output(3, scale=3.0)(graph)),
        "clamp 'l': clips int8 of scale 1",
    ),
    "zero point": (output(1, zero_point=200), "tensor 'y': zero point 200 is outside its type"),
    "no scale": (output(1, scale=0.0), "tensor 'y': scale 0.0"),
    "map": (output(5, shape=(2, 4)), "map 'z': shape (2, 4) is not (1, rows, columns, channels)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_broken_rules_are_reported(name: str) -> None:
    change, wanted = CASES[name]
    graph = small()
    change(graph)
    assert any(wanted in one for one in faults(graph)), faults(graph)
    with pytest.raises(MapperError, match="this is a fault of mapper"):
        require_sound(graph)
