"""Layers with weights: bounds of their sums, and their bias, which may still change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Node, Requantise
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Tensor, Type, constant
from mapper.compiler.numerics.formulas import (
    accumulator_bound,
    rounding_shift,
    saturating_multiplier,
)
from mapper.errors import MapperError

Int64 = NDArray[np.int64]

ACCUMULATOR = {8: 31, 16: 47}
"""Bits, without the sign, of the accumulator for stored integers of a given width."""
MOST_WHOLE = (1 << 31) - 1
MULTIPLIED = 31  # bits, without the sign, of a sum at the multiplier input


@dataclass(slots=True, eq=False)
class WeightLayer:
    """A layer with weights, in floating point and in integers.

    real : tensor of the floating-point graph: result of the layer, after its activation
    conv, requantise : the two nodes of the integer graph that compute it
    unit : float64, shape (outputs,): real number that 1 stands for in the sums
    slope : factor of negative sums (leaky ReLU): a number, or shape (outputs,); None if there is
        none
    """

    real: Tensor
    conv: Node
    requantise: Node
    unit: NDArray[np.float64]
    slope: Any = None

    @property
    def result(self) -> Tensor:
        return self.requantise.output

    @property
    def bias(self) -> Int64:
        """Bias including the folded zero point of the input; int64, shape (outputs,)."""
        return self.conv.inputs[2].numbers

    def set_bias(self, bias: Int64) -> None:
        """Replace the folded bias, and adapt the shift before the multiplier.

        Raises `MapperError` that names layer and channel if sums no longer fit an accumulator.
        """
        weights, bits = self.conv.inputs[1].numbers, self.conv.inputs[0].bits
        assert isinstance(self.requantise.operator, Requantise)
        fitted, shift = fitted_bias(weights, bias, bits, self.conv.label)
        how = requantisation(self.requantise.operator.how, self, shift)
        self.conv.inputs[2] = replace(self.conv.inputs[2], value=fitted)
        self.requantise.operator = Requantise(how)


def requantisation(how: Requantisation, layer: WeightLayer, shift: int) -> Requantisation:
    """Return the requantisation of a layer whose sums are shifted by `shift` first."""
    factor = layer.unit / layer.result.scale * 2.0**shift
    where = layer.conv.label
    negative = None if layer.slope is None else saturating_multiplier(factor * layer.slope, where)
    return how._replace(factor=saturating_multiplier(factor, where), shift=shift, negative=negative)


def scales_for_bias(
    bias: NDArray[np.float64], data: Tensor, result: Tensor, count: int
) -> NDArray[np.float64]:
    """Return the least weight scales with which each bias uses at most half of an accumulator.

    Shape (outputs,); 0 where they would visibly round the weights.

    count : weights per output
    """
    least = np.abs(bias) / 2.0 ** (ACCUMULATOR[data.bits] - 1) / data.scale
    error = least / 2 * data.scale * count * 2.0 ** (data.bits - 1)
    return np.where(error <= result.scale / 16, least, 0.0)


def fitted_bias(weights: Int64, bias: Int64, bits: int, where: str) -> tuple[Int64, int]:
    """Return the bias as a multiple of 2^shift, and the shift with which sums fit the multiplier.

    The shift is 0 in 8 bit. Raises `MapperError` if sums can exceed an accumulator.
    """
    shift = 0
    while True:
        fitted = rounding_shift(bias, shift, "away") << shift
        needed = required_shift(weights, fitted, bits, where)
        if needed <= shift:
            return fitted, shift
        shift = needed


def finite_weights(node: Node) -> NDArray[Any]:
    """Return the real weights of a layer; raise `MapperError` for NaN and infinite ones."""
    weights = node.inputs[1].numbers
    if not np.isfinite(weights).all():
        raise MapperError(f"{node.label}: its weights are not finite")
    return weights


def real_bias(node: Node) -> NDArray[np.float64]:
    """Return the real bias of a layer, shape (outputs,); zeros if it has none."""
    if len(node.inputs) < 3:
        return np.zeros(node.inputs[1].shape[0])
    return np.asarray(node.inputs[2].numbers, np.float64)


def constants_of(node: Node, weights: Int64, bias: Int64, kind: Type, wide: Type) -> list[Tensor]:
    """Return the integer weights and bias of a layer as tensors.

    kind, wide : types of the weights and of the bias
    """
    names = node.inputs[1].name, f"{node.sources[0]}.bias"
    return [constant(names[0], weights, kind), constant(names[1], bias, wide)]


def require_whole_sums(weights: Int64, bias: Int64, bits: int, where: str) -> Int64:
    """Return an upper bound of the magnitude of the sums of each channel.

    Raises `MapperError` if they can exceed 32 bits, the width of thresholds and of host inputs.
    """
    bounds = accumulator_bound(weights, bias, bits)
    worst = int(bounds.argmax())
    if int(bounds[worst]) > MOST_WHOLE:
        raise MapperError(
            f"{where}: sums of channel {worst} can reach {int(bounds[worst]):,}, and are compared "
            f"in 32 bits; split the layer, or give it fewer inputs"
        )
    return bounds


def required_shift(weights: Int64, bias: Int64, bits: int, where: str) -> int:
    """Return the bits by which sums are shifted to fit the multiplier, including rounding up.

    Raises `MapperError` that names layer, channel and bound if they can exceed an accumulator.
    """
    bounds = accumulator_bound(weights, bias, bits)
    worst = int(bounds.argmax())
    bound = int(bounds[worst])
    if bound >= 1 << ACCUMULATOR[bits]:
        raise MapperError(
            f"{where}: sums of channel {worst} can reach {bound:,}, an accumulator "
            f"holds {1 << ACCUMULATOR[bits]:,}; split the layer, or give it fewer inputs"
        )
    shift = max(0, bound.bit_length() - MULTIPLIED) if bits == 16 else 0
    # a bound just below a power of two rounds up to it
    return shift + int(shift > 0 and int(rounding_shift(bound, shift, "away")) >= 1 << MULTIPLIED)
