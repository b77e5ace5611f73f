"""Select the input blocks of grouped convolutions, or join the groups.

Each output block reads only the input blocks of its groups. Where this saves nothing, the kernels
of all groups become one block-diagonal convolution: it has one list of input blocks for all
outputs, so fewer micro-ops, and pairs of kernels on dual cores. Depthwise convolutions have their
own unit and are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node
from mapper.compiler.ir.tensor import constant
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.program.inputs import Span, is_depthwise, taken_blocks
from mapper.compiler.transforms.base import Context, Pass, Site, Taken

NAME = "split-groups"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield convolutions with groups of several channels whose form is not selected yet."""
    for node in graph.nodes:
        operator = node.operator
        if not isinstance(operator, Conv) or operator.groups == 1 or is_depthwise(node):
            continue
        whole = node.inputs[0].type in ("int8", "int16")
        if whole and not context.is_marked(NAME, node):
            yield (node,)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return None: kernels only sum over the channels of their groups."""
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the matrix calls saved; the same maps are loaded and stored."""
    (node,) = site
    calls, whole = calls_of_pixel(node, context.shape.columns)
    return Taken((whole - calls) * node.output.height * node.output.width, 0)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    calls, whole = calls_of_pixel(node, context.shape.columns)
    assert isinstance(node.operator, Conv)
    context.mark(NAME, node)
    return (
        f"{node.label}: {node.operator.groups} groups by blocks, {whole} -> {calls} calls per pixel"
    )


def join_groups(graph: Graph, context: Context) -> None:
    """Join the groups of convolutions that the pass did not select."""
    for (node,) in list(sites(graph, context)):
        assert isinstance(node.operator, Conv)
        weights, groups = node.inputs[1], node.operator.groups
        whole = calls_of_pixel(node, context.shape.columns)[1]
        value = block_diagonal(weights.numbers, groups)
        node.inputs[1] = constant(weights.name, value, weights.type)
        node.operator = replace(node.operator, groups=1)
        text = f"{groups} groups as one convolution, {whole} calls per pixel"
        context.log.add(f"{NAME}: {node.label}: {text}")


def calls_of_pixel(node: Node, size: int) -> tuple[int, int]:
    """Return the matrix calls per pixel by groups, and as one convolution over all channels.

    size : channels per block
    """
    outputs, rows, columns, _ = node.inputs[1].shape
    blocks = blocks_of(outputs, size)
    taken = sum(taken_blocks(node, Span(at, at + 1), size).size for at in range(blocks))
    places = rows * columns
    return places * taken, places * blocks * blocks_of(node.inputs[0].channels, size)


def block_diagonal(weights: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Return kernels over all channels, zero outside their groups."""
    outputs, rows, columns, taken = weights.shape
    made = np.zeros((outputs, rows, columns, taken * groups), weights.dtype)
    for group in range(groups):
        mine = slice(group * outputs // groups, (group + 1) * outputs // groups)
        made[mine, :, :, group * taken : (group + 1) * taken] = weights[mine]
    return made


SPLIT_GROUPS = Pass(NAME, sites, legal, gain, apply, weighed=True)
