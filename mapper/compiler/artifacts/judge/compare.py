"""Compare stored maps of the cores with the model in ONNX Runtime, map by map."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TIE = 1 / 64
"""In steps: distance from the middle between two integers within which a real number may round to
the other one. Biases in floating point are rounded to steps of a layer's sums, and float32 sums
have an error.
"""
FUSED_TIES = 0.01
"""Share of a map's elements that may differ by one if rounding before it is not visible."""
MARGIN = 10.0
"""Tolerance in dB: SQNR of a layer on other samples may be lower than predicted by this."""
SPREAD_DB = 30.0
"""Tolerance in dB if a single number dominates the signal."""
MOST_EQUAL = 256
"""Maximum distinct numbers of a map whose equal elements count as one, having the same error."""
EXACT = 60.0
"""SQNR in dB of float32 results for the same numbers."""
LEAST = 20.0
"""Required SQNR in dB on samples outside the prediction, as numbers beyond the ranges are
clipped."""
ORDERS = ((0, 3, 1, 2), *(each for each in permutations(range(4)) if each[0] == 0))
"""Axis orders of a map in the model: channels on axis 1 first, as the most common."""
CLEARLY = (0.5, 0.85)
"""Relative to the distance in the usual order, for maps of few and of many elements: after many
layers integers differ a lot from the model, and distances in wrong orders differ by chance.
"""
CHANCE = 4.0
"""Standard deviations of these distances, which fall with the square root of the elements."""
SHIFT = {"uint8": 128, "uint16": 1 << 15}
"""Offset of the model's integers from the stored integers."""


class StoredMap(NamedTuple):
    """A map that cores store: its name in the model, the model layers that compute it, and its
    scaling.

    Its integers represent scale * (stored - zero_point).
    mask : where it is stored, shape (rows, columns, channels); None if everywhere
    """

    name: str
    nodes: tuple[str, ...]
    scale: float
    zero_point: int
    bits: int
    mask: NDArray[np.bool_] | None = None

    @property
    def range(self) -> tuple[float, int, int]:
        """Scaling and bits; equal for the parts of a concatenation."""
        return self.scale, self.zero_point, self.bits


class Beside(NamedTuple):
    """Comparison of a map or an output with the model.

    differences : integers that differ from the model, without ties; for real numbers, integers that
        are not the nearest; None if the signal counts
    ties : integers that are off by one where the real number is halfway between both
    signal : SQNR of real numbers in dB; None without error
    wanted : least SQNR in dB that quantisation explains; None if differences count
    """

    name: str
    nodes: tuple[str, ...]
    elements: int
    differences: int | None
    ties: int = 0
    signal: float | None = None
    wanted: float | None = None

    @property
    def departs(self) -> bool:
        """Whether it differs from the model by more than quantisation explains."""
        if self.wanted is None:
            return bool(self.differences)
        return self.signal is not None and self.signal < self.wanted

    @property
    def told(self) -> str:
        """The difference as text."""
        if self.wanted is None:
            return f"{self.differences:,} of {self.elements:,} integers differ"
        return f"SQNR {self.signal:.1f} dB, at least {self.wanted:.1f} dB expected"


