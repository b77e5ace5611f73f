"""Layers that are constant because their scales differ too much: exact factors and a note for each.

A factor below 2^-40 rounds every sum to 0; a factor of 2^24 or more clips every nonzero sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.requantisation import AddFactors
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.formulas import LEAST_FACTOR, MOST_FACTOR, add_factors

NEGLIGIBLE = 2.0**-20  # quantisation steps of the result
BIAS_STEP = 2.0**-10  # steps of the result, for channels that consist of the bias alone
MOST_BIAS = float(1 << 29)  # quantisation steps of the sums
LEAST_UNIT = float(np.finfo(np.float32).smallest_subnormal)


def sum_factors(a: Tensor, b: Tensor, result: Tensor, where: str) -> AddFactors:
    """Return the factors of two addends; sums outside the range of any shift become 0 or
    saturate."""
    bits = result.bits
    ratios = [one.scale / result.scale for one in (a, b)]
    largest = max(ratios)
    addends = (a.scale, a.zero_point), (b.scale, b.zero_point)
    if largest < LEAST_FACTOR / 4:
        return AddFactors(0, 0, 0, 0)
    wanted = 21 if bits == 8 else 13
    beyond = float(np.ldexp(1.0, int(np.frexp(largest)[1]) - wanted))
    if beyond > 1:
        made = add_factors(*addends, result.scale * beyond, bits, where)
        kept = zip((made.a, made.b), ratios, strict=True)
        if all(m >= 1 << bits or ratio * 2**bits < NEGLIGIBLE for m, ratio in kept):
            return made
    return add_factors(*addends, result.scale, bits, where)


def without_products(
    weights: NDArray[np.int64], unit: NDArray[np.float32], bias: NDArray[np.float64], result: Tensor
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return weights and unit of the sums, without products that are negligible next to the bias.

    Where the bias exceeds the accumulator, the weights of the channel become 0 and the unit is
    chosen for the bias.

    weights : shape (outputs, ...); unit : real number that 1 stands for in the sums, shape
        (outputs,); bias : real numbers
    """
    magnitude = np.abs(weights).reshape(len(weights), -1).sum(1) * 2.0**result.bits
    wide = unit.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        large = ~(np.abs(bias / wide) <= MOST_BIAS) & (bias != 0)
    alone = large & (magnitude * wide / result.scale < NEGLIGIBLE)
    fitting = np.maximum(result.scale * BIAS_STEP, np.abs(bias) / MOST_BIAS)
    kept = np.where(alone.reshape(-1, *(1,) * (weights.ndim - 1)), 0, weights)
    return kept, np.where(alone, fitting, np.maximum(wide, LEAST_UNIT)).astype(np.float32)


def note_constant(
    graph: Graph, name: str, scales: Sequence[tuple[Tensor, ArrayLike]], result: Tensor
) -> None:
    """Add a note that a layer is constant, once for each scale that causes it.

    name : layer; scales : scales of its operands, at most one per channel
    """
    sizes = [np.atleast_1d(np.asarray(scale, np.float64)) for _, scale in scales]
    factors = np.prod(np.stack(np.broadcast_arrays(*sizes)), axis=0) / result.scale
    dead = (factors < LEAST_FACTOR) | (factors > MOST_FACTOR)
    if not dead.any():
        return
    given = [(tensor, float(one)) for (tensor, _), each in zip(scales, sizes, strict=True)
             for one in (each.min(), each.max())]  # fmt: skip
    cause, scale = max([*given, (result, result.scale)], key=lambda one: abs(math.log2(one[1])))
    if cause in graph.constant_scales:
        return
    graph.constant_scales.add(cause)
    whose = "it" if dead.all() else f"{int(dead.sum())} of its {dead.size} channels"
    graph.notes.append(f"layer {name!r}: its scale {scale:.3g} makes {whose} constant")
