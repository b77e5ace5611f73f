"""Concatenation of channels goes behind max pooling, activation and requantisation, which work on
each channel alone: so they run on the tiles of the layers before, and what is concatenated shares
memory."""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Clamp, Concat, Node, Operator, Pool, Requantise
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import Int64, Multiplier, Requantisation
from mapper.compiler.passes.base import Context, Pass, Site, Taken

CHANNELS = 3


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Concatenations, and what alone takes their result."""
    for node in graph.nodes:
        if isinstance(node.operator, Concat):
            user = graph.only_user(node.output)
            if user is not None:
                yield node, user


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Of channels only: windows reach over the border between rows or columns of two parts.

    Parts that others take as well stay where they are, in the region of the whole.
    """
    node, user = site
    if node.operator != Concat(CHANNELS):
        return "rows or columns are joined, and windows reach over the border"
    if None in [graph.only_user(one) for one in node.inputs]:
        return "others take a part as well"
    if isinstance(user.operator, Requantise):
        # one factor for each pixel is of a mean, of which there is one for all parts
        return None if user.operator.how.factor.m0.ndim < CHANNELS else "its factors are of pixels"
    largest = isinstance(user.operator, Pool) and user.operator.kind == "max"
    if largest or isinstance(user.operator, Clamp):
        return None
    return "no max pooling, activation or requantisation follows"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """With the layers that make the parts."""
    node, user = site
    if context.trial is None:
        return None
    layers: list[Node] = []
    for tensor in dict.fromkeys(node.inputs):
        while (maker := graph.maker(tensor)) is not None and maker.kind in ("requantise", "conv"):
            layers.insert(0, maker)
            tensor = maker.inputs[0]
    before = context.trial([*layers, node, user], [user.output])
    after = context.trial([*layers, *parted(node, user)], [user.output])
    if before is None or after is None:
        return None
    return Taken(before.cycles - after.cycles, before.bytes - after.bytes)


def parted(node: Node, user: Node) -> list[Node]:
    """What works on each part, and the concatenation behind it; the graph stays as it is."""
    made, first = [], 0
    for number, tensor in enumerate(node.inputs):
        shape = (*user.output.shape[:CHANNELS], tensor.channels)
        how = user.output
        part = Tensor(
            f"{how.name}.{number + 1}", shape, how.type, how.scale, how.zero_point, stored=True
        )
        operator = _of_channels(user.operator, first, tensor.channels)
        made.append(Node(operator, [tensor, *user.inputs[1:]], [part], user.sources))
        first += tensor.channels
    return [*made, Node(node.operator, [one.output for one in made], [user.output], node.sources)]


def _of_channels(operator: Operator, first: int, count: int) -> Operator:
    """An operator for some channels of a map."""
    if not isinstance(operator, Requantise):
        return operator
    how: Requantisation = operator.how

    def some(values: Int64) -> Int64:
        return values if values.ndim == 0 else values[first : first + count]

    def factors(one: Multiplier) -> Multiplier:
        return Multiplier(some(one.m0), some(one.n))

    negative = None if how.negative is None else factors(how.negative)
    offset = how.offset if isinstance(how.offset, int) else some(how.offset)
    return Requantise(how._replace(factor=factors(how.factor), offset=offset, negative=negative))


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Everything comes at the place of what works on the parts: all of them are there by then."""
    node, user = site
    at = graph.nodes.index(user)
    graph.nodes[at : at + 1] = parted(node, user)
    graph.nodes.remove(node)
    return f"{node.label}: behind {user.label}"


CONCAT = Pass(
    "concat", sites, legal, gain, apply,
    what="a concatenation of channels goes behind the max pooling, activation or requantisation "
    "that takes it, so that these run with the layers of the parts, and the result shares memory",
    legal_if="channels only, not rows or columns; nobody else takes the parts or the whole",
    applied_if="always",
    gains="trial of the layers of the parts, before and after",
    measured=True,
)  # fmt: skip