class MapSums:
    """Statistics of a map over frames."""

    def __init__(
        self, one: StoredMap, predicted: float | None, known: bool, most: float = EXACT,
        silent: bool = False, guessed: bool = False, rounded: bool = False,
    ) -> None:  # fmt: skip
        """known : whether an SQNR was predicted; None is a map without error
        most : upper limit in dB of the required SQNR
        silent : whether it is 0 in all samples of the prediction: then its scale does not fit
            its numbers
        guessed : whether the prediction is a default; then the nearest numbers are right if they
            fill the range
        rounded : whether real numbers of the model were rounded before; then integers represent
            real numbers
        """
        self.one, self.predicted, self.known, self.most = one, predicted, known, most
        self.silent, self.guessed, self.rounded, self.largest = silent, guessed, rounded, 0
        half = 1 << (one.bits - 1)
        self.low = one.scale * (-half - one.zero_point)
        self.high = one.scale * (max(1, half - 1) - one.zero_point)
        self.elements = self.differences = self.ties = self.fused = 0
        self.error = 0.0
        self.signal = MapPower()
        self.real = False

    def add(
        self, stored: Array, value: Array, nudged: Sequence[Array] = (), fused: bool = False
    ) -> None:
        """Add a frame.

        stored : integers of the cores, in the shape of the value
        value : value of the model
        nudged : values of the model with every quantised tensor or sign input slightly increased or
            decreased
        fused : whether it may depend on maps that are not compared, whose roundings are not visible
        """
        self.elements += stored.size
        self.largest = max(self.largest, int(np.abs(stored - self.one.zero_point).max(initial=0)))
        if value.dtype.kind in "iu":
            if not self.rounded:
                self._add_whole(stored, value, nudged, fused)
                return
            value, *nudged = (self._represented(_whole(one)) for one in (value, *nudged))
        self.real = True
        real = self._represented(stored)
        exact = value.astype(np.float64)
        if len(nudged):
            exact = np.clip(real, *_ends(exact, *nudged))
        # the range's clipping was accounted for when it was chosen
        exact = np.clip(exact, self.low, self.high)
        self.signal.add(exact)
        self.error += float(((exact - real) ** 2).sum())
        whole = exact / self.one.scale + self.one.zero_point
        self.differences += int((np.abs(stored - whole) > 0.5 + TIE).sum())

    def _represented(self, stored: Array) -> Array:
        return self.one.scale * (stored.astype(np.float64) - self.one.zero_point)

    def _add_whole(self, stored: Array, value: Array, nudged: Sequence[Array], fused: bool) -> None:
        ours = stored.astype(np.int64)
        off = np.abs(ours - _whole(value))
        low, high = _ends(*(_whole(one) for one in (value, *nudged)))
        tied = (off > 0) & (low <= ours) & (ours <= high)
        hidden = (off == 1) & ~tied & fused
        self.ties += int(tied.sum())
        self.fused += int(hidden.sum())
        self.differences += int(((off > 0) & ~tied & ~hidden).sum())

    def beside(self, fills: bool = False) -> Beside:
        """Return the comparison. fills : whether another map of the same scale fills its range"""
        fills = fills or self.fills_range
        one = self.one
        if self.real and self.known:
            predicted = EXACT + MARGIN
            if self.predicted is not None:
                predicted = self.predicted - self.signal.spread
            wanted = min(self.most, predicted - MARGIN)
            power = self.signal.power
            if self.silent:
                wanted = min(wanted, LEAST)
            if self.silent or not power:  # relative to the largest number that is stored
                power = max(power, self.elements * max(-self.low, self.high) ** 2)
            signal = decibels(power, self.error)
            if signal is not None and self.guessed and not self.differences and fills:
                wanted = min(wanted, signal)
            return Beside(one.name, one.nodes, self.elements, None, 0, signal, wanted)
        differences, ties = self.differences, self.ties
        if self.fused <= FUSED_TIES * self.elements:
            ties += self.fused
        else:
            differences += self.fused
        return Beside(one.name, one.nodes, self.elements, differences, ties)

    @property
    def fills_range(self) -> bool:
        """Whether the numbers take a quarter of the range or more: the scale is not too coarse."""
        half = 1 << (self.one.bits - 1)
        return 4 * self.largest >= half + abs(self.one.zero_point)


class MapPower:
    """Power of some numbers, and how it is distributed over them. power : sum of their squares"""

    def __init__(self) -> None:
        self.power = self._fourth = 0.0
        self._equal: Counter[float] = Counter()

    def add(self, values: Array) -> None:
        self.power += float((values**2).sum())
        if np.unique(values.ravel()[: 4 * MOST_EQUAL]).size <= MOST_EQUAL:
            numbers, counts = np.unique(values, return_counts=True)
            if numbers.size <= MOST_EQUAL:
                self._equal.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
                return
        self._fourth += float((values**4).sum())

    @property
    def spread(self) -> float:
        """How much the SQNR varies in dB if a few large numbers dominate, as after ReLU, or if
        there are only a few numbers, as after signs."""
        if not self.power:
            return 0.0
        equal = sum((count * number**2) ** 2 for number, count in self._equal.items())
        return SPREAD_DB * math.sqrt(self._fourth + equal) / self.power


def _whole(value: Array) -> Array:
    """Return integers of the model in stored form."""
    return value.astype(np.int64) - SHIFT.get(value.dtype.name, 0)


def _ends(*values: Array) -> tuple[Array, Array]:
    """Return the elementwise minimum and maximum."""
    return np.minimum.reduce(values), np.maximum.reduce(values)


def differs(stored: Array, value: Array, one: StoredMap) -> bool:
    """Return whether the cores stored other integers or signs than the model computes."""
    if value.dtype.kind in "iu":
        return bool((stored.astype(np.int64) != _whole(value)).any())
    return bool((np.abs(one.scale * (stored - one.zero_point) - value) > one.scale / 2).any())


