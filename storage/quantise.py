"""The unit in which real weights become the integers that varints hold.

Sums over integers are exact and do not depend on their order, so results are the same for any
number of threads; whole numbers stay themselves, decimals stay exact, and anything else keeps
24 bits below the largest value.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError

MAX_DECIMALS = 6
ROUNDING = 2.0**-50  # relative: of a decimal and of its product, four last places of a float64
RELATIVE_BITS = 24
SMALLEST_EXPONENT = -1074  # of a float64 that is not zero
MAX_STORED = 2.0**52  # leaves bits for sums over two thousand such values in an int64


class UnitFinder:
    """Sees all values of a stream in chunks and then names the unit that holds them best."""

    def __init__(self) -> None:
        self._largest = 0.0
        self._decimals = 0

    def observe(self, values: NDArray[np.integer] | NDArray[np.floating], what: str) -> None:
        """Take note of a chunk; raises `BadInputError` for NaN, infinite or negative values."""
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
                f"{what} {lowest} is negative; traffic cannot be, use its magnitude"
            )
        self._largest = max(self._largest, float(highest))
        if np.issubdtype(values.dtype, np.integer):
            return
        while self._decimals <= MAX_DECIMALS:
            with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e302: no decimals then
                scaled = values * 10.0**self._decimals
                if np.all(np.abs(scaled - np.rint(scaled)) <= ROUNDING * scaled):
                    break
            self._decimals += 1

    def join(self, other: UnitFinder) -> None:
        """Take note of all that another one has seen."""
        self._largest = max(self._largest, other._largest)
        self._decimals = max(self._decimals, other._decimals)

    def unit(self) -> float:
        """Value of one stored unit: 1, 0.1 .. 10^-6, or a power of two."""
        if self._decimals <= MAX_DECIMALS and self._largest * 10**self._decimals < MAX_STORED:
            return 1.0 if self._decimals == 0 else float(f"1e-{self._decimals}")
        if self._largest == 0:
            return 1.0
        return 2.0 ** max(math.frexp(self._largest)[1] - RELATIVE_BITS, SMALLEST_EXPONENT)


def to_units(
    values: NDArray[np.integer] | NDArray[np.floating], unit: float
) -> tuple[NDArray[np.int64], int]:
    """Values as whole numbers of units, and how many positive ones had to be raised to one unit."""
    if unit == 1.0 and np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64, copy=False), 0
    stored = np.rint(values / unit).astype(np.int64)
    vanished = (stored == 0) & (values > 0)
    clamped = int(np.count_nonzero(vanished))
    if clamped:
        stored[vanished] = 1
    return stored, clamped
