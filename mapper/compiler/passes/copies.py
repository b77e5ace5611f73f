"""A map that lies in two regions is stored twice by the layer that makes it.

`mapper.compiler.memory.regions` finds such maps, and puts a copy behind their makers. Where the
layer does not store twice, the copy is a macro node of its own: a load and a store.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Copy, Host, Quantise, Windows
from mapper.compiler.memory.regions import SHARES
from mapper.compiler.passes.base import Context, Pass, Site, Taken
from mapper.compiler.passes.estimate import vectors
from mapper.compiler.passes.fuse import ALONE

NAME = "copy"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    for node in graph.nodes:
        if isinstance(node.operator, Copy) and not context.is_marked(NAME, node):
            yield (node,)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    maker = graph.maker(node.inputs[0])
    if maker is None or isinstance(maker.operator, (Host, Quantise, Windows)):
        return "the host makes the map"
    if isinstance(maker.operator, (*SHARES, Copy)):
        return "no layer makes the map"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """The map is not loaded for its copy."""
    (node,) = site
    count = vectors(node.output, context.shape)
    return Taken(count, context.shape.columns * count)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    context.mark(NAME, node)
    maker = graph.maker(node.inputs[0])
    assert maker is not None
    return f"{node.output.name}: stored by {maker.label} as well"


def load_rest(graph: Graph, context: Context) -> list[str]:
    """Let all other copies be loads and stores; returns the log."""
    told = []
    for (node,) in list(sites(graph, context)):
        context.mark(NAME, node)
        if node.output.type == "bits":
            continue  # the ALU of a core moves no bits: the layer stores them twice
        context.mark(ALONE, node)
        told.append(f"{node.output.name}: loaded from {node.inputs[0].name}, and stored")
    return told


COPY = Pass(
    NAME, sites, legal, gain, apply,
    what="a map in two regions that have nothing to do with each other is stored twice: two store "
    "instructions, no load and no pass of the ALU; without, it is loaded and stored again",
    legal_if="a layer of the core makes the map",
    applied_if="always",
    gains="a load of the map, and the pass of the ALU",
)  # fmt: skip