def decibels(power: float, error: float) -> float | None:
    """Return the SQNR in dB; None without error, or without signal."""
    return None if error == 0 or power == 0 else 10 * math.log10(power / error)


def order_of(stored: Array, value: Array, one: StoredMap) -> tuple[int, ...] | None:
    """Return the axis order of a map, (1, rows, columns, channels), in a value of the model.

    This is the first order with the shape of the value, unless another one is clearly nearer to the
    model's result: after Reshape, the shape may not match the element order. None if the numbers of
    elements differ.

    stored, value : of the same sample
    """
    if stored.size != value.size:
        return None
    fitting = _fitting(stored, value)
    usual = (*fitting, *ORDERS)[0]
    distances = _distances(stored, value, one)
    nearest = min(ORDERS, key=lambda each: (distances[each], each not in fitting))
    clearly = np.clip(1 - CHANCE / math.sqrt(value.size), *CLEARLY)
    return nearest if distances[nearest] < clearly * distances[usual] else usual


def is_ambiguous(stored: Array, value: Array, one: StoredMap) -> bool:
    """Return whether several orders are equally near to a value, of those with its shape if any."""
    if stored.size != value.size:
        return False
    found = _distances(stored, value, one)
    orders = _fitting(stored, value) or list(found)
    least = min(found[order] for order in orders)
    nearest = [order for order in orders if found[order] == least]
    return len({tuple(axis for axis in order if stored.shape[axis] > 1) for order in nearest}) > 1


def _fitting(stored: Array, value: Array) -> list[tuple[int, ...]]:
    """Return the orders in which a map has the shape of a value."""

    def wide(sizes: Sequence[int]) -> list[int]:
        return [size for size in sizes if size != 1]

    return [each for each in ORDERS if wide(stored.transpose(each).shape) == wide(value.shape)]


def _distances(stored: Array, value: Array, one: StoredMap) -> dict[tuple[int, ...], float]:
    """Return the sum of absolute differences of a map and a value, in steps, for each order."""
    if value.dtype.kind in "iu":
        theirs = _whole(value).astype(np.float64)
    else:
        theirs = value.astype(np.float64) / one.scale + one.zero_point
    return {
        each: float(np.abs(stored.transpose(each).reshape(value.shape) - theirs).sum())
        for each in ORDERS
    }


def as_stored(value: Array, one: StoredMap) -> Array:
    """A value of the model as cores would store it."""
    if value.dtype.kind in "iu":
        return _whole(value)
    return np.rint(value.astype(np.float64) / one.scale + one.zero_point).astype(np.int64)


def as_value(placed: Array, kind: np.dtype[Any], one: StoredMap) -> Array:
    """Return stored integers as a value of the model."""
    if kind.kind in "iu":
        return np.asarray(placed + SHIFT.get(kind.name, 0)).astype(kind)
    return np.asarray(one.scale * (placed - one.zero_point).astype(np.float64)).astype(kind)


class OutputSums:
    """Statistics of an output of the model over frames."""

    def __init__(self, name: str, predicted: float | None, most: float) -> None:
        """predicted : predicted SQNR in dB; most : upper limit in dB of the required SQNR"""
        self.name, self.predicted, self.most = name, predicted, most
        self.elements = self.differences = 0
        self.error = 0.0
        self.signal = MapPower()

    def add(self, ours: Array, theirs: Array) -> None:
        """Add a frame, in any shape."""
        self.elements += theirs.size
        if ours.size != theirs.size:
            self.differences += theirs.size
            return
        if theirs.dtype.kind not in "fiub":
            return  # class names
        mine, exact = (np.asarray(one, np.float64).ravel() for one in (ours, theirs))
        same = (mine == exact) | (np.isnan(mine) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0.0, exact - mine)
        lost = np.isfinite(exact) & ~np.isfinite(mine)  # such as quotients by numbers rounded to 0
        off = np.nan_to_num(np.where(lost, exact, off), nan=np.inf, posinf=np.inf)
        self.signal.add(exact[np.isfinite(exact)])
        self.error += float((off**2).sum())

    def beside(self) -> Beside:
        if self.differences:
            return Beside(self.name, (), self.elements, self.differences)
        signal, wanted = decibels(self.signal.power, self.error), self.most
        if self.predicted is not None:
            wanted = min(wanted, self.predicted - self.signal.spread - MARGIN)
        return Beside(self.name, (), self.elements, None, 0, signal, wanted)
