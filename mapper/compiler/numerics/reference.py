"""Integer reference of the operators, which programs are compared with.

Frames are int64. Products are summed in float64, which is exact for integers up to 2^53
(accumulators are bounded by 2^47), or in float32 if a layer's sums stay below 2^24. Graphs that mix
real numbers and stored integers use the rules of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Node
from mapper.compiler.numerics.binary import Thresholds, signs, stored_input
from mapper.compiler.numerics.execute import Data, Rule, moved, on_host
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.formulas import (
    added,
    dequantise,
    looked_up,
    quantise,
    real_numbers,
    requantise,
)
from mapper.compiler.numerics.windows import (
    columns_of_windows,
    convolve,
    kernel_of,
    pixels,
    pixels_of_windows,
    windows,
)


def _computed(node: Node, inputs: list[Data]) -> Data | list[Data]:
    """Return the result of a node of integers. Padding is the zero point of the input."""
    if isinstance(node.operator, op.Host):
        pairs = zip(node.inputs, inputs, strict=True)
        return on_host(node, [
            data if tensor.type == "float32" else real_numbers(data, tensor)
            for tensor, data in pairs
        ])  # fmt: skip
    (x, *rest), tensor, made = inputs, node.inputs[0], node.output
    match node.operator:
        case op.Conv() | op.Dense():  # the bias includes the zero point of the input
            maps = x.astype(_exact(x, rest[0], tensor.zero_point))
            window, groups = kernel_of(node.operator, rest[0])
            sums = convolve(maps, rest[0], window, groups, tensor.zero_point).astype(np.int64)
            sums += rest[1]
            return sums
        case op.Pool("max", window):
            return np.asarray(windows(x, window, tensor.low).max((4, 5)))
        case op.Pool(_, window):  # sums over the pixels without their zero points
            count = pixels(x.shape[1], x.shape[2], window)[None, :, :, None]
            return np.asarray(windows(x, window, 0).sum((4, 5)) - count * tensor.zero_point)
        case op.Windows(window):
            return pixels_of_windows(x, window, tensor.zero_point)
        case op.WindowColumns(window):
            return columns_of_windows(x, window, tensor.zero_point)
        case op.Requantise(how):
            return requantise(x, how)
        case op.Threshold(least, flip):
            return Thresholds(least, flip).bits(x)
        case op.Sign():
            return signs(x, tensor.zero_point)
        case op.Add(factors, low, high, rounding):
            assert factors is not None
            return added(x, rest[0], factors, made.zero_point, low, high, rounding)
        case op.Product():
            return (x - tensor.zero_point) * (rest[0] - node.inputs[1].zero_point)
        case op.Lookup():
            return looked_up(x, node.operator)
        case op.Clamp(low, high):
            return np.clip(x, low, high)
        case op.Quantise(None):
            return quantise(x, made.scale, made.zero_point, made.bits)
        case op.Quantise(levels):
            assert levels is not None
            return stored_input(Node(levels, node.inputs, [made], node.sources), x)
    return moved(node, inputs)


def _exact(maps: Data, weights: Data, zero_point: int) -> type[np.floating[Any]]:
    """Return the smallest type in which all partial sums are exact, in any order."""
    most = max(int(maps.max(initial=0)), -int(maps.min(initial=0)), abs(zero_point))
    sums = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(1)
    return np.float32 if most * int(sums.max(initial=0)) < 1 << 24 else np.float64


ALWAYS_REAL = op.Activation | op.Affine | op.Function | op.Levels | op.PadMap
EITHER = (
    op.Add | op.Conv | op.Dense | op.MOVES | op.Pool | op.Product | op.Sign
)  # fmt: skip


def _mixed(node: Node, inputs: list[Data]) -> Data | list[Data]:
    """Return the result of a node of real numbers or integers, by the type of its input."""
    if isinstance(node.operator, op.Dequantise):
        return dequantise(inputs[0], node.inputs[0].scale, node.inputs[0].zero_point)
    real = isinstance(node.operator, EITHER) and node.inputs[0].type == "float32"
    rule = FLOATING if real or isinstance(node.operator, ALWAYS_REAL) else INTEGER
    return rule(node, inputs)


INTEGER: Rule = _computed
"""Computes a node of integers."""
MIXED: Rule = _mixed
"""Computes a node of real numbers or integers; nodes that convert between them are explicit."""
