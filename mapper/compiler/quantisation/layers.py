"""Integer nodes of real operators, for known scales.

Layers with weights have bounds of their sums, and a bias, which may still change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import (
    PAGES,
    Activation,
    Lookup,
    Node,
    Operator,
    Pool,
    Product,
    Requantise,
)
from mapper.compiler.ir.requantisation import Multiplier, Requantisation, Rounding
from mapper.compiler.ir.tensor import Tensor, Type, constant
from mapper.compiler.ir.term import Term
from mapper.compiler.numerics.formulas import (
    accumulator_bound,
    dequantise,
    half_away,
    quantise,
    requantise,
    rounding_shift,
    saturating_multiplier,
)
from mapper.compiler.numerics.functions import value_of
from mapper.compiler.numerics.windows import pixels
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


def product_nodes(
    data: tuple[Tensor, Tensor], result: Tensor, bounds: tuple[int, int], rounding: Rounding,
    sources: tuple[str, ...],
) -> list[Node]:  # fmt: skip
    """Return the product of two maps without their zero points, and its requantisation."""
    unit = np.float32(data[0].scale) * np.float32(data[1].scale)
    wide = max(one.bits for one in data) > 8
    shift = 2 if wide else 0  # products of two 17-bit numbers, at the multiplier of 32 bits
    factor = saturating_multiplier(unit / np.float32(result.scale) * 2.0**shift, sources[0])
    sums = Tensor(f"{result.name}.products", result.shape, "int64" if wide else "int32")
    how = Requantisation(factor, result.zero_point, *bounds, rounding, shift)
    return [
        Node(Product(), list(data), [sums], sources),
        Node(Requantise(how), [sums], [result], sources),
    ]


def table_node(
    term: Term, data: Tensor, result: Tensor, sources: tuple[str, ...], rounding: Rounding
) -> Node:
    """Return a function of real numbers as a table of stored integers; halves are rounded to even,
    as QuantizeLinear does, or away from zero.

    Raises `MapperError` if the function is not a number somewhere in the range of the data, or too
    steep for interpolation.
    """
    step = 1 if data.bits == 8 else PAGES
    at = np.arange(data.low, data.high + 1 + (step > 1), step)
    reals = value_of(term, dequantise(at, data.scale, data.zero_point))
    where = f"{sources[0]!r}: {term}"
    if np.isnan(reals).any():
        raise MapperError(
            f"{where} is not a number for some values of its input; keep {sources[0]!r} on the "
            "host with --keep"
        )
    if rounding == "even":
        entries = quantise(reals, result.scale, result.zero_point, result.bits)
    else:
        steps = np.clip(reals / result.scale, -MOST_WHOLE, MOST_WHOLE)
        entries = np.clip(half_away(steps) + result.zero_point, result.low, result.high)
    table = Lookup(entries)
    if table.interpolates and np.abs(table.slopes).max() > result.high:
        raise MapperError(
            f"{where} is too steep for a table of {PAGES} entries in 16 bits; keep {sources[0]!r} "
            "on the host with --keep, or use --bits 8"
        )
    return Node(table, [data], [result], sources)


def requantised_table(term: Term, data: Tensor, how: Requantisation) -> Int64 | None:
    """Return a function of whole numbers in 8 bits, requantised, as the entries of a table.

    None if the requantisation differs between channels.
    """
    numbers = [np.unique(one) for one in (*how.factor, how.offset)]
    if any(one.size != 1 for one in numbers):
        return None
    m0, n, offset = (one.reshape(()) for one in numbers)
    at = np.arange(data.low, data.high + 1)
    values = np.rint(value_of(term, dequantise(at, data.scale, data.zero_point))).astype(np.int64)
    return requantise(values, how._replace(factor=Multiplier(m0, n), offset=offset))
