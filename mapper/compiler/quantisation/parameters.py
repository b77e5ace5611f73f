"""Scales and zero points: of maps from their ranges, of weights from their values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.compiler.ir.requantisation import Rounding
from mapper.compiler.layer_bits import Bits, Rule, rule_of
from mapper.compiler.settings import Scheme

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

HEADROOM = {8: (1.05, 1.2), 16: (2.0, 2.0)}
"""Factors of the ranges of inner tensors and of outputs: unseen samples exceed measured ranges."""
LEAST_SCALE = float(np.finfo(np.float32).tiny) * 2**30


@dataclass(frozen=True, slots=True)
class Precision:
    """Storage of numbers.

    bits, rules : bits of a layer without a rule, and bits by layer name, see `LayerBits`
    headroom : multiplies the headroom of inner tensors and of outputs
    rounding : rounding of all shifts
    zero_point : added after the "shift", or in the "bias" of layers that have one and no leaky
        activation, which needs sums without it
    raised : ONNX nodes of layers that the verification loop raised to 16 bits
    """

    bits: Bits = 8
    scheme: Scheme = "asym"
    per_channel: bool = True
    headroom: float = 1.0
    rounding: Rounding = "away"
    zero_point: Literal["shift", "bias"] = "shift"
    rules: tuple[Rule, ...] = ()
    raised: tuple[str, ...] = ()

    @property
    def is_mixed(self) -> bool:
        """Whether layers may differ in bits."""
        return bool(self.rules or self.raised)

    def of_layer(self, names: Collection[str]) -> Bits:
        """Return the bits of a layer, given by its ONNX nodes."""
        raised = not set(names).isdisjoint(self.raised)
        return 16 if raised else rule_of(self.rules, names) or self.bits


class Scaling(NamedTuple):
    """Scale and zero point: a stored integer q represents scale * (q - zero_point); scale is a
    float32.
    """

    scale: float
    zero_point: int


def scaling(low: float, high: float, bits: int, scheme: Scheme) -> Scaling:
    """Return the scaling that uses all bits of an integer for a range extended to 0."""
    low, high = min(low, 0.0), max(high, 0.0)
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if low == high:
        return Scaling(1.0, 0)  # a tensor of zeros
    if scheme == "sym":
        return Scaling(max(float(np.float32(max(-low, high) / most)), LEAST_SCALE), 0)
    scale = max(float(np.float32((high - low) / (most - least))), LEAST_SCALE)
    zero_point = int(np.rint(least - low / scale))
    return Scaling(scale, min(max(zero_point, least), most))


def quantised_weights(
    weights: NDArray[np.float32], bits: int, per_channel: bool, least: ArrayLike = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return symmetric integers, and the scale of each output channel.

    weights : shape (outputs, ...); the scale of a channel of zeros is 1
    least : lower bound of the scales, shape () or (outputs,)
    """
    most = (1 << (bits - 1)) - 1
    flat = np.abs(weights.reshape(weights.shape[0], -1)).max(1, initial=0.0)
    largest = flat if per_channel else np.full_like(flat, flat.max(initial=0.0))
    scales = np.where(largest > 0, largest / np.float32(most), 1.0).astype(np.float32)
    scales = np.maximum(scales, np.asarray(np.maximum(least, LEAST_SCALE), np.float32))
    steps = weights / scales.reshape(-1, *(1,) * (weights.ndim - 1))
    return np.clip(np.rint(steps), -most, most).astype(np.int64), scales
