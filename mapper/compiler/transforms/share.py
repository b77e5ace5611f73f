"""Let concatenations and splits share memory: parts are stored inside the region of the whole.

`mapper.compiler.memory.regions` assigns the places. Where a node does not share, each part also
gets a separate region: a node on the core copies it into the whole, or out of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import BY_HOST, Concat, Copy, Node, Slice
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, round_trip

NAME = "share"


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    both = graph.nodes_of(Concat | Slice)
    return ((node,) for node in both if not context.is_marked(NAME, node))


def _parts(node: Node) -> list[Tensor]:
    return node.outputs if isinstance(node.operator, Slice) else node.inputs


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why a part cannot share the region of the whole; blocks are already aligned."""
    (node,) = site
    owner = node.inputs[0] if isinstance(node.operator, Slice) else node.output
    if any(not one.same_scale(owner) for one in _parts(node)):
        return "a part has another scale than the whole"
    return None


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the cost of storing each part once more and loading it."""
    (node,) = site
    found = [round_trip(one, context.shape) for one in _parts(node)]
    return Taken(sum(one.cycles for one in found), sum(one.bytes for one in found))


def apply(graph: Graph, site: Site, context: Context) -> str:
    (node,) = site
    context.mark(NAME, node)
    return f"{node.label}: its parts share one region"


def copy_parts(graph: Graph, context: Context) -> None:
    """Give separate regions to the parts of nodes that do not share."""
    for (node,) in list(sites(graph, context)):
        context.mark(NAME, node)
        if any(one.type == "bits" for one in _parts(node)):
            continue  # the ALU cannot move bits
        made = [_copied(one, number, node) for number, one in enumerate(_parts(node), 1)]
        at = graph.nodes.index(node)
        if isinstance(node.operator, Slice):
            users = [
                one for one in graph.users(node.output) if not isinstance(one.operator, BY_HOST)
            ]
            for user in users:
                user.inputs = [made[0].output if one is node.output else one for one in user.inputs]
            made = made if users else []  # the host reads parts inside the whole
            graph.nodes[at + 1 : at + 1] = made
        else:
            node.inputs = [one.output for one in made]
            graph.nodes[at:at] = made
        for one in made:
            text = f"{one.inputs[0].name} has a separate region, and is copied"
            context.log.add(f"{node.label}: {text}")


def _copied(part: Tensor, number: int, node: Node) -> Node:
    copy = part.like(f"{part.name}.part{number}", part.shape)
    return Node(Copy(), [part], [copy], node.sources)


SHARE = Pass(NAME, sites, legal, gain, apply)
