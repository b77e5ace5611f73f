"""Constant folding: evaluate nodes that depend only on constants.

The front end folds every node whose inputs are constant, because later nodes need weights, shapes
and axes. Without the pass, nodes with real results run on the host, and so do all layers that read
them: cores multiply by constants only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import ASKED, Host
from mapper.compiler.numerics.execute import session_of
from mapper.compiler.transforms.base import Context, Pass, Site, Taken


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield host nodes that read no map."""
    return ((node,) for node in graph.nodes_of(Host) if not node.inputs)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    assert isinstance(node.operator, Host)
    if node.operator.why == ASKED:
        return ASKED
    users = [user for tensor in node.outputs for user in graph.users(tensor)]
    if any(graph.is_output(tensor) for tensor in node.outputs):
        return "it is an output of the model"
    if not all(isinstance(user.operator, Host) for user in users):
        return "a core reads it as a map"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the bytes that the host would compute per frame; cores save nothing."""
    return Taken(0, sum(4 * int(np.prod(one.shape)) for one in site[0].outputs))


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Make its results constants of the nodes that read them."""
    (node,) = site
    assert isinstance(node.operator, Host)
    made = session_of(node.operator).run({})
    values = {
        view.tensor: np.asarray(one).reshape(view.shape)
        for view, one in zip(node.operator.results, made, strict=False)
    }
    for user in [user for tensor in node.outputs for user in graph.users(tensor)]:
        assert isinstance(user.operator, Host)
        given = tuple(
            values[one.tensor].reshape(one.shape)
            if isinstance(one, View) and one.tensor in values
            else one
            for one in user.operator.given
        )
        user.operator = replace(user.operator, given=given)
        user.inputs = [tensor for tensor in user.inputs if tensor not in values]
    graph.nodes.remove(node)
    return node.label


def log_folded(graph: Graph, context: Context) -> None:
    """Log the constant folding in the front end."""
    for name, (kind, size) in graph.folded.items():
        context.log.add(CONSTANTS.line(f"{kind} {name!r}", Taken(0, size)))


CONSTANTS = Pass("constants", sites, legal, gain, apply)
