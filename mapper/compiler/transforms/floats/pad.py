"""Fold a separate padding node into the convolution or max pooling after it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Concat, Conv, DepthToSpace, PadMap, Pool, Upsample
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, of_each_channel


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return ((node,) for node in graph.nodes_of(PadMap))


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why padding cannot be folded: nonzero before a convolution, or too large for max
    pooling.

    A remaining pad of -inf would be part of the calibrated range.
    """
    (node,) = site
    assert isinstance(node.operator, PadMap)
    user, value = graph.only_user(node.output), node.operator.value
    if user is None or user.inputs[0] is not node.output:
        return "the padded map has several users"
    if isinstance(user.operator, Conv):
        return None if value == 0 else "a convolution pads with zeros"
    if not isinstance(user.operator, Pool) or not user.is_max_pool:
        return "no convolution or max pooling follows"
    reach, window = user.operator.window.reach, user.operator.window
    sides = [one + other for one, other in zip(window.pad, node.operator.pad, strict=True)]
    if max(sides[:2]) >= reach[0] or max(sides[2:]) >= reach[1]:
        return "a window of only padding has the padding value, not the minimum"
    if value > _least(graph, node.inputs[0]):
        return "the padding value may exceed values of the map"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    (node,) = site
    return of_each_channel(node.inputs[0], node.output, context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    user = graph.only_user(node.output)
    assert user is not None
    assert isinstance(user.operator, Conv | Pool)
    assert isinstance(node.operator, PadMap)
    told = f"{node.label}: into {user.label}"
    window = user.operator.window
    both = zip(window.pad, node.operator.pad, strict=True)
    pad = Pad(*(one + other for one, other in both))
    user.operator = replace(user.operator, window=replace(window, pad=pad))
    user.inputs[0] = node.inputs[0]
    user.sources = node.sources + user.sources
    graph.nodes.remove(node)
    return told


def _least(graph: Graph, tensor: Tensor) -> float:
    """Return a lower bound of the elements of a map."""
    maker = graph.maker(tensor)
    if maker is not None and isinstance(maker.operator, Activation):
        return maker.operator.low
    moves = maker is not None and isinstance(maker.operator, Concat | DepthToSpace | Upsample)
    if maker is not None and (moves or maker.is_max_pool):
        return min(_least(graph, one) for one in maker.inputs)
    return float("-inf")


PAD = Pass("pad", sites, legal, gain, apply)
