"""Integer nodes of real operators, for known scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.ir.node import Activation, Node, Operator, Pool, Requantise
from mapper.compiler.ir.requantisation import Requantisation, Rounding
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.formulas import quantise, saturating_multiplier
from mapper.compiler.numerics.windows import pixels


def bounds_of(activation: Node | None, result: Tensor) -> tuple[int, int]:
    """Return the bounds of an activation within the type, in stored integers."""
    low, high = result.low, result.high
    if activation is not None:
        how = activation.operator
        assert isinstance(how, Activation)
        if how.slope == 0.0 and len(activation.inputs) == 1:
            low = max(low, result.zero_point)
        ends = quantise([how.low, how.high], result.scale, result.zero_point, result.bits)
        low, high = max(low, int(ends[0])), min(high, int(ends[1]))
    return low, high


def slope_of(activation: Node | None) -> Any:
    """Return the slope of negative sums of a leaky activation; None for clipping (slope 0 or 1)."""
    if activation is None:
        return None
    how = activation.operator
    assert isinstance(how, Activation)
    slope: Any = activation.inputs[1].value if len(activation.inputs) > 1 else how.slope
    leaky = np.any(np.asarray(slope) != 0.0) and np.any(np.asarray(slope) != 1.0)
    return slope if leaky else None


def mean_nodes(
    operator: Operator, data: Tensor, result: Tensor, bounds: tuple[int, int], rounding: Rounding,
    sources: tuple[str, ...],
) -> list[Node]:  # fmt: skip
    """Return sums over windows minus zero points, and their requantisation.

    At borders, averages may include fewer pixels; then each pixel has a factor.
    """
    assert isinstance(operator, Pool)
    count = pixels(data.height, data.width, operator.window)
    whole = operator.window.size[0] * operator.window.size[1]
    over = np.full_like(count, whole) if operator.count_pad else count
    over = over[:, :, None] if np.unique(over).size > 1 else over.max()
    ratio = data.scale / (result.scale * np.asarray(over, np.float64))
    sums = Tensor(f"{result.name}.sums", result.shape, "int32")
    how = Requantisation(
        saturating_multiplier(ratio, sources[0]), result.zero_point, *bounds, rounding
    )
    return [
        Node(operator, [data], [sums], sources),
        Node(Requantise(how), [sums], [result], sources),
    ]


def requantised(
    data: Tensor, result: Tensor, bounds: tuple[int, int], sources: tuple[str, ...],
    rounding: Rounding = "even",
) -> Node:  # fmt: skip
    """Return a node that changes the scale of stored integers; its offset includes their zero
    point.
    """
    ratio = np.float32(data.scale) / np.float32(result.scale)
    factor = saturating_multiplier(ratio, sources[0])
    how = Requantisation(
        factor, result.zero_point, *bounds, rounding, offset=-data.zero_point * factor.m0
    )
    return Node(Requantise(how), [data], [result], sources)
