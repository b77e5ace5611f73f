"""Unit for storing real weights as integers in varints.

Integer sums are exact and independent of order, so results are equal for any number of threads.
Integers and decimals are stored exactly; other values keep 24 bits relative to the largest one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError

MAX_DECIMALS = 6
ROUNDING = 2.0**-50  # relative error of a decimal and its product: four ulps of a float64
RELATIVE_BITS = 24
SMALLEST_EXPONENT = -1074  # smallest exponent of a nonzero float64
MAX_ERROR = 1e300  # limit of the reported relative error: quotients can overflow
MAX_STORED = 2.0**52  # sums of two thousand such values fit in int64


class UnitFinder:
    """Observes all values of a stream in chunks, then chooses the unit that stores them best."""

    def __init__(self) -> None:
        self._largest = 0.0
        self._decimals = 0

    def observe(self, values: NDArray[np.integer] | NDArray[np.floating], what: str) -> None:
        """Observe a chunk; raise `BadInputError` for NaN, infinite or negative values."""
        if not values.size:
            return
        if not any(values.strides):  # one value for all
            values = values[:1]
        lowest, highest = values.min(), values.max()  # NaN passes through min and max
        for end in (lowest, highest):
            if not np.isfinite(end):
                raise BadInputError(f"{what} {end} is not finite; give finite values")
        if lowest < 0:
            raise BadInputError(
                f"{what} {lowest} is negative, but traffic cannot be; use its magnitude"
            )
        self._largest = max(self._largest, float(highest))
        if np.issubdtype(values.dtype, np.integer):
            return
        while self._decimals <= MAX_DECIMALS:
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # overflow above 1e302: not decimal then
                scaled = values * 10.0**self._decimals
                if np.all(np.abs(scaled - np.rint(scaled)) <= ROUNDING * scaled):
                    break
            self._decimals += 1

    def join(self, other: UnitFinder) -> None:
        """Include the observations of another finder."""
        self._largest = max(self._largest, other._largest)
        self._decimals = max(self._decimals, other._decimals)

    def unit(self) -> float:
        """Return the value of one stored unit: 1, 0.1 .. 10^-6, or a power of two."""
        if self._decimals <= MAX_DECIMALS and self._largest * 10**self._decimals < MAX_STORED:
            return 1.0 if self._decimals == 0 else float(f"1e-{self._decimals}")
        if self._largest == 0:
            return 1.0
        return 2.0 ** max(math.frexp(self._largest)[1] - RELATIVE_BITS, SMALLEST_EXPONENT)


class Rounding(NamedTuple):
    """Rounding of values that are not a whole number of units.

    raised : number of positive values below half a unit, raised to one unit
    rounded : number of inexact values, including raised ones
    error : largest relative error of a value
    """

    raised: int = 0
    rounded: int = 0
    error: float = 0.0

    def joined(self, other: Rounding) -> Rounding:
        """Return the rounding of both sets of values."""
        return Rounding(
            self.raised + other.raised, self.rounded + other.rounded, max(self.error, other.error)
        )


def to_units(
    values: NDArray[np.integer] | NDArray[np.floating], unit: float
) -> tuple[NDArray[np.int64], Rounding]:
    """Return values as whole numbers of units, and their rounding."""
    if unit == 1.0 and np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64, copy=False), Rounding()
    stored = np.rint(values / unit).astype(np.int64)
    vanished = (stored == 0) & (values > 0)
    raised = int(np.count_nonzero(vanished))
    if raised:
        stored[vanished] = 1
    error = _relative_errors(values, stored, unit)
    rounded = int(np.count_nonzero(error))
    return stored, Rounding(raised, rounded, float(error.max(initial=0.0)))


def _relative_errors(
    values: NDArray[np.integer] | NDArray[np.floating], stored: NDArray[np.int64], unit: float
) -> NDArray[np.float64]:
    """Return the relative error of each stored value; 0 for decimals in a decimal unit."""
    if unit >= 1.0 and np.issubdtype(values.dtype, np.integer) and unit < 2.0**63:
        # integers above 2^53 are not exact in float64
        whole, exact = stored.astype(np.uint64) * np.uint64(unit), values.astype(np.uint64)
        gap = np.maximum(whole, exact) - np.minimum(whole, exact)
        return np.asarray(gap / np.maximum(values, 1), np.float64)
    size = np.where(values == 0, 1.0, np.abs(values))
    with np.errstate(over="ignore"):
        relative = np.minimum(np.abs(stored * unit - values) / size, MAX_ERROR)
    return np.where(relative <= ROUNDING, 0.0, relative)
