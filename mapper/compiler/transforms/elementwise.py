"""Groups of elementwise nodes that together are a function of one map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor

IsStep = Callable[[Node], bool]
"""Returns whether each element of a node's result depends on that element of its maps only, in the
same way for all elements."""


class Group(NamedTuple):
    """Nodes in order; only the last result has users outside. root : the map that they read"""

    root: Tensor
    nodes: list[Node]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for node in self.nodes for name in node.sources))


def groups(graph: Graph, last: Node, is_step: IsStep) -> Iterator[Group]:
    """Yield the groups of several nodes that end at a node, the largest first."""
    if not is_step(last):
        return
    for root in _roots(graph, last, is_step):
        known: dict[Tensor, bool] = {root: True}
        if _depends(graph, last.output, is_step, known):
            nodes = [one for one in graph.nodes if known.get(one.output) and one.output is not root]
            if len(nodes) > 1 and _is_closed(graph, nodes):
                yield Group(root, nodes)


def joined(graph: Graph, group: Group, made: Node) -> None:
    """Replace the nodes of a group by one node."""
    graph.nodes[graph.nodes.index(group.nodes[-1])] = made
    graph.nodes = [one for one in graph.nodes if one not in group.nodes]


def _maps(node: Node) -> list[Tensor]:
    return [tensor for tensor in node.inputs if tensor.value is None]


def _roots(graph: Graph, last: Node, is_step: IsStep) -> list[Tensor]:
    """Return the maps that a node may be a function of, the earliest first."""
    found: list[Tensor] = []
    todo = _maps(last)
    while todo:
        tensor = todo.pop()
        if tensor in found:
            continue
        found.append(tensor)
        maker = graph.maker(tensor)
        if maker is not None and is_step(maker):
            todo += _maps(maker)
    order = {one: at for at, node in enumerate(graph.nodes) for one in node.outputs}
    return sorted(found, key=lambda one: order.get(one, -1))


def _depends(graph: Graph, tensor: Tensor, is_step: IsStep, known: dict[Tensor, bool]) -> bool:
    """Return whether a tensor depends on the root alone; `known` has this for tensors between."""
    if tensor not in known:
        maker = graph.maker(tensor)
        if maker is None or not is_step(maker):
            known[tensor] = False
        else:
            known[tensor] = all(_depends(graph, one, is_step, known) for one in _maps(maker))
    return known[tensor]


def _is_closed(graph: Graph, nodes: list[Node]) -> bool:
    """Return whether only the last result is read outside."""
    return all(
        not graph.is_output(one.output) and all(user in nodes for user in graph.users(one.output))
        for one in nodes[:-1]
    )
