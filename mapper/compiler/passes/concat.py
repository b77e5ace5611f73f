"""Concatenation of channels goes behind max pooling, activation and requantisation, which work on
each channel alone: so they run on the tiles of the layers before, and what is concatenated shares
memory."""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Clamp, Concat, Node, Operator, Pool, Requantise
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.formulas import Int64, Multiplier, Requantisation
from mapper.compiler.passes.trial import Trial

CHANNELS = 3


def concatenate_last(graph: Graph, trial: Trial) -> list[str]:
    """Everywhere where it is legal; trial : what nodes take on a core, for the log."""
    told = []
    changed = True
    while changed:
        changed = False
        for node in [node for node in graph.nodes if isinstance(node.operator, Concat)]:
            user = graph.only_user(node.output)
            if user is not None and legal(graph, node, user):
                told.append(_told(graph, node, user, trial))
                apply(graph, node, user)
                changed = True
    return told


def legal(graph: Graph, node: Node, user: Node) -> bool:
    """Of channels only: windows reach over the border between rows or columns of two parts.

    Parts that others take as well stay where they are, in the region of the whole.
    """
    parts = node.inputs
    if node.operator != Concat(CHANNELS) or None in [graph.only_user(one) for one in parts]:
        return False
    if isinstance(user.operator, Requantise):
        # one factor for each pixel is of a mean, of which there is one for all parts
        return user.operator.how.factor.m0.ndim < CHANNELS
    largest = isinstance(user.operator, Pool) and user.operator.kind == "max"
    return largest or isinstance(user.operator, Clamp)


def _told(graph: Graph, node: Node, user: Node, trial: Trial) -> str:
    """A line for the log: what it saves, with the layers that make the parts."""
    layers: list[Node] = []
    for tensor in dict.fromkeys(node.inputs):
        while (maker := graph.maker(tensor)) is not None and maker.kind in ("requantise", "conv"):
            layers.insert(0, maker)
            tensor = maker.inputs[0]
    before = trial([*layers, node, user], [user.output])
    after = trial([*layers, *parted(node, user)], [user.output])
    line = f"{node.label}: behind {user.label}"
    if before is None or after is None:
        return line
    cycles, size = before.cycles - after.cycles, before.bytes - after.bytes
    return f"{line}; {cycles:,} cycles and {size:,} bytes less"


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


def apply(graph: Graph, node: Node, user: Node) -> None:
    """Everything comes at the place of what works on the parts: all of them are there by then."""
    at = graph.nodes.index(user)
    graph.nodes[at : at + 1] = parted(node, user)
    graph.nodes.remove(node)
