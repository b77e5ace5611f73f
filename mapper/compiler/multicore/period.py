"""Cutting of layers, for the shortest period or for low latency.

The period is the time per frame if all cores work in a pipeline.

All layers in order form a line of work, in units of result rows or output blocks per layer. The
line is cut where a core is full: cores get consecutive parts, so a frame never returns to a core
that it has left. Otherwise that core would wait for others in the middle of every frame. For the
same reason no core gets parts of two functions, between which the host works. The shortest period
for which the line fits the cores is found by bisection.

For low latency all cores work on a layer, then on the next one. Part j of each layer is on the same
core, so that most of its input rows are computed there. A layer has fewer parts than there are
cores if more parts would not shorten it: parts repeat rows or inputs, and cause more traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Relay
from mapper.compiler.multicore.costs import PartCost, PartCosts
from mapper.compiler.multicore.job import MacroPiece
from mapper.compiler.multicore.slices import can_split_blocks, some_row_is_padding
from mapper.compiler.multicore.vertices import SHARES, shares
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import DoesNotFitError

PERIOD_ACCURACY = 1.005
"""Relative accuracy of the shortest period."""
MOST_STRIPS = 64
"""Maximum strips of a layer that is cut by output blocks, whose weights each strip repeats."""
MOST_PERIODS = 64  # maximum period, as a multiple of the lower bound
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of units of a layer that are measured."""
LEAST_SHARE = 1 / 16
"""Minimum part of a period to fill up a core; smaller parts are not worth sending their input."""


WHOLE = 1 + 1e-9
"""A core; shares that fill it exactly may add up to slightly more than 1."""


class Way(NamedTuple):
    """A way to cut layers.

    blocks : layers whose weights exceed the weight memory divided by this number are cut by output
        blocks, others by rows; more blocks send each row to more cores, but have less latency
    lag : see `Limits`
    fills : parts that take little time also fill up a core, so that more weights fit
    streams : weights that do not fit in any core come from the host
    spills : so do weights that do not fit in all cores: each core gets an equal excess
    lines : if above 0, cores keep some columns of each map; see `Lines.links`
    tight : see `Lines.tight`
    """

    blocks: float = 2
    lag: float = 0
    fills: bool = False
    streams: bool = False
    spills: bool = False
    lines: int = 0
    tight: bool = False


class Grouped(NamedTuple):
    """Pieces with their costs and the indices of their cores."""

    pieces: list[MacroPiece]
    costs: list[PartCost]
    groups: list[int]


