"""Fusion: a layer and what the ALU does behind it become one macro node."""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import (
    Activation,
    Add,
    Clamp,
    Conv,
    Copy,
    Host,
    Node,
    Pool,
    Quantise,
    Requantise,
    Sign,
    Threshold,
    Upsample,
    Windows,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.regions import SHARES


def pool_sums_first(graph: Graph) -> list[str]:
    """Max pooling goes before requantisation: a quarter of the sums need a multiplication then.

    Legal where no channel's factor is negative, for requantisation never decreases then.
    """
    told = []
    for node in list(graph.nodes):
        if not isinstance(node.operator, Pool) or node.operator.kind != "max":
            continue
        maker = graph.maker(node.inputs[0])
        if maker is None or any(node.operator.window.pad):
            continue
        if not isinstance(maker.operator, Requantise) or graph.only_user(maker.output) is not node:
            continue
        before = graph.maker(maker.inputs[0])
        if before is None or not isinstance(before.operator, Conv):
            continue  # sums are never stored: they stay in the accumulators of one macro node
        how = maker.operator.how
        factors = [how.factor.m0] + ([] if how.negative is None else [how.negative.m0])
        if any((m0 < 0).any() for m0 in factors):
            continue
        sums = maker.inputs[0]
        pooled = Tensor(f"{node.output.name}.sums", node.output.shape, sums.type)
        node.inputs, maker.inputs = [sums], [pooled]
        node.outputs, maker.outputs = [pooled], node.outputs
        at = graph.nodes.index(maker)
        graph.nodes.remove(node)
        graph.nodes.insert(at, node)
        told.append(f"{node.label}: before the requantisation of {maker.label}")
    return told


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
        if id(node) in taken or isinstance(node.operator, (Host, Windows, Quantise, *SHARES)):
            continue
        macro = Macro([node])
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
