"""Fusion: a layer and what the ALU does behind it become one macro node.

Nodes join one by one, in the order of the graph, as long as it is legal: the longest run whose
tiles fit the accumulators becomes the macro node, and only its last map is stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import (
    Activation,
    Add,
    Clamp,
    Copy,
    Host,
    Node,
    Pool,
    Quantise,
    Requantise,
    Sign,
    Threshold,
    Upsample,
    WindowColumns,
    Windows,
)
from mapper.compiler.memory.regions import SHARES
from mapper.compiler.passes.base import Context, Pass, Site, Taken
from mapper.compiler.passes.estimate import round_trip
from mapper.compiler.schedule.tiles import least_fits

NEEDED = Requantise | Threshold
"""What makes stored integers of sums, and so runs where they are, in any case."""
ELEMENTWISE = Activation | Requantise | Clamp | Upsample | Sign | Threshold
LAST = Upsample | Sign | Threshold
"""Nothing runs behind them on the same tile."""
ELSEWHERE = (Host, Windows, WindowColumns, Quantise, *SHARES)


def fuse(
    graph: Graph, whole: bool = True, context: Context | None = None, told: list[str] | None = None
) -> list[Macro]:
    """The macro nodes of a graph of integers, in an order in which they can run.

    whole : with all that can run on the same tile; else only what makes stored integers of sums
    context : of the core that tiles are to fit, if there is one; told : gets the log
    """
    known, told = context or Context(), [] if told is None else told
    macros: list[Macro] = []
    taken: set[Node] = set()
    known.stored = {view.tensor for view in graph.inputs.values()}
    hosted = (node for node in graph.nodes if isinstance(node.operator, Host | Windows | Quantise))
    known.stored |= {node.output for node in hosted}
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
                told.append(f"{FUSE.name}: {follower.label}: by itself, {TOO_LARGE}")
                break
            if not needed:
                told.append(FUSE.line(_joined(site), gain(graph, site, known)))
            macro.nodes.append(follower)
        macro.sign = _sign_beside(graph, macro)
        copies = [
            node
            for node in graph.users(macro.output)
            if isinstance(node.operator, Copy) and not known.is_marked(ALONE, node)
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
    """The node whose result the window unit makes of a map as it loads it."""
    maker = graph.maker(node.inputs[0])
    return maker if maker is not None and isinstance(maker.operator, WindowColumns) else None


ALONE = "copies alone"
"""Mark of copies that macro nodes of their own make."""
TOO_LARGE = "as one pixel of all of it does not fit the accumulators"


def _fits(macro: Macro, follower: Node, context: Context) -> bool:
    """Whether tiles with one node more fit, if they do without it."""
    more = Macro([*macro.nodes, follower], windows=macro.windows)
    return least_fits(more, context.shape) or not least_fits(macro, context.shape)


def _sign_beside(graph: Graph, macro: Macro) -> Node | None:
    """The node that makes bits of a result which others take as well; made on the same tile."""
    if isinstance(macro.nodes[-1].operator, LAST):
        return None
    users = graph.users(macro.output)
    return next((node for node in users if isinstance(node.operator, Sign | Threshold)), None)


def sites(graph: Graph, context: Context) -> Iterator[Site]:
    """Nodes of which one alone takes the result of the other, which is stored yet."""
    for node in graph.nodes:
        user = graph.only_user(node.output) if node.output.stored else None
        known = user is None or isinstance(user.operator, (*ELSEWHERE, NEEDED))
        if user is not None and not (known or isinstance(node.operator, ELSEWHERE)):
            yield node, user


def legal(graph: Graph, site: Site, context: Context) -> str | None:
    """Whether the last node can run behind the others, on the same tile."""
    *nodes, user = site
    last = nodes[-1]
    if graph.only_user(last.output) is not user:
        return "others take the map as well"
    if isinstance(last.operator, LAST):
        return f"nothing runs behind {last.kind} on its tile"
    if isinstance(user.operator, ELEMENTWISE):
        return None
    if isinstance(user.operator, Pool):
        if user.operator.kind != "max":
            return "a mean is made of a whole map"
        if Macro(nodes).conv is None:
            return "no convolution makes the map"
        if any(isinstance(node.operator, Pool) for node in nodes):
            return "the tile is pooled already"
        return "its windows reach over the map" if any(user.operator.window.pad) else None
    if isinstance(user.operator, Add):
        other = next((one for one in user.inputs if one is not last.output), last.output)
        if other not in context.stored:
            return "the other addend is not stored yet"
        added = any(isinstance(node.operator, Add) for node in nodes)
        return "the tile has a sum already" if added else None
    return f"no ALU computes {user.kind} of a tile"


def gain(graph: Graph, site: Site, context: Context) -> Taken | None:
    """The map between is not stored, nor loaded again."""
    return round_trip(site[-2].output, context.shape)


def apply(graph: Graph, site: Site, context: Context) -> str:
    """The map between needs no memory any more."""
    site[-2].output.stored = False
    return _joined(site)


def _joined(site: Site) -> str:
    return f"{site[-1].label}: on the tiles of {site[0].label}"


FUSE = Pass(
    "fuse", sites, legal, gain, apply,
    what="convolution, bias, requantisation, activation, max pooling, residual sum, upsampling "
    "and sign become one macro node, which stores its last map alone",
    legal_if="single users; one max pooling without padding, of a convolution; one sum, whose "
    "other addend is stored earlier",
    applied_if="one pixel of the whole fits the accumulators, else for the longest run of nodes of "
    "which one does; requantisation of sums always",
    gains="the map between: a store and a load",
)  # fmt: skip
