"""Integer reference of the operators, which programs are compared with.

Frames are int64. Products are summed in float64, which is exact for integers up to 2^53
(accumulators are bounded by 2^47), or in float32 if a layer's sums stay below 2^24. Graphs that mix
real numbers and stored integers use the rules of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Dequantise, Host, Node, Operator
from mapper.compiler.numerics.binary import Thresholds, signs
from mapper.compiler.numerics.execute import (
    Data,
    Rule,
    Rules,
    concatenated,
    copied,
    on_host,
    sliced,
)
from mapper.compiler.numerics.floating import FLOATING, upsample
from mapper.compiler.numerics.formulas import added, dequantise, quantise, real_numbers, requantise
from mapper.compiler.numerics.levels import stored_input
from mapper.compiler.numerics.windows import (
    columns_of_windows,
    convolve,
    kernel_of,
    pixels,
    pixels_of_windows,
    windows,
)


def conv(node: Node, inputs: list[Data]) -> Data:
    """Return sums with a bias that includes the input's zero point; padding is the zero point."""
    window, groups = kernel_of(node.operator, inputs[1])
    zero_point = node.inputs[0].zero_point
    maps = inputs[0].astype(_exact(inputs[0], inputs[1], zero_point))
    sums = convolve(maps, inputs[1], window, groups, zero_point).astype(np.int64)
    sums += inputs[2]
    return sums


def _exact(maps: Data, weights: Data, zero_point: int) -> type[np.floating[Any]]:
    """Return the smallest type in which all partial sums are exact, in any order."""
    most = max(int(maps.max(initial=0)), -int(maps.min(initial=0)), abs(zero_point))
    sums = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(1)
    return np.float32 if most * int(sums.max(initial=0)) < 1 << 24 else np.float64


def pool(node: Node, inputs: list[Data]) -> Data:
    """Return maxima; or, for averages, sums over the pixels without their zero points."""
    operator, tensor = node.operator, node.inputs[0]
    assert isinstance(operator, op.Pool)
    if operator.kind == "max":
        return np.asarray(windows(inputs[0], operator.window, tensor.low).max((4, 5)))
    sums = windows(inputs[0], operator.window, 0).sum((4, 5))
    count = pixels(inputs[0].shape[1], inputs[0].shape[2], operator.window)
    return np.asarray(sums - count[None, :, :, None] * tensor.zero_point)


def made_windows(node: Node, inputs: list[Data]) -> Data:
    """Return the pixels of each window; padding is the zero point."""
    assert isinstance(node.operator, op.Windows)
    return pixels_of_windows(inputs[0], node.operator.window, node.inputs[0].zero_point)


def made_columns(node: Node, inputs: list[Data]) -> Data:
    """Return the pixels of each window in the order of the window unit."""
    assert isinstance(node.operator, op.WindowColumns)
    return columns_of_windows(inputs[0], node.operator.window, node.inputs[0].zero_point)


def unfolded(node: Node, inputs: list[Data]) -> Data:
    """Return columns in the channels of a pixel as pixels."""
    return inputs[0].reshape(len(inputs[0]), *node.output.shape[1:])


def requantised(node: Node, inputs: list[Data]) -> Data:
    assert isinstance(node.operator, op.Requantise)
    return requantise(inputs[0], node.operator.how)


def thresholded(node: Node, inputs: list[Data]) -> Data:
    """Return +1 and -1 from sums."""
    assert isinstance(node.operator, op.Threshold)
    return Thresholds(node.operator.least, node.operator.flip).bits(inputs[0])


def add(node: Node, inputs: list[Data]) -> Data:
    how, made = node.operator, node.output
    assert isinstance(how, op.Add)
    assert how.factors is not None
    a, b = inputs
    return added(a, b, how.factors, made.zero_point, how.low, how.high, how.rounding)


def clamp(node: Node, inputs: list[Data]) -> Data:
    assert isinstance(node.operator, op.Clamp)
    return np.clip(inputs[0], node.operator.low, node.operator.high)


def of_real_numbers(node: Node, inputs: list[Data]) -> Data:
    made, operator = node.output, node.operator
    assert isinstance(operator, op.Quantise)
    if operator.levels is not None:
        return stored_input(Node(operator.levels, node.inputs, [made], node.sources), inputs[0])
    return quantise(inputs[0], made.scale, made.zero_point, made.bits)


def on_real_numbers(node: Node, inputs: list[Data]) -> list[Data]:
    """Run a host node on the real numbers of stored integers."""
    pairs = zip(node.inputs, inputs, strict=True)
    real = [
        data if tensor.type == "float32" else real_numbers(data, tensor) for tensor, data in pairs
    ]
    return on_host(node, real)


INTEGER: Rules = {
    op.Conv: conv,
    op.Dense: conv,
    op.Pool: pool,
    op.Requantise: requantised,
    op.Threshold: thresholded,
    op.Sign: lambda node, inputs: signs(inputs[0], node.inputs[0].zero_point),
    op.Add: add,
    op.Clamp: clamp,
    op.Concat: concatenated,
    op.Slice: sliced,
    op.Copy: copied,
    op.Unfold: unfolded,
    op.Upsample: upsample,
    op.Quantise: of_real_numbers,
    op.Host: on_real_numbers,
    op.Windows: made_windows,
    op.WindowColumns: made_columns,
}


def _either(kind: type[Operator]) -> Rule:
    """Return a rule that selects the floating-point or integer rule by the type of the input."""

    def rule(node: Node, inputs: list[Data]) -> Data | list[Data]:
        real = node.inputs[0].type == "float32"
        return (FLOATING if real else INTEGER)[kind](node, inputs)

    return rule


def _real(node: Node, inputs: list[Data]) -> Data:
    data = node.inputs[0]
    return dequantise(inputs[0], data.scale, data.zero_point)


MIXED: Rules = {
    **INTEGER,
    **FLOATING,
    **{kind: _either(kind) for kind in FLOATING if kind in INTEGER},
    Host: INTEGER[Host],
    Dequantise: _real,
}
"""Rules for real numbers and integers; nodes that convert between them are explicit."""
