"""Parameters of the cores' integer arithmetic, which `mapper.compiler.numerics` defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Rounding = Literal["away", "up", "even", "floor"]

ROUNDINGS: tuple[Rounding, ...] = ("away", "up", "even", "floor")
"""Roundings by their number in parameter records."""


class Multiplier(NamedTuple):
    """A real factor m0 * 2^-n; m0 has 24 bits and a sign.

    m0, n : int64, shape () or (channels,)
    """

    m0: Int64
    n: Int64


class Requantisation(NamedTuple):
    """Conversion of sums to stored integers.

    factor : factor of sums; of sums >= 0 only if `negative` is set
    zero_point : zero point of the result, added after the shift
    low, high : inclusive bounds
    rounding : rounding of both shifts
    shift : right shift of sums before the multiplication (16 bit)
    offset : added to the product; 0 except for low-bit imports
    negative : factor of negative sums (leaky ReLU), or None
    """

    factor: Multiplier
    zero_point: int
    low: int
    high: int
    rounding: Rounding = "away"
    shift: int = 0
    offset: int | Int64 = 0
    negative: Multiplier | None = None

    def changed(self, change: Callable[[Any], Any]) -> Requantisation:
        """Return it for other channels: `change` is applied to m0, n and the offset."""
        factor, negative = (
            one and Multiplier(*map(change, one)) for one in (self.factor, self.negative)
        )
        assert factor is not None
        return self._replace(factor=factor, offset=change(self.offset), negative=negative)

    def chosen(self, channels: Any) -> Requantisation:
        """Return it for some channels; channels : an index of arrays of one number per channel"""

        def some(values: Any) -> Int64:
            values = np.asarray(values)
            return values[channels] if values.ndim == 1 and values.size > 1 else values

        return self.changed(some)


class AddFactors(NamedTuple):
    """Integer factors of two addends with different scales, and the shift after them."""

    a: int
    b: int
    shift: int
    constant: int
