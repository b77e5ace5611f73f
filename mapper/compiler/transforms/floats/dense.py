"""Turn dense layers into convolutions with a kernel as large as the map.

They then read the map in its storage layout. Other dense layers read one long vector, laid out by
the host.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Dense, Node, Window, Windows
from mapper.compiler.ir.tensor import constant
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, flattened


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return ((node,) for node in graph.nodes_of(Dense))


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    return None if node.inputs[1].value is not None else "its weights are not constant"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    return flattened(site[0], context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    told = f"{node.label}: kernel of {node.inputs[1].shape[1]}x{node.inputs[1].shape[2]}"
    node.operator = Conv(Window(_size(node)))
    return told


def _size(node: Node) -> tuple[int, int]:
    return node.inputs[1].shape[1], node.inputs[1].shape[2]


def flatten_rest(graph: Graph, context: Context) -> None:
    """Turn remaining dense layers of an integer graph into 1x1 convolutions.

    Where the map has several pixels, the host flattens it into one.
    """
    for node in graph.nodes_of(Dense):
        size, data = _size(node), node.inputs[0]
        node.operator = Conv(Window((1, 1)))
        if size == (1, 1):
            continue
        weights = node.inputs[1]
        flat = weights.numbers.reshape(weights.shape[0], 1, 1, -1)
        made = data.like(f"{data.name}.flat", (1, 1, 1, flat.shape[3]))
        at = graph.nodes.index(node)
        graph.nodes.insert(at, Node(Windows(Window(size)), [data], [made], node.sources))
        node.inputs[:2] = [made, constant(weights.name, flat, weights.type)]
        text = f"the host flattens its map into {flat.shape[3]:,} channels"
        context.log.add(f"{node.label}: {text}")


DENSE = Pass("dense", sites, legal, gain, apply)
