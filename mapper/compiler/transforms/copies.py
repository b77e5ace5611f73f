"""Store a map that belongs to two regions twice by the layer that computes it.

`mapper.compiler.memory.regions` finds such maps and inserts a copy after their producers. Where the
layer does not store twice, the copy is a separate macro node: a load and a store.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import BY_HOST, SHARES, Copy, Relay
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, vectors
from mapper.compiler.transforms.fuse import ALONE

NAME = "copy"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return (
        (node,)
        for node in graph.nodes_of(Copy)
        if not isinstance(node.operator, Relay) and not context.is_marked(NAME, node)
    )


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    maker = graph.maker(node.inputs[0])
    if maker is None or isinstance(maker.operator, BY_HOST):
        return "the host computes the map"
    if isinstance(maker.operator, (*SHARES, Copy)):
        return "no layer computes the map"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the cost of loading the map for its copy."""
    (node,) = site
    count = vectors(node.output, context.shape)
    return Taken(count, context.shape.columns * count)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    context.mark(NAME, node)
    maker = graph.maker(node.inputs[0])
    assert maker is not None
    return f"{node.output.name}: also stored by {maker.label}"


def load_rest(graph: Graph, context: Context) -> None:
    """Turn all other copies into loads and stores."""
    for (node,) in list(sites(graph, context)):
        context.mark(NAME, node)
        if node.output.type == "bits":
            continue  # the ALU cannot move bits: the layer stores them twice
        context.mark(ALONE, node)
        context.log.add(f"{node.output.name}: loaded from {node.inputs[0].name} and stored")


COPY = Pass(NAME, sites, legal, gain, apply)
