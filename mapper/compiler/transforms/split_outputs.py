"""Split layers whose parameters exceed the parameter memory into several, by output blocks.

Their results form one map, since parts of a concatenation share memory. A core holds the bias of
the current layer, and the requantisation record for the blocks of a tile; other parameters are
loaded when they are needed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import form_of
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Concat, Conv, Node, Requantise
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.transforms.base import Context

_LOAD = {field.name: field.most for field in form_of("LOAD", "INP").fields}
MOST_BLOCKS = _LOAD["c_size"]
"""Maximum output blocks per tile."""


def split_outputs(graph: Graph, context: Context) -> None:
    """Split the layers."""
    shape = context.shape
    for node in graph.nodes_of(Conv):
        requantise = graph.only_user(node.output, Requantise)
        assert isinstance(node.operator, Conv)
        if node.operator.groups > 1 or requantise is None:
            continue
        blocks = blocks_of(node.output.channels, shape.rows)
        most = _most_blocks(requantise.operator.how, shape)  # type: ignore[attr-defined]
        if blocks <= most:
            continue
        count = -(-blocks // most)
        split_layer(graph, node, requantise, -(-blocks // count) * shape.rows)
        context.log.add(
            f"{node.label}: split into {count} parts by outputs: a core has "
            f"{shape.parameter_words} parameter words"
        )


def _most_blocks(how: Requantisation, shape: NpuShape) -> int:
    """Return the output blocks whose bias and tile record fit in the parameter memory."""
    lanes = blocks_of(shape.rows, PARAMETER_LANES)
    groups = 1 + bool(np.any(how.offset)) + (how.negative is not None)
    words = shape.parameter_words - 1  # minus the record header
    most = words // (lanes * (1 + groups))
    if most >= MOST_BLOCKS:
        most = words // lanes - groups * MOST_BLOCKS
    return max(1, most)


def split_layer(graph: Graph, node: Node, requantise: Node, size: int) -> list[tuple[Node, Node]]:
    """Split a layer; return the convolution and requantisation of each part.

    size : outputs per part
    """
    how, made = requantise.operator, requantise.output
    assert isinstance(how, Requantise)
    constants = node.inputs[1:]
    parts, made_of = [], list[tuple[Node, Node]]()
    for number, first in enumerate(range(0, made.channels, size)):
        mine = slice(first, min(first + size, made.channels))
        taken = []
        for one in constants:
            value = one.numbers[mine]
            taken.append(replace(one, name=f"{one.name}.{number}", shape=value.shape, value=value))
        channels = mine.stop - first
        sums, part = (
            replace(one, name=f"{one.name}.{number}", shape=(*one.shape[:3], channels))
            for one in (node.output, made)
        )
        conv = Node(node.operator, [node.inputs[0], *taken], [sums], node.sources)
        how_part = Requantise(how.how.chosen(mine))
        made_of.append((conv, Node(how_part, [sums], [part], requantise.sources)))
        parts.append(part)
    at = graph.nodes.index(requantise)
    nodes = [one for pair in made_of for one in pair]
    graph.nodes[at : at + 1] = [*nodes, Node(Concat(), parts, [made], requantise.sources)]
    graph.nodes.remove(node)
    return made_of
