"""Join elementwise nodes that depend on one map into one function.

Exporters write x * sigmoid(x), x * clip(x + 3, 0, 6) / 6 or x * (1 + erf(x / sqrt(2))) / 2 as
several nodes. A core computes any of them by one table.
"""

from __future__ import annotations

from mapper.compiler.ir import node as op
from mapper.compiler.ir.elementwise import term_of
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.term import Term, X
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.elementwise import Group, groups, joined

NEEDED = op.Function | op.Product
"""Operators of which a group has at least one: others need no table."""


def join_functions(graph: Graph, context: Context) -> None:
    """Replace each group of elementwise nodes around a function or a product by one function."""
    for last in reversed(list(graph.nodes)):
        for group in groups(graph, last, lambda node: term_of(node) is not None):
            if not any(isinstance(one.operator, NEEDED) for one in group.nodes):
                continue
            term = _term(group)
            made = Node(op.Function(term), [group.root], last.outputs, group.sources)
            joined(graph, group, made)
            context.log.add(f"{made.label}: {len(group.nodes)} nodes as {term}")
            break


def _term(group: Group) -> Term:
    """Return a group as a function of its root."""
    known: dict[Tensor, Term] = {group.root: X}
    for node in group.nodes:
        step = term_of(node)
        assert step is not None
        inner = tuple(known[one] for one in node.inputs if one.value is None)
        known[node.output] = step(inner[0]) if len(inner) == 1 else Term(step.name, inner)
    return known[group.nodes[-1].output]
