"""Relay the maps of layers that take more cores than one core can exchange data with.

A core has a stream for the data of each core that it receives from, and one for the credits of each
core that it sends to. A layer is split by outputs if its weights and its input need more cores, so
that the cores of each part need half of the streams of a core. A relay sends the input of the layer
to them, and another one collects their results.
"""

from __future__ import annotations

import math

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.records import STREAMS
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Concat, Conv, Node, Relay, Requantise
from mapper.compiler.memory.planner import blocks_of, map_capacity
from mapper.compiler.program.inputs import conv_of
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.split_outputs import split_layer

MOST_CORES = STREAMS // 2
"""Cores of a part of a layer, one more if it has several strips of rows; its relays need the other
streams for its neighbours."""


def relay(graph: Graph, context: Context) -> None:
    """Split the layers and insert the relays, if the cores can hold the weights of all layers."""
    shape = context.shape
    layers = [
        node
        for node in graph.nodes_of(Conv)
        if conv_of(node).groups == 1 and node.inputs[0].type != "bits"  # the ALU cannot move bits
    ]
    words = [_words(node, shape) * blocks_of(node.output.channels, shape.rows) for node in layers]
    if sum(words) > context.cores * shape.weight_words:
        return  # weights come from the host while the program runs
    for node in layers:
        requantise = graph.only_user(node.output, Requantise)
        blocks = blocks_of(node.output.channels, shape.rows)
        each = max(1, shape.weight_words // _words(node, shape))  # blocks per core
        by_blocks = -(-blocks // each)
        cores = by_blocks * _strips(node, shape)
        if cores > STREAMS and by_blocks > 1 and requantise is not None:
            parts = min(by_blocks, -(-cores // MOST_CORES))
            _relayed(graph, node, requantise, each * -(-by_blocks // parts) * shape.rows)
            context.log.add(
                f"{node.label}: takes at least {cores} cores, so relays exchange its maps in "
                f"{parts} parts"
            )


def _words(node: Node, shape: NpuShape) -> int:
    """Return the weight words of an output block of a convolution without groups."""
    _, *kernel, channels = node.inputs[1].shape
    words = math.prod(kernel) * blocks_of(channels, shape.rows)
    return words * (2 if node.inputs[0].bits == 16 else 1)


def _strips(node: Node, shape: NpuShape) -> int:
    """Return into how many strips of rows a layer is cut for its input to fit in a core."""
    data, rows, window = node.inputs[0], node.output.height, conv_of(node).window
    row = data.width * blocks_of(data.channels, shape.columns)
    most = map_capacity(shape) // row  # rows of the input
    for strips in range(1, rows):
        taken = (-(-rows // strips) - 1) * window.stride[0] + window.reach[0]
        if min(taken, data.height) <= most:
            return strips
    return rows


def _relayed(graph: Graph, node: Node, requantise: Node, size: int) -> None:
    """Split a layer and insert the relays. size : outputs per part"""
    made = requantise.output
    parts = split_layer(graph, node, requantise, size)
    data, before, after = node.inputs[0], [], []
    for number, (conv, last) in enumerate(parts):
        given = data.like(f"{data.name}.relay{number}", data.shape)
        before.append(Node(Relay(), [data], [given], node.sources))
        conv.inputs[0] = given
        part = last.output
        kept = part.like(f"{part.name}.relay", part.shape)
        after.append(Node(Relay(), [part], [kept], requantise.sources))
    join = graph.maker(made, Concat)
    assert join is not None
    join.inputs = [one.output for one in after]
    at = graph.nodes.index(join)
    graph.nodes[at:at] = after
    at = graph.nodes.index(parts[0][0])
    graph.nodes[at:at] = before
