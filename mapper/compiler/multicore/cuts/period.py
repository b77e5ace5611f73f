"""Cutting of layers for the shortest period: the time per frame if all cores work in a pipeline.

All layers in order form a line of work, in units of result rows or output blocks per layer. The
line is cut where a core is full: cores get consecutive parts, so a frame never returns to a core
that it has left. Otherwise that core would wait for others in the middle of every frame. For the
same reason no core gets parts of two functions, between which the host works. The shortest period
for which the line fits the cores is found by bisection.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Relay
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.cuts.chains import chains_of, strips_of, together
from mapper.compiler.multicore.cuts.ways import Way
from mapper.compiler.multicore.job import MacroPiece
from mapper.compiler.multicore.known_costs import PartCost
from mapper.compiler.multicore.slices import can_split_blocks, some_row_is_padding
from mapper.compiler.multicore.vertices import SHARES, shares
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Crowded
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


class Grouped(NamedTuple):
    """Pieces with their costs and the indices of their cores."""

    pieces: list[MacroPiece]
    costs: list[PartCost]
    groups: list[int]


class Line:
    """The layers in order.

    rows : rows of each layer that are read, before upsampling
    chains : layers that are cut together; most chains have one layer. All following data is per
        chain
    whole : True if its rows must stay on one core
    alone : True for relays, which have their own cores
    strips : strips of rows; a layer that is cut by output blocks has several if a core cannot store
        the input of all rows
    factors : actual cycles / measured cycles
    least : minimum units of a part
    begins : whether it begins on a core without previous chains
    """

    def __init__(self, costs: PartCosts, rows: Sequence[Span], cores: int, way: Way) -> None:
        self.costs, self.rows, self.cores, self.way = costs, rows, cores, way
        self._cut_chains([(number,) for number in range(len(rows))])
        if way.strip:
            self._cut_chains(chains_of(self, way.strip))

    def _cut_chains(self, chains: Sequence[tuple[int, ...]]) -> None:
        """Choose how each chain is cut."""
        macros, self.chains = self.costs.macros, chains
        self._chain_of = {layer: at for at, chain in enumerate(chains) for layer in chain}
        self.functions = [self.costs.whole.functions[first] for first, *_ in chains]
        self.whole = [
            any(some_row_is_padding(macros[one], self.rows[one]) for one in chain)
            for chain in chains
        ]
        self.alone = [isinstance(macros[first].nodes[0].operator, Relay) for first, *_ in chains]
        self.by_rows = [self._is_cut_by_rows(number) for number in range(len(chains))]
        self.factors = np.ones(len(chains))
        self.strips, self.least = [1] * len(chains), [1] * len(chains)
        self.begins = list(self.alone)
        for number in range(len(chains)):
            self._choose_strips(number)

    def _is_cut_by_rows(self, number: int) -> bool:
        """Return whether a chain is cut by rows. Rows repeat the weights, so a layer with large
        weights is cut by output blocks; so is a layer with fewer rows than blocks."""
        layer, *others = self.chains[number]
        macro = self.costs.macros[layer]
        if others or self.alone[number] or not can_split_blocks(macro):
            return True
        units = self._units(number, by_rows=False)
        if units < 2 or self.rows[layer].size <= units:
            return units < 2
        words = self.costs.words(layer)
        return self.way.blocks * words <= self.costs.shape.weight_words

    def _choose_strips(self, number: int) -> None:
        """Choose the fewest strips of a layer, at most `MOST_STRIPS`, of which a part fits."""
        if self.by_rows[number] or self.whole[number]:
            return
        for strips in range(1, min(MOST_STRIPS, self.rows[self.chains[number][0]].size) + 1):
            self.strips[number] = strips
            with suppress(DoesNotFitError):
                self._cost(number, *self._unit(number, strips // 2))
                return
        self.strips[number] = 1

    def _unit(self, number: int, strip: int) -> tuple[int, int]:
        """Return the first unit of a strip, and its end."""
        first = strip * self._units(number, by_rows=False)
        return first, first + 1

    def units(self, number: int) -> int:
        """Return the rows of a chain, or the output blocks of all strips if it is cut by blocks."""
        return self.strips[number] * self._units(number, self.by_rows[number])

    def each(self, number: int) -> int:
        """Return the units of a chain that may be in one part: all of a strip."""
        return self._units(number, self.by_rows[number])

    def _units(self, number: int, by_rows: bool) -> int:
        chain = self.chains[number]
        if by_rows:
            return 1 if self.whole[number] else min(self.rows[layer].size for layer in chain)
        extent = extent_of(self.costs.macros[chain[0]], self.costs.shape)
        return -(-extent.blocks // extent.share)

    def pieces(self, number: int, first: int, stop: int) -> list[MacroPiece]:
        """Return a range of units of a chain as pieces.

        Raises `DoesNotFitError` if it is in several strips.
        """
        chain = self.chains[number]
        if self.by_rows[number]:
            return strips_of(self, chain, Span(first, stop), self.each(number))
        (layer,) = chain
        macro, rows, strips = self.costs.macros[layer], self.rows[layer], self.strips[number]
        extent, each = extent_of(macro, self.costs.shape), self.each(number)
        strip, first = divmod(first, each)
        stop -= strip * each
        if stop > each:
            raise DoesNotFitError(f"{macro.label}: a part is in two strips")
        ends = [rows.first + rows.size * one // strips for one in (strip, strip + 1)]
        blocks = Span(first * extent.share, min(stop * extent.share, extent.blocks))
        return [MacroPiece(layer, Span(*ends), blocks)]

    def _cost(self, number: int, first: int, stop: int) -> PartCost:
        return together([self.costs.of(one) for one in self.pieces(number, first, stop)])

    def learn(self, made: Grouped, cycles: Sequence[float]) -> None:
        """Raise the factors of chains that took longer than measured. cycles : cycles per group"""
        guessed = np.bincount(made.groups, weights=[one.cycles for one in made.costs])
        ratios = np.array(cycles) / guessed
        chains = np.array([self._chain_of[piece.macro] for piece in made.pieces])
        for chain in np.unique(chains):
            mine = chains == chain
            work = np.array([one.cycles for one in made.costs])[mine]
            ratio = float((ratios[np.array(made.groups)[mine]] * work).sum() / work.sum())
            self.factors[chain] *= max(ratio, 1.0)

    def relieve(self, made: Grouped, crowded: Sequence[Crowded]) -> bool:
        """Let cores communicate with fewer others: raise the minimum size of a part of some chains,
        else let a chain begin on a core without previous ones. Return whether that is possible.

        made : the last cut
        """
        sizes = self._largest(made)
        before = list(self.least), list(self.begins)
        for core in crowded:
            counts: Counter[int] = Counter()
            for layer, count in core.partners.items():
                counts[self._chain_of[layer]] = max(counts[self._chain_of[layer]], count)
            found: list[tuple[int, int, int]] = []  # cycles, chain, and units of a part
            for chain, count in counts.items():
                size = min(2 * sizes[chain], self.each(chain))
                if 2 * count >= max(counts.values()) and size > sizes[chain]:
                    with suppress(DoesNotFitError):
                        found.append((self.cost(chain, size).cycles, chain, size))
            if found:
                _, chain, size = min(found)
                self.least[chain] = max(self.least[chain], size)
            else:
                _, *others = sorted({self._chain_of[layer] for layer in core.macros})
                for chain in others:
                    self.begins[chain] = True
        return (self.least, self.begins) != before

    def forget_limits(self) -> None:
        """Undo `relieve`."""
        self.least, self.begins = [1] * len(self.chains), list(self.alone)

    def _largest(self, made: Grouped) -> dict[int, int]:
        """Return the units of the largest part of each chain in a cut."""
        sizes = dict.fromkeys(range(len(self.chains)), 1)
        for piece in made.pieces:
            chain, rows = self._chain_of[piece.macro], self.rows[piece.macro].size
            share = extent_of(self.costs.macros[piece.macro], self.costs.shape).share
            by_rows = -(-piece.rows.size * self.each(chain) // rows)
            size = by_rows if self.by_rows[chain] else -(-piece.blocks.size // share)
            sizes[chain] = max(sizes[chain], size)
        return sizes

    def shortest(self, least: float = 0) -> tuple[int, Grouped]:
        """Return the shortest period, at least `least`, and how the line is cut for it.

        Raises `DoesNotFitError` that names the layer if its smallest part does not fit in a core,
        or if the line does not fit in the cores for any period.
        """
        whole = sum(self.cycles(number) for number in range(len(self.chains)))
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

    def cycles(self, number: int) -> int:
        """Estimate the total cycles of a chain that is split over all cores."""
        units = self.units(number)
        size = min(max(1, units // self.cores), self.each(number))
        try:
            return self.cost(number, size).cycles * units // size
        except DoesNotFitError:
            return 0

    def cost(self, number: int, size: int) -> PartCost:
        """Return the cost of a number of units of a chain: measured in its middle for some sizes,
        and interpolated between them.

        Raises `DoesNotFitError` if they do not fit in a core.
        """
        units = self.each(number)
        strip = units * (self.strips[number] // 2)

        def measured(count: int) -> PartCost:
            first = strip + (units - count) // 2
            found = self._cost(number, first, first + count)
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
        for number in range(len(self.chains)):
            self._cost(number, 0, 1)  # raises if a single unit does not fit
            needs += self._needs(number)
        needs[0] = 0  # cycles are unlimited, as the period is
        most = int(needs.argmax())
        raise DoesNotFitError(
            f"{len(self.rows)} layers do not fit in {self.cores} cores for any period: their "
            f"{SHARES[most]} needs about {needs[most]:.1f} cores, and parts of layers do not fill "
            "a core completely; use more cores, or cores with more memory"
        )

    def _needs(self, number: int) -> NDArray[np.float64]:
        """Return the number of cores that a chain needs per resource, in the largest parts."""
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
        core, taken = 0, np.zeros(len(SHARES))
        for number in range(len(self.chains)):
            at, units = 0, self.units(number)
            other = number > 0 and self.functions[number] != self.functions[number - 1]
            if taken.any() and (other or self.begins[number]):
                core, taken = core + 1, np.zeros(len(SHARES))
            if core >= self.cores:
                return None
            while at < units:
                count = self._count(number, at, units, WHOLE - taken, period)
                if not count:
                    if not taken.any() or core + 1 >= self.cores:
                        return None
                    core, taken = core + 1, np.zeros(len(SHARES))
                    continue
                self.add(made, number, Span(at, at + count), core)
                taken += shares(self.cost(number, count), self.costs.shape, period)
                at += count
                if self.alone[number]:
                    taken = np.full(len(SHARES), WHOLE)
        return made

    def add(self, made: Grouped, number: int, units: Span, core: int) -> None:
        """Add a range of units of a chain to a cut."""
        pieces = self.pieces(number, *units)
        one = len(pieces) == 1
        made.pieces.extend(pieces)
        made.costs.extend([self.cost(number, units.size)] if one else map(self.costs.of, pieces))
        made.groups.extend([core] * len(pieces))

    def _count(
        self, number: int, first: int, units: int, room: NDArray[np.float64], period: int
    ) -> int:
        """Return how many units of a chain, starting at `first`, fit in the rest of a core."""

        def fits(count: int) -> bool:
            try:
                cost = self.cost(number, count)
            except DoesNotFitError:
                return False
            return bool((np.array(shares(cost, self.costs.shape, period)) <= room).all())

        each = self.each(number)
        left = min(units - first, each - first % each)
        low, high = min(self.least[number], left) - 1, left + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        if low < min(self.least[number], left):
            return 0
        if first + low == units or room.min() >= 1:
            return low
        used = shares(self.cost(number, low), self.costs.shape, period)
        return low if max(used if self.way.fills else used[:1]) >= LEAST_SHARE else 0
