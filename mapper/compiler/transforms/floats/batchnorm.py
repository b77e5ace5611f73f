"""Fold constant factors and offsets after a layer into its weights and bias.

These are BatchNormalization and separate bias additions. Before signs and levels they fold into the
thresholds instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import ENDS, Affine, Conv, Dense, Node
from mapper.compiler.ir.tensor import constant
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, of_each_channel


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    return ((node,) for node in graph.nodes_of(Affine))


def before_signs(graph: Graph, context: Context) -> Iterator[Site]:
    """Return the sites before signs and levels, which run first."""
    return (site for site in sites(graph, context) if _end(graph, site[0]) is not None)


def _end(graph: Graph, node: Node) -> Node | None:
    """Return the sign or levels node that is the only user of a result."""
    user = graph.only_user(node.output, ENDS)
    return user if user is not None and user.inputs[0] is node.output else None


def _layer(graph: Graph, node: Node) -> Node | None:
    """Return the layer whose only user is a node."""
    maker = graph.maker(node.inputs[0], Conv | Dense)
    return maker if maker is not None and graph.only_user(maker.output) is node else None


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    if _end(graph, node) is not None or _layer(graph, node) is not None:
        return None
    return "it follows no layer with a single user, and no sign follows it"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    (node,) = site
    return of_each_channel(node.inputs[0], node.output, context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Fold factor and offset: w' = w * factor, b' = b * factor + offset."""
    (node,) = site
    end, maker = _end(graph, node), _layer(graph, node)
    if end is not None:
        end.inputs = [*node.inputs, *end.inputs[1:]]
        graph.nodes.remove(node)
        told = f"{node.label}: into {end.label}"
        end.sources = node.sources + end.sources
        return told
    assert maker is not None
    told = f"{node.label}: into {maker.label}"
    factor, offset = (np.asarray(t.value, np.float64) for t in node.inputs[1:])
    weights = maker.inputs[1]
    made = (weights.numbers * factor[:, None, None, None]).astype(np.float32)
    bias = maker.inputs[2].numbers * factor + offset if len(maker.inputs) > 2 else offset
    maker.inputs[1:] = [
        constant(weights.name, made),
        constant(f"{maker.sources[0]}.bias", bias.astype(np.float32)),
    ]
    graph.nodes.remove(node)
    maker.sources += node.sources
    maker.outputs = node.outputs
    return told


BATCHNORM = Pass("batchnorm", sites, legal, gain, apply)
