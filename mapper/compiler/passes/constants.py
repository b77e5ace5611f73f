"""What depends on constants alone is worked out once, when the model is read.

The front end does so with every node whose inputs are constant, since weights, shapes and axes must
be known for the nodes behind. Without the pass it leaves those that make real numbers to the host,
and with them all layers that take their results: cores multiply by constants alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mapper.compiler.frontend.onnx import ASKED
from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.hosted import session_of
from mapper.compiler.graph.node import Host
from mapper.compiler.passes.base import Context, Pass, Site, Taken


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Nodes of the host that take no map."""
    return ((n,) for n in graph.nodes if isinstance(n.operator, Host) and not n.inputs)


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    (node,) = site
    assert isinstance(node.operator, Host)
    if node.operator.why == ASKED:
        return ASKED
    users = [user for tensor in node.outputs for user in graph.users(tensor)]
    if any(graph.is_output(tensor) for tensor in node.outputs):
        return "it is a result of the model"
    if not all(isinstance(user.operator, Host) for user in users):
        return "a core takes it as a map"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """What the host would make in every frame; cores take no part in it."""
    return Taken(0, sum(4 * int(np.prod(one.shape)) for one in site[0].outputs))


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Its results become constants of the nodes that take them."""
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


def folded(graph: Graph) -> list[str]:
    """The log of what the front end has worked out."""
    return [
        CONSTANTS.line(f"{kind} {name!r}", Taken(0, size))
        for name, (kind, size) in graph.folded.items()
    ]


CONSTANTS = Pass(
    "constants", sites, legal, gain, apply,
    what="nodes between constants are worked out when the model is read, by ONNX Runtime; "
    "without, those that make real numbers run on the host, and so do the "
    "layers that take their results; shapes, axes and stored integers are worked out in any case",
    legal_if="all inputs are constant",
    applied_if="always; a node that is kept on the host stays there",
    gains="bytes that the host would make in every frame",
)  # fmt: skip
