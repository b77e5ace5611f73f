"""What the cores stored beside the model in ONNX Runtime, map by map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TIE = 1 / 64
"""Of a step: how far from the middle between two integers a real number may be that is rounded to
the other one. Biases in floating point are rounded to steps of a layer's sums, and sums in float32
have an error of their own."""
FUSED_TIES = 0.01
"""Share of a map's elements: of nodes such as QLinearConv what is rounded cannot be seen, and their
kernels round halves of float32 products otherwise."""
MARGIN = 10.0
"""In dB: how much less than predicted the signal of a layer may be on other samples."""
FEW = 30.0
"""In dB: how much less the signal may be if a single element makes it."""
EXACT = 60.0
"""In dB: what is computed of the same numbers in float32."""
LEAST = 20.0
"""In dB: signal over error that is asked for on other samples than the prediction was made with, as
numbers beyond the ranges are clipped."""
ORDERS = ((0, 3, 1, 2), *(each for each in permutations(range(4)) if each[0] == 0))
"""Of the axes of a map as the model may see them: channels on axis 1 most of all."""
CLEARLY = (0.5, 0.85)
"""Of the distance in the usual order, for maps of few elements and of many: after many layers
integers differ a lot from the model, and distances in wrong orders differ by chance."""
CHANCE = 4.0
"""Standard deviations of these distances, which fall with the square root of the elements."""
SHIFT = {"uint8": 128, "uint16": 1 << 15}
"""What stored integers are less than those of the model."""


class StoredMap(NamedTuple):
    """A map that cores store: the name of the model's value, the layers of the model that make it,
    and what its integers stand for, scale * (stored - zero_point).

    mask : where it is stored, shape (rows, columns, channels); None if that is everywhere
    """

    name: str
    nodes: tuple[str, ...]
    scale: float
    zero_point: int
    bits: int
    mask: NDArray[np.bool_] | None = None


class Beside(NamedTuple):
    """A map, or an output of the model, beside the model's own.

    differences : integers that are not those of the model, without ties; of real numbers those that
        are not the nearest; None if the signal counts
    ties : integers that are off by one where the real number is halfway between both
    signal : over error in dB, of real numbers; None without error
    wanted : the least signal that the quantisation explains, in dB; None if differences count
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
        """Whether it is not what the model makes of the same numbers."""
        if self.wanted is None:
            return bool(self.differences)
        return self.signal is not None and self.signal < self.wanted

    @property
    def told(self) -> str:
        """What differs, in words."""
        if self.wanted is None:
            return f"{self.differences:,} of {self.elements:,} integers differ"
        return f"signal over error {self.signal:.1f} dB, at least {self.wanted:.1f} dB expected"


class Sums:
    """What is counted of a map over frames."""

    def __init__(
        self, one: StoredMap, predicted: float | None, known: bool, most: float = EXACT
    ) -> None:
        """known : whether a signal was predicted; None is a map without error
        most : dB that are asked for, whatever is predicted"""
        self.one, self.predicted, self.known, self.most = one, predicted, known, most
        self.elements = self.differences = self.ties = self.fused = 0
        self.power = self.error = self.fourth = 0.0
        self.real = False

    def add(
        self, stored: Array, value: Array, nudged: Sequence[Array] = (), fused: bool = False
    ) -> None:
        """Add a frame.

        stored : integers of the cores, in the shape of the value
        value : the same of the model
        nudged : the same where all that is quantised, or has a sign, is a little more, or less
        fused : the node of the model, or cores that store no map, round what is not visible
        """
        self.elements += stored.size
        if value.dtype.kind in "iu":
            self._add_whole(stored, value, nudged, fused)
            return
        self.real = True
        real = self.one.scale * (stored.astype(np.float64) - self.one.zero_point)
        exact = value.astype(np.float64)
        if len(nudged):
            exact = np.clip(real, *_ends(exact, *nudged))
        half = 1 << (self.one.bits - 1)
        low, high = (
            self.one.scale * (end - self.one.zero_point) for end in (-half, max(1, half - 1))
        )
        exact = np.clip(exact, low, high)  # what the range leaves out is lost when it is chosen
        self.power += float((exact**2).sum())
        self.fourth += float((exact**4).sum())
        self.error += float(((exact - real) ** 2).sum())
        whole = exact / self.one.scale + self.one.zero_point
        self.differences += int((np.abs(stored - whole) > 0.5 + TIE).sum())

    def _add_whole(self, stored: Array, value: Array, nudged: Sequence[Array], fused: bool) -> None:
        ours = stored.astype(np.int64)
        off = np.abs(ours - _whole(value))
        low, high = _ends(*(_whole(one) for one in (value, *nudged)))
        tied = (off > 0) & (low <= ours) & (ours <= high)
        hidden = (off == 1) & ~tied & fused
        self.ties += int(tied.sum())
        self.fused += int(hidden.sum())
        self.differences += int(((off > 0) & ~tied & ~hidden).sum())

    def beside(self) -> Beside:
        one = self.one
        if self.real and self.known:
            predicted = EXACT + MARGIN
            if self.predicted is not None:
                predicted = self.predicted - spread(self.power, self.fourth)
            wanted = min(self.most, predicted - MARGIN)
            signal = decibels(self.power, self.error)
            return Beside(one.name, one.nodes, self.elements, None, 0, signal, wanted)
        differences, ties = self.differences, self.ties
        if self.fused <= FUSED_TIES * self.elements:
            ties += self.fused
        else:
            differences += self.fused
        return Beside(one.name, one.nodes, self.elements, differences, ties)


