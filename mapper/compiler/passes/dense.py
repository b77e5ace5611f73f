"""Dense layers become convolutions whose kernel is as large as the map, so that they take it as it
lies in memory. Those that do not, take one long vector, and the host lays the map out so."""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Dense, Node, Window, Windows
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.passes.base import Context, Pass, Site, Taken
from mapper.compiler.passes.estimate import flattened


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return ((node,) for node in graph.nodes if isinstance(node.operator, Dense))


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


def flatten_rest(graph: Graph) -> list[str]:
    """Let dense layers that are left in a graph of integers take single pixels of many channels;
    returns the log. Where the map has more pixels, the host makes one of it."""
    told = []
    for node in [node for node in graph.nodes if isinstance(node.operator, Dense)]:
        size, data = _size(node), node.inputs[0]
        node.operator = Conv(Window((1, 1)))
        if size == (1, 1):
            continue
        weights = node.inputs[1]
        assert weights.value is not None
        flat = weights.value.reshape(len(weights.value), 1, 1, -1)
        made = Tensor(
            f"{data.name}.flat", (1, 1, 1, flat.shape[3]), data.type, data.scale,
            data.zero_point, stored=True,
        )  # fmt: skip
        at = graph.nodes.index(node)
        graph.nodes.insert(at, Node(Windows(Window(size)), [data], [made], node.sources))
        node.inputs[:2] = [made, Tensor(weights.name, flat.shape, weights.type, value=flat)]
        told.append(f"{node.label}: the host lays its map out as {flat.shape[3]:,} channels")
    return told


DENSE = Pass(
    "dense", sites, legal, gain, apply,
    what="a dense layer becomes a convolution with a kernel as large as its map, 1x1 behind "
    "another one; without, the host lays the map out as one pixel of many channels",
    legal_if="constant weights",
    applied_if="always",
    gains="the way of the map to the host and back, less what unfilled blocks take more",
)  # fmt: skip
