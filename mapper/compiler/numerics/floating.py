"""Floating-point implementation of the operators."""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Node
from mapper.compiler.numerics.binary import applied, levels_of, signs, steps_of
from mapper.compiler.numerics.execute import Data, Rule, moved, on_host
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.numerics.functions import value_of
from mapper.compiler.numerics.windows import convolve, kernel_of, pixels, windows


def _computed(node: Node, inputs: list[Data]) -> Data | list[Data]:
    if isinstance(node.operator, op.Host):
        return on_host(node, inputs)
    x, *rest = inputs
    match node.operator:
        case op.Conv() | op.Dense():
            sums = convolve(x, rest[0], *kernel_of(node.operator, rest[0]), 0.0)
            return sums + rest[1] if len(rest) > 1 else sums
        case op.Pool("max", window):
            return np.asarray(windows(x, window, -np.inf).max((4, 5)))
        case op.Pool(_, window, count_pad):
            means = windows(x, window, 0.0).sum((4, 5), dtype=np.float32)
            if count_pad:
                return np.asarray(means / np.float32(window.size[0] * window.size[1]))
            count = pixels(x.shape[1], x.shape[2], window)
            return np.asarray(means / count[None, :, :, None].astype(np.float32))
        case op.Activation(slope, low, high):
            slopes = rest[0] if rest else np.float32(slope)
            return np.clip(np.where(x < 0, x * slopes, x), low, high).astype(x.dtype)
        case op.Affine():
            factor, offset = (one.astype(x.dtype) for one in rest)
            return x * factor + offset
        case op.Function(term):
            return value_of(term, x).astype(x.dtype)
        case op.Add():
            return x + rest[0]
        case op.Product():
            return x * rest[0]
        case op.Sign(scale):
            return (signs(applied(steps_of(node), x)) * scale).astype(x.dtype)
        case op.Levels() as how:
            return dequantise(levels_of(x, steps_of(node), how), how.scale, how.stored_zero)
        case op.PadMap(pad, value):
            around = ((0, 0), (pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
            return np.pad(x, around, constant_values=value)
    return moved(node, inputs)


FLOATING: Rule = _computed
"""Computes a node of real numbers."""
