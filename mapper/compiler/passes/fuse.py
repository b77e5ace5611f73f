"""Fusion: a layer and what the ALU does behind it become one macro node."""

from __future__ import annotations

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
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.regions import SHARES


def fuse(graph: Graph, whole: bool = True) -> list[Macro]:
    """The macro nodes of a graph of integers, in an order in which they can run.

    whole : with all that can run on the same tile; else only what makes stored integers of sums
    """
    macros: list[Macro] = []
    taken: set[int] = set()
    stored = {view.tensor for view in graph.inputs.values()}
    stored |= {
        node.output for node in graph.nodes if isinstance(node.operator, Host | Windows | Quantise)
    }
    for node in graph.nodes:
        if isinstance(node.operator, SHARES):
            stored |= set(node.outputs)
        if id(node) in taken or isinstance(
            node.operator, (Host, Windows, WindowColumns, Quantise, *SHARES)
        ):
            continue
        macro = Macro([node], windows=_windows_of(graph, node))
        while (follower := _follower(graph, macro, stored)) is not None:
            if not (whole or isinstance(follower.operator, Requantise | Threshold)):
                break
            macro.nodes.append(follower)
        macro.sign = _sign_beside(graph, macro)
        copies = [node for node in graph.users(macro.output) if isinstance(node.operator, Copy)]
        macro.copies = [node.output for node in copies]
        taken |= {id(one) for one in (*macro.nodes, *copies)}
        if macro.sign is not None:
            taken.add(id(macro.sign))
        for one in macro.nodes[:-1]:
            one.output.stored = False
        stored |= set(macro.outputs)
        macros.append(macro)
    return macros


def _windows_of(graph: Graph, node: Node) -> Node | None:
    """The node whose result the window unit makes of a map as it loads it."""
    maker = graph.maker(node.inputs[0])
    return maker if maker is not None and isinstance(maker.operator, WindowColumns) else None


def _sign_beside(graph: Graph, macro: Macro) -> Node | None:
    """The node that makes bits of a result which others take as well; made on the same tile."""
    if isinstance(macro.nodes[-1].operator, Upsample | Sign | Threshold):
        return None
    users = graph.users(macro.output)
    return next((node for node in users if isinstance(node.operator, Sign | Threshold)), None)


def _follower(graph: Graph, macro: Macro, stored: set[Tensor]) -> Node | None:
    """The node that can run behind a macro node on the same tile."""
    user = graph.only_user(macro.output)
    if user is None or isinstance(macro.nodes[-1].operator, Upsample | Sign | Threshold):
        return None
    if isinstance(user.operator, Activation | Requantise | Clamp | Upsample | Sign | Threshold):
        return user
    if isinstance(user.operator, Pool) and user.operator.kind == "max" and macro.conv is not None:
        pooled = any(isinstance(node.operator, Pool) for node in macro.nodes)
        return None if pooled or any(user.operator.window.pad) else user
    if isinstance(user.operator, Add):
        other = next((one for one in user.inputs if one is not macro.output), macro.output)
        added = any(isinstance(node.operator, Add) for node in macro.nodes)
        return user if other in stored and not added else None
    return None
