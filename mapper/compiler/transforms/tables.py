"""Join elementwise integer nodes that depend on one map of bytes into one table.

Models that are already quantised store each step of x * sigmoid(x) as bytes. All of it is a
function of 256 integers, which the integer reference computes here; no result changes.
"""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import Data
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.elementwise import Group, groups, joined

NEEDED = op.Lookup | op.Product
"""Operators of which a group has at least one: others need no table."""


def join_tables(graph: Graph, context: Context) -> None:
    """Replace each group of elementwise integer nodes around a table or a product by one table."""
    for last in reversed(list(graph.nodes)):
        if last.output.type != "int8":
            continue
        for group in groups(graph, last, _is_step):
            needed = any(isinstance(one.operator, NEEDED) for one in group.nodes)
            if not needed or group.root.type != "int8":
                continue
            made = Node(op.Lookup(_entries(group)), [group.root], last.outputs, group.sources)
            joined(graph, group, made)
            context.log.add(f"{made.label}: {len(group.nodes)} nodes as one table")
            break


def _entries(group: Group) -> Data:
    """Return the results of a group for all integers of its root."""
    low, high = group.root.low, group.root.high
    known: dict[Tensor, Data] = {group.root: np.arange(low, high + 1).reshape(1, 1, -1, 1)}
    for node in group.nodes:
        found = INTEGER(node, [known[one] for one in node.inputs])
        known[node.output] = np.asarray(found)
    return known[group.nodes[-1].output].ravel()


def _is_step(node: Node) -> bool:
    match node.operator:
        case op.Requantise(how):
            parts = (how.factor, how.negative, (how.offset,))
            return all(np.size(one) == 1 for part in parts if part for one in part)
        case op.Product() | op.Add():
            return node.inputs[0].shape == node.inputs[1].shape
        case op.Lookup() | op.Clamp():
            return True
    return False
