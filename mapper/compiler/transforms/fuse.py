"""Operator fusion: a layer and the ALU operations after it become one macro node.

Nodes join in graph order while it is legal. The longest run whose tiles fit the accumulators
becomes the macro node, and only its last map is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import SHARES, Node
from mapper.compiler.tiling.tiles import least_fits
from mapper.compiler.transforms.base import Context, Pass, Site, Taken, round_trip

NEEDED = op.Requantise | op.Threshold
"""Operators that make stored integers of sums; they always run on the same tile."""
ELEMENTWISE = (
    op.Activation | op.Function | op.Requantise | op.Clamp | op.Lookup | op.Upsample | op.Sign
    | op.Threshold
)  # fmt: skip
LAST = op.Upsample | op.Sign | op.Threshold
"""Operators that end a macro node."""
ELSEWHERE = (op.Host, op.Windows, op.WindowColumns, op.Quantise, *SHARES)


def fuse(graph: Graph, whole: bool = True, context: Context | None = None) -> list[Macro]:
    """Return the macro nodes of an integer graph, in an executable order.

    whole : fuse all operators that can run on the same tile; else only requantisation of sums
    context : core whose tiles must fit, if any
    """
    known = context or Context()
    macros: list[Macro] = []
    taken: set[Node] = set()
    known.stored = {view.tensor for view in graph.inputs.values()}
    known.stored |= {node.output for node in graph.nodes_of(op.BY_HOST)}
    for node in graph.nodes:
        if isinstance(node.operator, SHARES):
            known.stored |= set(node.outputs)
        if node in taken or isinstance(node.operator, ELSEWHERE):
            continue
        macro = Macro([node], windows=_windows_of(graph, node))
        while (follower := graph.only_user(macro.output)) is not None:
            site = (*macro.nodes, follower)
            needed = isinstance(follower.operator, NEEDED)
            if not (whole or needed) or legal(graph, site, known) is not None:
                break
            if context is not None and not needed and not _fits(macro, follower, context):
                known.log.add(f"{FUSE.name}: {follower.label}: separate, {TOO_LARGE}")
                break
            if not needed:
                known.log.add(FUSE.line(_joined(site), gain(graph, site, known)))
            macro.nodes.append(follower)
        macro.sign = _sign_beside(graph, macro)
        copies = [
            node
            for node in graph.users(macro.output)
            if isinstance(node.operator, op.Copy) and not _is_alone(node, known)
        ]
        macro.copies = [node.output for node in copies]
        taken |= {*macro.nodes, *copies}
        if macro.sign is not None:
            taken.add(macro.sign)
        for one in macro.nodes[:-1]:
            one.output.stored = False
        known.stored |= set(macro.outputs)
        macros.append(macro)
    return macros


def _windows_of(graph: Graph, node: Node) -> Node | None:
    """Return the node whose windows the window unit builds while it loads a map."""
    return graph.maker(node.inputs[0], op.WindowColumns)


ALONE = "copies alone"
"""Mark of copies that become separate macro nodes."""


def _is_alone(node: Node, context: Context) -> bool:
    """Return whether a copy is a separate macro node."""
    return isinstance(node.operator, op.Relay) or context.is_marked(ALONE, node)


TOO_LARGE = "because one pixel of the fused layer does not fit the accumulators"


def _fits(macro: Macro, follower: Node, context: Context) -> bool:
    """Return whether tiles still fit with one more node, or already do not fit without it."""
    more = Macro([*macro.nodes, follower], windows=macro.windows)
    return least_fits(more, context.shape) or not least_fits(macro, context.shape)


def _sign_beside(graph: Graph, macro: Macro) -> Node | None:
    """Return a sign node of a result with other users; it runs on the same tile."""
    if isinstance(macro.nodes[-1].operator, LAST):
        return None
    users = graph.users(macro.output)
    return next((node for node in users if isinstance(node.operator, op.Sign | op.Threshold)), None)


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Yield pairs of a node and the only user of its stored result."""
    for node in graph.nodes:
        user = graph.only_user(node.output) if node.output.stored else None
        known = user is None or isinstance(user.operator, (*ELSEWHERE, NEEDED))
        if user is not None and not (known or isinstance(node.operator, ELSEWHERE)):
            yield node, user


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Return why the last node cannot run after the others on the same tile, None if it can."""
    *nodes, user = site
    last = nodes[-1]
    if graph.only_user(last.output) is not user:
        return "the map has other users"
    if isinstance(last.operator, LAST):
        return f"nothing runs after {last.kind} on its tile"
    if isinstance(user.operator, ELEMENTWISE):
        return None
    if isinstance(user.operator, op.Pool):
        if user.operator.kind != "max":
            return "averaging needs the whole map"
        if Macro(nodes).conv is None:
            return "no convolution computes the map"
        if any(isinstance(node.operator, op.Pool) for node in nodes):
            return "the tile is already pooled"
        return "its windows extend past the map" if any(user.operator.window.pad) else None
    if isinstance(user.operator, op.TWO_MAPS):
        other = next((one for one in user.inputs if one is not last.output), last.output)
        if other not in context.stored:
            return "the other operand is not stored yet"
        if last.output.shape != user.output.shape:
            return "the tile is of the pixel that scales the map"
        added = any(isinstance(node.operator, op.TWO_MAPS) for node in nodes)
        return "the tile already has a second operand" if added else None
    return f"no ALU computes {user.kind} of a tile"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """Return the cost of storing and loading the map between."""
    return round_trip(site[-2].output, context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    """Keep the map between in the accumulators only."""
    site[-2].output.stored = False
    return _joined(site)


def _joined(site: Site) -> str:
    return f"{site[-1].label}: on the tiles of {site[0].label}"


FUSE = Pass("fuse", sites, legal, gain, apply)
