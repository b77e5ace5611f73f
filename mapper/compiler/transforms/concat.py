"""Move concatenation of channels after max pooling, activation and requantisation.

These work per channel, so they can run on the tiles of the layers before, and the concatenation
shares memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Clamp, Concat, Lookup, Node, Operator, Requantise
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, saved

CHANNELS = 3


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield concatenations with the only user of their result."""
    for node in graph.nodes_of(Concat):
        if (user := graph.only_user(node.output)) is not None:
            yield node, user


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why a site is illegal: rows or columns are joined, or a part has other users.

    Windows would cross the border between joined rows or columns. Parts with other users stay in
    the region of the whole.
    """
    node, user = site
    if node.operator != Concat(CHANNELS):
        return "rows or columns are joined, and windows cross the border"
    if None in [graph.only_user(one) for one in node.inputs]:
        return "a part has other users"
    if isinstance(user.operator, Requantise):
        # only averaging has a factor per pixel, the same for all parts
        by_pixel = user.operator.how.factor.m0.ndim >= CHANNELS
        return "its factors vary between pixels" if by_pixel else None
    if user.is_max_pool or isinstance(user.operator, Clamp | Lookup):
        return None
    return "no max pooling, activation or requantisation follows"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the gain of a trial that includes the layers of the parts."""
    node, user = site
    layers: list[Node] = []
    for tensor in dict.fromkeys(node.inputs):
        while (maker := graph.maker(tensor)) is not None and maker.kind in ("requantise", "conv"):
            layers.insert(0, maker)
            tensor = maker.inputs[0]
    before = context.trial([*layers, node, user], [user.output])
    after = context.trial([*layers, *parted(node, user)], [user.output])
    return saved(before, after)


def parted(node: Node, user: Node) -> list[Node]:
    """Return the user applied to each part, and the concatenation after it; the graph is
    unchanged."""
    made, first = [], 0
    for number, tensor in enumerate(node.inputs):
        shape = (*user.output.shape[:CHANNELS], tensor.channels)
        part = user.output.like(f"{user.output.name}.{number + 1}", shape)
        operator = _of_channels(user.operator, first, tensor.channels)
        made.append(Node(operator, [tensor, *user.inputs[1:]], [part], user.sources))
        first += tensor.channels
    return [*made, Node(node.operator, [one.output for one in made], [user.output], node.sources)]


def _of_channels(operator: Operator, first: int, count: int) -> Operator:
    """Return an operator for a range of channels."""
    if not isinstance(operator, Requantise):
        return operator

    def some(values: Any) -> Any:
        return values if np.ndim(values) == 0 else values[first : first + count]

    return Requantise(operator.how.changed(some))


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Insert all nodes at the place of the user, where all parts are available."""
    node, user = site
    at = graph.nodes.index(user)
    graph.nodes[at : at + 1] = parted(node, user)
    graph.nodes.remove(node)
    return f"{node.label}: after {user.label}"


CONCAT = Pass("concat", sites, legal, gain, apply, measured=True)