class Line:
    """The layers in order.

    rows : rows of each layer that are read, before upsampling
    whole : True for layers whose rows must stay on one core
    alone : True for relays, which have their own cores
    strips : strips of rows of each layer; a layer that is cut by output blocks has several if a
        core cannot store the input of all rows
    least : minimum units of a part of each layer
    """

    def __init__(self, costs: PartCosts, rows: Sequence[Span], cores: int, way: Way) -> None:
        self.costs, self.rows, self.cores, self.way = costs, rows, cores, way
        self.functions = costs.whole.functions
        self.whole = [
            some_row_is_padding(macro, span) for macro, span in zip(costs.macros, rows, strict=True)
        ]
        self.alone = [isinstance(one.nodes[0].operator, Relay) for one in costs.macros]
        self.by_rows = [self._is_cut_by_rows(number) for number in range(len(rows))]
        self.factors = np.ones(len(rows))  # actual cycles / measured cycles, by layer
        self.strips, self.least = [1] * len(rows), [1] * len(rows)
        for number in range(len(rows)):
            self._choose_strips(number)

    def _is_cut_by_rows(self, number: int) -> bool:
        """Return whether a layer is cut by rows. Rows repeat the weights, so a layer with large
        weights is cut by output blocks; so is a layer with fewer rows than blocks."""
        macro = self.costs.macros[number]
        units = self._units(number, by_rows=False)
        if units < 2 or self.alone[number] or not can_split_blocks(macro):
            return True
        if self.rows[number].size <= units:
            return False
        words = self.costs.words(number)
        return self.way.blocks * words <= self.costs.shape.weight_words

    def _choose_strips(self, number: int) -> None:
        """Choose the fewest strips of a layer, at most `MOST_STRIPS`, of which a part fits."""
        if self.by_rows[number] or self.whole[number]:
            return
        for strips in range(1, min(MOST_STRIPS, self.rows[number].size) + 1):
            self.strips[number] = strips
            with suppress(DoesNotFitError):
                self.costs.of(self.piece(number, *self._unit(number, strips // 2)))
                return
        self.strips[number] = 1

    def _unit(self, number: int, strip: int) -> tuple[int, int]:
        """Return the first unit of a strip, and its end."""
        first = strip * self._units(number, by_rows=False)
        return first, first + 1

    def units(self, number: int) -> int:
        """Return the rows of a layer, or the output blocks of all strips if it is cut by blocks."""
        return self.strips[number] * self._units(number, self.by_rows[number])

    def each(self, number: int) -> int:
        """Return the units of a layer that may be in one part: all of a strip."""
        return self._units(number, self.by_rows[number])

    def _units(self, number: int, by_rows: bool) -> int:
        if by_rows:
            return 1 if self.whole[number] else self.rows[number].size
        extent = extent_of(self.costs.macros[number], self.costs.shape)
        return -(-extent.blocks // extent.share)

    def piece(self, number: int, first: int, stop: int) -> MacroPiece:
        """Return a range of units of a layer as a piece.

        Raises `DoesNotFitError` if it is in several strips.
        """
        extent = extent_of(self.costs.macros[number], self.costs.shape)
        if self.by_rows[number]:
            top = self.rows[number].first
            rows = self.rows[number] if self.whole[number] else Span(top + first, top + stop)
            return MacroPiece(number, rows, Span(0, extent.blocks))
        share, each = extent.share, self.each(number)
        strip, first = divmod(first, each)
        stop -= strip * each
        if stop > each:
            raise DoesNotFitError(f"{self.costs.macros[number].label}: a part is in two strips")
        rows, strips = self.rows[number], self.strips[number]
        ends = [rows.first + rows.size * one // strips for one in (strip, strip + 1)]
        return MacroPiece(
            number, Span(*ends), Span(first * share, min(stop * share, extent.blocks))
        )

    def learn(self, made: Grouped, cycles: Sequence[float]) -> None:
        """Raise the factors of layers that took longer than measured. cycles : cycles per group"""
        guessed = np.bincount(made.groups, weights=[one.cycles for one in made.costs])
        ratios = np.array(cycles) / guessed
        layers = np.array([piece.macro for piece in made.pieces])
        for layer in np.unique(layers):
            mine = layers == layer
            work = np.array([one.cycles for one in made.costs])[mine]
            ratio = float((ratios[np.array(made.groups)[mine]] * work).sum() / work.sum())
            self.factors[layer] *= max(ratio, 1.0)

    def join_parts(self, made: Grouped, crowded: Sequence[Mapping[int, int]]) -> bool:
        """Let cores communicate with fewer others: raise the minimum size of a part of some layers.
        Return whether that is possible.

        made : the last cut; crowded : see `StreamsError`
        """
        sizes = dict.fromkeys(range(len(self.rows)), 1)
        for piece in made.pieces:
            share = extent_of(self.costs.macros[piece.macro], self.costs.shape).share
            by_rows = self.by_rows[piece.macro]
            size = piece.rows.size if by_rows else -(-piece.blocks.size // share)
            sizes[piece.macro] = max(sizes[piece.macro], size)
        before = list(self.least)
        for partners in crowded:
            found: list[tuple[int, int, int]] = []  # cycles, layer, and units of a part
            for layer, count in partners.items():
                size = min(2 * sizes[layer], self.each(layer))
                if 2 * count >= max(partners.values()) and size > sizes[layer]:
                    with suppress(DoesNotFitError):
                        found.append((self.cost(layer, size).cycles, layer, size))
            if found:
                _, layer, size = min(found)
                self.least[layer] = max(self.least[layer], size)
        return self.least != before

    def shortest(self, least: float = 0) -> tuple[int, Grouped]:
        """Return the shortest period, at least `least`, and how the line is cut for it.

        Raises `DoesNotFitError` that names the layer if its smallest part does not fit in a core,
        or if the line does not fit in the cores for any period.
        """
        whole = sum(self._whole(number) for number in range(len(self.rows)))
        low = max(1.0, whole / self.cores, least)
        high, found, most = low, self.cut(int(low)), MOST_PERIODS * low
        while found is None:
            if high > most:
                self._refuse()
            low, high = high, 1.25 * high
            found = self.cut(int(high))
        while high / low > PERIOD_ACCURACY:
            middle = (low * high) ** 0.5
            tried = self.cut(int(middle))
            if tried is None:
                low = middle
            else:
                high, found = middle, tried
        return int(high), found

    def _whole(self, number: int) -> int:
        """Estimate the total cycles of a layer that is split over all cores."""
        units = self.units(number)
        size = min(max(1, units // self.cores), self.each(number))
        try:
            return self.cost(number, size).cycles * units // size
        except DoesNotFitError:
            return 0

    def cost(self, number: int, size: int) -> PartCost:
        """Return the cost of a number of units of a layer: measured in its middle for some sizes,
        and interpolated between them.

        Raises `DoesNotFitError` if they do not fit in a core.
        """
        units = self.each(number)
        strip = units * (self.strips[number] // 2)

        def measured(count: int) -> PartCost:
            first = strip + (units - count) // 2
            found = self.costs.of(self.piece(number, first, first + count))
            return found._replace(cycles=math.ceil(found.cycles * self.factors[number]))

        if size >= units or size in SIZES:
            return measured(size)
        above = next((one for one in SIZES if one > size), units)
        below, above = max(one for one in SIZES if one < size), min(above, units)
        low, high = measured(below), measured(above)
        share = (size - below) / (above - below)
        return PartCost(*(math.ceil(a + (b - a) * share) for a, b in zip(low, high, strict=True)))

    def _refuse(self) -> None:
        needs = np.zeros(len(SHARES))
        for number in range(len(self.rows)):
            self.costs.of(self.piece(number, 0, 1))  # raises if a single unit does not fit
            needs += self._needs(number)
        needs[0] = 0  # cycles are unlimited, as the period is
        most = int(needs.argmax())
        raise DoesNotFitError(
            f"{len(self.rows)} layers do not fit in {self.cores} cores for any period: their "
            f"{SHARES[most]} needs about {needs[most]:.1f} cores, and parts of layers do not fill "
            "a core completely; use more cores, or cores with more memory"
        )

    def _needs(self, number: int) -> NDArray[np.float64]:
        """Return the number of cores that a layer needs per resource, in the largest parts."""
        units = self.units(number)
        each = self.each(number)
        for size in (each, *reversed([one for one in SIZES if one < each])):
            with suppress(DoesNotFitError):
                cost = self.cost(number, size)
                found = np.array(shares(cost, self.costs.shape, max(1, cost.cycles)))
                if (found <= 1).all():
                    return units / size * found
        return np.zeros(len(SHARES))

    def cut(self, period: int) -> Grouped | None:
        """Return the line in parts for a period, or None if it needs more cores."""
        made = Grouped([], [], [])
        number, taken = 0, np.zeros(len(SHARES))
        for layer in range(len(self.rows)):
            at, units = 0, self.units(layer)
            other = layer > 0 and self.functions[layer] != self.functions[layer - 1]
            if taken.any() and (other or self.alone[layer]):
                number, taken = number + 1, np.zeros(len(SHARES))
            if number >= self.cores:
                return None
            while at < units:
                count = self._count(layer, at, units, WHOLE - taken, period)
                if not count:
                    if not taken.any() or number + 1 >= self.cores:
                        return None
                    number, taken = number + 1, np.zeros(len(SHARES))
                    continue
                cost = self.cost(layer, count)
                made.pieces.append(self.piece(layer, at, at + count))
                made.costs.append(cost)
                made.groups.append(number)
                taken += shares(cost, self.costs.shape, period)
                at += count
                if self.alone[layer]:
                    taken = np.full(len(SHARES), WHOLE)
        return made

    def _count(
        self, layer: int, first: int, units: int, room: NDArray[np.float64], period: int
    ) -> int:
        """Return how many units of a layer, starting at `first`, fit in the rest of a core."""

        def fits(count: int) -> bool:
            try:
                cost = self.cost(layer, count)
            except DoesNotFitError:
                return False
            return bool((np.array(shares(cost, self.costs.shape, period)) <= room).all())

        each = self.each(layer)
        left = min(units - first, each - first % each)
        low, high = min(self.least[layer], left) - 1, left + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        if low < min(self.least[layer], left):
            return 0
        if first + low == units or room.min() >= 1:
            return low
        used = shares(self.cost(layer, low), self.costs.shape, period)
        return low if max(used if self.way.fills else used[:1]) >= LEAST_SHARE else 0


COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of cores that are tried, up to the available number."""
SHORTER = 0.97
"""Maximum ratio of a layer's cycles with more parts for them to be worthwhile."""


def turns(line: Line, cores: int) -> Iterator[Grouped]:
    """Yield distinct cuts that use increasing numbers of cores."""
    before: list[int] = []
    for count in (*(one for one in COUNTS if one < cores), cores):
        parts = [_parts(line, layer, count) for layer in range(len(line.rows))]
        if parts != before and max(parts) == count:
            before = parts
            with suppress(DoesNotFitError):
                yield _cut(line, parts)


def _parts(line: Line, layer: int, cores: int) -> int:
    """Return the number of parts of a layer beyond which more cores do not shorten it."""
    units = line.units(layer)
    best, least = 1, _cycles(line, layer, units)
    for count in (*(one for one in COUNTS if one < cores), cores):
        if count > units:
            break
        found = _cycles(line, layer, -(-units // count))
        if found < SHORTER * least:
            best, least = count, found
    return best


def _cycles(line: Line, layer: int, size: int) -> float:
    try:
        return line.cost(layer, size).cycles
    except DoesNotFitError:
        return float("inf")


def _cut(line: Line, parts: list[int]) -> Grouped:
    """Cut layers into parts of nearly equal size; raises `DoesNotFitError`."""
    made, cores = Grouped([], [], []), max(parts)
    for layer, count in enumerate(parts):
        units = line.units(layer)
        ends = [units * one // count for one in range(count + 1)]
        for number in range(count):
            made.pieces.append(line.piece(layer, ends[number], ends[number + 1]))
            made.costs.append(line.cost(layer, ends[number + 1] - ends[number]))
            made.groups.append(number * cores // count)
    return made
