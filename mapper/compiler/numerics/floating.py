"""Floating-point implementation of the operators."""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Node
from mapper.compiler.numerics.binary import applied, signs, steps_of
from mapper.compiler.numerics.execute import Data, Rules, concatenated, on_host, sliced
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.numerics.levels import levels_of
from mapper.compiler.numerics.windows import convolve, kernel_of, pixels, windows


def conv(node: Node, inputs: list[Data]) -> Data:
    window, groups = kernel_of(node.operator, inputs[1])
    sums = convolve(inputs[0], inputs[1], window, groups, 0.0)
    return sums + inputs[2] if len(inputs) > 2 else sums


def pool(node: Node, inputs: list[Data]) -> Data:
    operator = node.operator
    assert isinstance(operator, op.Pool)
    if operator.kind == "max":
        return np.asarray(windows(inputs[0], operator.window, -np.inf).max((4, 5)))
    sums = windows(inputs[0], operator.window, 0.0).sum((4, 5), dtype=np.float32)
    if operator.count_pad:
        return np.asarray(sums / np.float32(operator.window.size[0] * operator.window.size[1]))
    count = pixels(inputs[0].shape[1], inputs[0].shape[2], operator.window)
    return np.asarray(sums / count[None, :, :, None].astype(np.float32))


def activation(node: Node, inputs: list[Data]) -> Data:
    operator = node.operator
    assert isinstance(operator, op.Activation)
    x = inputs[0]
    slope = inputs[1] if len(inputs) > 1 else np.float32(operator.slope)
    return np.clip(np.where(x < 0, x * slope, x), operator.low, operator.high).astype(x.dtype)


def affine(_: Node, inputs: list[Data]) -> Data:
    x, factor, offset = inputs
    return x * factor.astype(x.dtype) + offset.astype(x.dtype)


def sign(node: Node, inputs: list[Data]) -> Data:
    assert isinstance(node.operator, op.Sign)
    found = signs(applied(steps_of(node), inputs[0])) * node.operator.scale
    return found.astype(inputs[0].dtype)


def levels(node: Node, inputs: list[Data]) -> Data:
    how = node.operator
    assert isinstance(how, op.Levels)
    stored = levels_of(inputs[0], steps_of(node), how)
    return dequantise(stored, how.scale, how.stored_zero)


def upsample(node: Node, inputs: list[Data]) -> Data:
    assert isinstance(node.operator, op.Upsample)
    return inputs[0].repeat(node.operator.rows, 1).repeat(node.operator.columns, 2)


def pad(node: Node, inputs: list[Data]) -> Data:
    operator = node.operator
    assert isinstance(operator, op.PadMap)
    t, b, left, right = operator.pad
    around = ((0, 0), (t, b), (left, right), (0, 0))
    return np.pad(inputs[0], around, constant_values=operator.value)


FLOATING: Rules = {
    op.Conv: conv,
    op.Dense: conv,
    op.Pool: pool,
    op.Activation: activation,
    op.Affine: affine,
    op.Add: lambda _, inputs: inputs[0] + inputs[1],
    op.Concat: concatenated,
    op.Slice: sliced,
    op.Sign: sign,
    op.Levels: levels,
    op.Upsample: upsample,
    op.PadMap: pad,
    op.Host: on_host,
}
