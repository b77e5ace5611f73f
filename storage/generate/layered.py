"""Convolutional networks with one vertex per neuron."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.generate.base import Attributes, Edges, Part, require, require_size
from storage.generate.draws import Draws, ranges, spike_rates

MEAN_RATE = 4.0
_RATES = 0

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Shape(NamedTuple):
    """Rows, columns and channels of a layer."""

    height: int
    width: int
    channels: int

    @property
    def neurons(self) -> int:
        return self.height * self.width * self.channels

    @property
    def dense(self) -> bool:
        return self.height == self.width == 1


def parse_layers(text: str) -> tuple[Shape, ...]:
    """Parse ``H1xW1xC1,H2xW2xC2,...``; raise `BadInputError` with the invalid layer."""
    shapes = []
    for index, part in enumerate(text.split(",")):
        match = re.fullmatch(r"\s*(\d{1,9})x(\d{1,9})x(\d{1,9})\s*", part)
        if match is None or 0 in (sizes := tuple(map(int, match.groups()))):
            raise BadInputError(
                f"layered: layer {index} is {part.strip()!r}; "
                "it must be HEIGHTxWIDTHxCHANNELS, such as 32x32x16"
            )
        shapes.append(Shape(*sizes))
    return tuple(shapes)


def window_starts(before: int, after: int, kernel: int) -> NDArray[np.int64]:
    """Return the first input row of each output row's window, shape (after,); may be negative.

    Output row r is centred on input row floor((r + 1/2) * before / after) and reads `kernel` rows
    from centre - kernel // 2. Rows outside 0 .. before-1 do not exist: at the border a window is
    cut off, not padded. Columns are treated the same way.
    """
    centre = (2 * np.arange(after) + 1) * before // (2 * after)
    return centre - kernel // 2


@dataclass(frozen=True, slots=True)
class Layered:
    """Each layer connects to the next through a `kernel` x `kernel` window and all channels.

    The stride follows from the sizes of the two layers (`window_starts`); a layer of 1x1xC neurons
    reads the whole previous layer. The rate of a neuron is 1 + floor(Exp(mean 4)), which is also
    the weight of its synapses. Ids run through the layers in order, within each by row, column and
    channel.
    """

    kind: ClassVar[str] = "layered"
    about: ClassVar[str] = "consecutive convolutional and dense layers"

    layers: str = field(metadata={"help": "sizes of the layers: H1xW1xC1,H2xW2xC2,..."})
    kernel: int = field(default=3, metadata={"help": "side of a convolution window"})

    def __post_init__(self) -> None:
        require(len(self.shapes) >= 2, self.kind, "layers", repr(self.layers), "two or more layers")
        require(self.kernel >= 1, self.kind, "kernel", self.kernel, "1 or more")
        require_size(self.kind, self.neurons)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return parse_layers(self.layers)

    @property
    def neurons(self) -> int:
        return sum(shape.neurons for shape in self.shapes)

    @property
    def synapses(self) -> int:
        return sum(self._slots(a, b) * b.neurons for a, b in pairwise(self.shapes))

    def _slots(self, before: Shape, after: Shape) -> int:
        """Return the synapses of a neuron whose window is not cut off."""
        if after.dense:
            return before.neurons
        rows, columns = min(self.kernel, before.height), min(self.kernel, before.width)
        return rows * columns * before.channels

    def edges(self, draws: Draws) -> Iterator[Part]:
        """Yield edges layer by layer, ordered by target."""
        rates = spike_rates(draws.stream(_RATES), self.neurons, MEAN_RATE)
        start = 0
        for before, after in pairwise(self.shapes):
            pairs = self._dense if after.dense else self._windows
            for first, last in ranges(self._slots(before, after) * after.neurons):
                found = partial(pairs, before, after, first, last)
                yield partial(self._placed, found, start, start + before.neurons, rates)
            start += before.neurons

    @staticmethod
    def _placed(
        pairs: Callable[[], Pairs], sources: int, targets: int, rates: NDArray[np.int32]
    ) -> Edges:
        """Return pairs within two layers as edges; sources, targets : first neuron of each layer"""
        source, target = pairs()
        source += sources
        target += targets
        return source, target, rates[source]

    @staticmethod
    def _dense(before: Shape, after: Shape, first: int, last: int) -> Pairs:
        target, source = np.divmod(np.arange(first, last), before.neurons)
        return source, target

    def _windows(self, before: Shape, after: Shape, first: int, last: int) -> Pairs:
        """Return all (target, row, column, channel) of windows, without positions outside."""
        top = window_starts(before.height, after.height, self.kernel)
        left = window_starts(before.width, after.width, self.kernel)
        # a window wider than the layer has the layer's slots, starting at the border
        rows, columns = min(self.kernel, before.height), min(self.kernel, before.width)
        low_row = np.maximum(top, 0) if rows < self.kernel else top
        low_column = np.maximum(left, 0) if columns < self.kernel else left
        rest, channel = np.divmod(np.arange(first, last), before.channels)
        rest, column = np.divmod(rest, columns)
        target, row = np.divmod(rest, rows)
        position = target // after.channels
        y, x = np.divmod(position, after.width)
        row += low_row[y]
        column += low_column[x]
        inside = (row >= 0) & (row < np.minimum(top[y] + self.kernel, before.height))
        inside &= (column >= 0) & (column < np.minimum(left[x] + self.kernel, before.width))
        source = (row * before.width + column) * before.channels + channel
        return source[inside], target[inside]

    def attributes(self, draws: Draws) -> Attributes:
        """Return `rate`, `layer` (labels such as "layer0 32x32x3"), and `x`, `y` in the layer."""
        layer, x, y = [], [], []
        for index, shape in enumerate(self.shapes):
            row, column = np.divmod(
                np.arange(shape.height * shape.width, dtype=np.int32), shape.width
            )
            layer.append(np.full(shape.neurons, index, np.int32))
            x.append(np.repeat(column, shape.channels))
            y.append(np.repeat(row, shape.channels))
        labels = [f"layer{i} {s.height}x{s.width}x{s.channels}" for i, s in enumerate(self.shapes)]
        rates = spike_rates(draws.stream(_RATES), self.neurons, MEAN_RATE)
        return {
            "rate": (rates, None),
            "layer": (np.concatenate(layer), labels),
            "x": (np.concatenate(x), None),
            "y": (np.concatenate(y), None),
        }
