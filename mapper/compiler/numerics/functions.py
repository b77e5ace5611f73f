"""Values of functions of one real number, in float64.

The formulas follow the ONNX operators (https://onnx.ai/onnx/operators). Tables are rounded from
them, so that they do not depend on the float32 kernels of a processor.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.term import Term

Real = NDArray[np.float64]
Formula = Callable[..., Real]


def sigmoid(x: Real) -> Real:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def softplus(x: Real) -> Real:
    return np.asarray(np.logaddexp(0.0, x))


def _erf(x: Real) -> Real:
    from scipy.special import erf

    return np.asarray(erf(x))


def _tanh_gelu(x: Real) -> Real:
    return np.asarray(x * sigmoid(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _exponential(x: Real, alpha: float, scale: float, slope: float) -> Real:
    """Return scale * x for x > 0, else scale * alpha * (exp(slope * x) - 1)."""
    below = alpha * np.expm1(slope * np.minimum(x, 0.0))
    return np.asarray(scale * np.where(x > 0, x, below))


def _integer_gelu(x: Real, b: float, one: float) -> Real:
    """Return the GELU of whole numbers by a polynomial of degree two (Kim et al., 2021, I-BERT)."""
    error = np.sign(x) * (one - (np.minimum(np.abs(x), -b) + b) ** 2)
    return np.asarray(x * np.floor((one + error) / 2))


FORMULAS: MappingProxyType[str, Formula] = MappingProxyType(
    {
        "affine": lambda x, factor, offset: x * factor + offset,
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "max": np.maximum,
        "min": np.minimum,
        "divided by": lambda x, number: number / x,
        "clip": np.clip,
        "leaky": lambda x, slope: np.where(x < 0, x * slope, x),
        "above": lambda x, least: np.where(x > least, x, 0.0),
        "sigmoid": sigmoid,
        "hard_sigmoid": lambda x, factor, offset: np.clip(x * factor + offset, 0.0, 1.0),
        "tanh": np.tanh,
        "softplus": softplus,
        "softsign": lambda x: x / (1.0 + np.abs(x)),
        "exponential": _exponential,
        "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0))),
        "tanh_gelu": _tanh_gelu,
        "integer_gelu": _integer_gelu,
        "mish": lambda x: x * np.tanh(softplus(x)),
        "erf": _erf,
        "exp": np.exp,
        "log": np.log,
        "sqrt": np.sqrt,
        "reciprocal": np.reciprocal,
        "abs": np.abs,
        "power": np.power,
        "sin": np.sin,
        "cos": np.cos,
        "atan": np.arctan,
        "floor": np.floor,
        "ceil": np.ceil,
        "round": np.rint,
        "sign": np.sign,
    }
)
"""Operators of terms: functions of their operands and numbers, element by element."""


def value_of(term: Term, x: Any) -> Real:
    """Return a function of real numbers; infinite or NaN where the formula is.

    x : any shape, converted to float64
    """
    known: dict[Term, Real] = {Term("x"): np.asarray(x, np.float64)}

    def value(one: Term) -> Real:
        if one not in known:
            operands = [value(inner) for inner in one.of]
            known[one] = np.asarray(FORMULAS[one.name](*operands, *one.numbers), np.float64)
        return known[one]

    with np.errstate(all="ignore"):
        return value(term)
