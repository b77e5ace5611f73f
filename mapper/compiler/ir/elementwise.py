"""Elementwise nodes as functions of one real number."""

from __future__ import annotations

from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.term import Term, X, affine


def term_of(node: Node) -> Term | None:
    """Return the function of each element that a node of real numbers computes; None if it depends
    on the channel or on other elements. Nodes of two maps of the same shape are functions of two X.
    """
    constants = [one.numbers for one in node.inputs if one.value is not None]
    match node.operator:
        case op.Function(term):
            return term
        case op.Affine():
            factor, offset = constants
            if (factor != factor[0]).any() or (offset != offset[0]).any():
                return None
            return affine(float(factor[0]), float(offset[0]))
        case op.Activation(slope, low, high) if not constants:
            inner = X if slope == 1.0 else Term("leaky", (X,), (slope,))
            return Term("clip", (inner,), (low, high))
        case op.Product() | op.Add():
            same = node.inputs[0].shape == node.inputs[1].shape
            name = "mul" if isinstance(node.operator, op.Product) else "add"
            return Term(name, (X, X)) if same else None
    return None
