"""Move max pooling before requantisation: with 2x2 windows, a quarter of the sums are
multiplied."""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Clamp, Conv, Node, Pool, Requantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.tiling.tiles import least_fits
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, vectors


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield max pooling after requantisation or the bounds of an activation."""
    for node in graph.nodes_of(Pool):
        maker = graph.maker(node.inputs[0], Requantise | Clamp)
        if maker is not None and node.is_max_pool:
            yield node, maker


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why max pooling cannot move: requantisation decreases, or sums leave their macro node.

    Requantisation never decreases if no channel has a negative factor.
    """
    node, maker = site
    assert isinstance(node.operator, Pool)
    if any(node.operator.window.pad):
        return "the pooling pads with the minimum of stored integers"
    if graph.only_user(maker.output) is not node:
        return "the map has other users"
    before = graph.maker(maker.inputs[0])
    if isinstance(maker.operator, Clamp):
        known = before is not None and isinstance(before.operator, Requantise)
        if known and graph.only_user(maker.inputs[0]) is maker:
            return None
        return "no requantisation with a single user precedes the bounds"
    if before is None or not isinstance(before.operator, Conv):
        return "no convolution precedes it"
    if graph.only_user(before.output) is not maker:
        return "the sums have other users"
    assert isinstance(maker.operator, Requantise)
    how = maker.operator.how
    if any((one.m0 < 0).any() for one in (how.factor, how.negative) if one is not None):
        return "a factor is negative"
    sums = Tensor("", node.output.shape, before.output.type)
    macro = Macro([before, Node(node.operator, [before.output], [sums], node.sources)])
    return None if least_fits(macro, context.shape) else "no window of sums fits the accumulators"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the cycles of requantisations that are saved."""
    node, maker = site
    shape = context.shape
    less = vectors(maker.output, shape) - vectors(node.output, shape)
    slow = isinstance(maker.operator, Requantise)
    return Taken(less * (-(-shape.rows // shape.multiply_lanes) if slow else 1), 0)


def apply(graph: Graph, site: Site, context: Context) -> str:
    node, maker = site
    told = f"{node.label}: before the requantisation of {maker.label}"
    taken = maker.inputs[0]
    if isinstance(maker.operator, Clamp):
        told = f"{node.label}: before the bounds of {maker.label}"
    name = f"{node.output.name}.{'sums' if taken.bits > 16 else 'pooled'}"
    pooled = taken.like(name, node.output.shape, stored=False)
    node.inputs, maker.inputs = [taken], [pooled]
    node.outputs, maker.outputs = [pooled], node.outputs
    at = graph.nodes.index(maker)
    graph.nodes.remove(node)
    graph.nodes.insert(at, node)
    return told


POOL_FIRST = Pass("pool-first", sites, legal, gain, apply)