def spread(power: float, fourth: float) -> float:
    """In dB: how much a signal varies that a few large elements make, as behind ReLU.

    power, fourth : sums of the second and the fourth powers of the elements
    """
    return FEW * math.sqrt(fourth) / power if power else 0.0


def _whole(value: Array) -> Array:
    """Integers of the model as cores store them."""
    return value.astype(np.int64) - SHIFT.get(value.dtype.name, 0)


def _ends(*values: Array) -> tuple[Array, Array]:
    """The least and the largest, element by element."""
    return np.minimum.reduce(values), np.maximum.reduce(values)


def differs(stored: Array, value: Array, one: StoredMap) -> bool:
    """Whether the cores stored other integers, or signs, than the model makes."""
    if value.dtype.kind in "iu":
        return bool((stored.astype(np.int64) != _whole(value)).any())
    return bool((np.abs(one.scale * (stored - one.zero_point) - value) > one.scale / 2).any())


def decibels(power: float, error: float) -> float | None:
    """Signal over error; None without error, or without signal."""
    return None if error == 0 or power == 0 else 10 * math.log10(power / error)


def order_of(stored: Array, value: Array, one: StoredMap) -> tuple[int, ...] | None:
    """The order in which a value of the model has the axes of a map, (1, rows, columns, channels):
    the first with the shape of the value, unless another one is clearly nearer to what the model
    makes. Reshape leaves values whose shape has another order than their elements. None if the
    numbers of elements differ.

    stored, value : of the same sample
    """

    def wide(sizes: Sequence[int]) -> list[int]:
        return [size for size in sizes if size != 1]

    if stored.size != value.size:
        return None
    fits = [each for each in ORDERS if wide(stored.transpose(each).shape) == wide(value.shape)]
    if value.dtype.kind in "iu":
        theirs = _whole(value).astype(np.float64)
    else:
        theirs = value.astype(np.float64) / one.scale + one.zero_point
    usual = (*fits, *ORDERS)[0]
    distances = {
        each: float(np.abs(stored.transpose(each).reshape(value.shape) - theirs).sum())
        for each in ORDERS
    }
    nearest = min(ORDERS, key=lambda each: distances[each])
    clearly = np.clip(1 - CHANCE / math.sqrt(value.size), *CLEARLY)
    return nearest if distances[nearest] < clearly * distances[usual] else usual


def as_stored(value: Array, one: StoredMap) -> Array:
    """A value of the model as cores would store it."""
    if value.dtype.kind in "iu":
        return _whole(value)
    return np.rint(value.astype(np.float64) / one.scale + one.zero_point).astype(np.int64)


def as_value(placed: Array, kind: np.dtype[Any], one: StoredMap) -> Array:
    """Stored integers as a value of the model."""
    if kind.kind in "iu":
        return np.asarray(placed + SHIFT.get(kind.name, 0)).astype(kind)
    return np.asarray(one.scale * (placed - one.zero_point).astype(np.float64)).astype(kind)


class OutputSums:
    """What is counted of an output of the model over frames."""

    def __init__(self, name: str, predicted: float | None, most: float) -> None:
        """In dB: the signal over error that was predicted, and what is asked for at most."""
        self.name, self.predicted, self.most = name, predicted, most
        self.elements = self.differences = 0
        self.power = self.error = self.fourth = 0.0

    def add(self, ours: Array, theirs: Array) -> None:
        """A frame, in any shape."""
        self.elements += theirs.size
        if ours.size != theirs.size:
            self.differences += theirs.size
            return
        if theirs.dtype.kind not in "fiub":
            return  # names of classes
        mine, exact = (np.asarray(one, np.float64).ravel() for one in (ours, theirs))
        same = (mine == exact) | (np.isnan(mine) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            off = np.where(same, 0.0, exact - mine)
        self.power += float(np.nansum(exact**2))
        self.fourth += float(np.nansum(exact**4))
        self.error += float((off**2).sum())

    def beside(self) -> Beside:
        if self.differences:
            return Beside(self.name, (), self.elements, self.differences)
        signal, wanted = decibels(self.power, self.error), self.most
        if self.predicted is not None:
            wanted = min(wanted, self.predicted - spread(self.power, self.fourth) - MARGIN)
        return Beside(self.name, (), self.elements, None, 0, signal, wanted)
