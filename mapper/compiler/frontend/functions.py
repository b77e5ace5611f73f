"""Read operators that compute each element of a map by a function of one real number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mapper.compiler.frontend.onnx import Handler, Made, Reader
from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.term import Term, X, affine
from storage.formats.layers.onnxgraph import OnnxNode

SELU = 1.67326319217681884765625, 1.05070102214813232421875
"""Default alpha and gamma of Selu."""
NAMED = {
    "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Softsign": "softsign",
    "Mish": "mish", "Erf": "erf", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Abs": "abs", "Sin": "sin", "Cos": "cos", "Atan": "atan",
    "Floor": "floor", "Ceil": "ceil", "Round": "round",
}  # fmt: skip
"""Names of functions without constants, by ONNX operator."""


def _hard_sigmoid(node: OnnxNode) -> Term:
    numbers = node.number("alpha", 0.2), node.number("beta", 0.5)
    return Term("hard_sigmoid", (X,), numbers)


def _hard_swish(_: OnnxNode) -> Term:
    return Term("mul", (X, Term("hard_sigmoid", (X,), (1 / 6, 0.5))))


def _exponential(node: OnnxNode) -> Term:
    """Return Elu, Selu or Celu: alpha, a factor of the whole, and a factor in the exponent."""
    if node.kind == "Selu":
        numbers = node.number("alpha", SELU[0]), node.number("gamma", SELU[1]), 1.0
    elif node.kind == "Celu":
        alpha = node.number("alpha", 1.0)
        numbers = alpha, 1.0, 1 / alpha
    else:
        numbers = node.number("alpha", 1.0), 1.0, 1.0
    return Term("exponential", (X,), numbers)


def _gelu(node: OnnxNode) -> Term:
    tanh = node.attributes.get("approximate", b"none") == b"tanh" or node.kind == "FastGelu"
    return Term("tanh_gelu" if tanh else "gelu", (X,))


def _swish(node: OnnxNode) -> Term:
    """Return Swish or QuickGelu: x * sigmoid(alpha * x)."""
    alpha = node.number("alpha", 1.702 if node.kind == "QuickGelu" else 1.0)
    return Term("mul", (X, Term("sigmoid", (affine(alpha, 0.0),))))


TERMS: dict[str, Callable[[OnnxNode], Term]] = {
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    **dict.fromkeys(("Elu", "Selu", "Celu"), _exponential),
    **dict.fromkeys(("Gelu", "FastGelu"), _gelu),
    **dict.fromkeys(("Swish", "QuickGelu"), _swish),
    "ThresholdedRelu": lambda node: Term("above", (X,), (node.number("alpha", 1.0),)),
    "Neg": lambda _: affine(-1.0, 0.0),
}


def function(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read an operator of one map."""
    data, *rest = inputs
    if any(one is not None for one in rest):
        return "it has a bias, which no core adds here"
    term = Term(NAMED[node.kind], (X,)) if node.kind in NAMED else TERMS[node.kind](node)
    return applied(reader, node, data, term)


def applied(reader: Reader, node: OnnxNode, data: View, term: Term) -> View:
    """Add a function of each element of a map."""
    return reader.like(op.Function(term), [data.tensor], node, data)


def power(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Pow with one constant exponent."""
    data, exponent = inputs
    if not isinstance(data, View) or isinstance(exponent, View) or np.size(exponent) != 1:
        return "its exponent is not one constant"
    return applied(reader, node, data, Term("power", (X,), (float(np.reshape(exponent, ())),)))


FUNCTIONS: dict[str, Handler] = {**dict.fromkeys((*NAMED, *TERMS), function), "Pow": power}
