"""How layers are cut for the shortest period: from one frame to the next, every core works once.

All layers, one behind the other, are a line of work, each as many rows long as its result has, or
as many output blocks. The line is cut where a core is full: cores get parts that follow each other,
so a frame never comes back to one that it has left. If it did, that core would wait for others in
the middle of every frame. The shortest period with which the line fits the cores is bisected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.cores.areas import Box, Homes
from mapper.compiler.cores.costs import Cost, Costs
from mapper.compiler.cores.pieces import Piece, Whole
from mapper.compiler.cores.slices import can_split_blocks, slice_macro, some_row_is_padding
from mapper.compiler.cores.vertices import SHARES, shares
from mapper.compiler.graph.node import Upsample
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.schedule.inputs import Span
from mapper.compiler.schedule.tiles import extent_of
from mapper.errors import DoesNotFitError

NEAR = 1.005
"""How near to the shortest period the search comes."""
MOST = 64  # times the least period
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Units of a layer that are measured."""
LEAST_SHARE = 1 / 16
"""Of a period: less is not put on a core to fill it up, since what it takes comes there as well."""


class Way(NamedTuple):
    """How layers are cut.

    blocks : layers whose weights take more than one part in so many of a core are cut by output
        blocks, others by rows; more blocks send each row to more cores, and end earlier
    lag : see `Limits`
    streams : whether weights that no core holds come from the host
    """

    blocks: float = 2
    lag: float = 0
    streams: bool = False


class Grouped(NamedTuple):
    """Pieces with their costs, and the numbers of their cores."""

    pieces: list[Piece]
    costs: list[Cost]
    groups: list[int]


class Line:
    """The layers one behind the other.

    rows : of each, those that anybody takes, before they are upsampled
    whole : of each, whether its rows stay on one core
    blocks : see `Way`
    """

    def __init__(self, costs: Costs, rows: Sequence[Span], cores: int, blocks: float = 2) -> None:
        self.costs, self.rows, self.cores, self.blocks = costs, rows, cores, blocks
        self.whole = [
            some_row_is_padding(macro, span) for macro, span in zip(costs.macros, rows, strict=True)
        ]
        self.by_rows = [self._is_cut_by_rows(number) for number in range(len(rows))]
        self.factors = np.ones(len(rows))  # by which layers take longer than was measured

    def _is_cut_by_rows(self, number: int) -> bool:
        """Rows repeat the weights, so a layer whose weights take more than its share of a core is
        cut by output blocks; so is one of less rows than blocks."""
        macro = self.costs.macros[number]
        units = self._units(number, by_rows=False)
        if units < 2 or not can_split_blocks(macro):
            return True
        if self.rows[number].size <= units:
            return False
        words = self.costs.words(number)
        return self.blocks * words <= self.costs.shape.weight_words

    def units(self, number: int) -> int:
        """Rows of a layer, or output blocks if it is cut by these."""
        return self._units(number, self.by_rows[number])

    def _units(self, number: int, by_rows: bool) -> int:
        if by_rows:
            return 1 if self.whole[number] else self.rows[number].size
        extent = extent_of(self.costs.macros[number], self.costs.shape)
        return -(-extent.blocks // extent.share)

    def piece(self, number: int, first: int, stop: int) -> Piece:
        """Some units of a layer."""
        extent = extent_of(self.costs.macros[number], self.costs.shape)
        if self.by_rows[number]:
            top = self.rows[number].first
            rows = self.rows[number] if self.whole[number] else Span(top + first, top + stop)
            return Piece(number, rows, Span(0, extent.blocks))
        share = extent.share
        blocks = Span(first * share, min(stop * share, extent.blocks))
        return Piece(number, self.rows[number], blocks)

    def learn(self, made: Grouped, cycles: Sequence[float]) -> None:
        """Layers that took longer on their cores than was measured. cycles : of each group"""
        guessed = np.bincount(made.groups, weights=[one.cycles for one in made.costs])
        ratios = np.array(cycles) / guessed
        layers = np.array([piece.macro for piece in made.pieces])
        for layer in np.unique(layers):
            mine = layers == layer
            work = np.array([one.cycles for one in made.costs])[mine]
            ratio = float((ratios[np.array(made.groups)[mine]] * work).sum() / work.sum())
            self.factors[layer] *= max(ratio, 1.0)

    def shortest(self, least: float = 0) -> tuple[int, Grouped]:
        """The shortest period from one on, and how the line is cut for it.

        Raises `DoesNotFitError` that names the layer if a core does not hold its least part, or
        if the cores do not hold the line, whatever the period.
        """
        whole = sum(self._whole(number) for number in range(len(self.rows)))
        low = max(1.0, whole / self.cores, least)
        high, found, most = low, self.cut(int(low)), MOST * low
        while found is None:
            if high > most:
                self._refuse()
            low, high = high, 1.25 * high
            found = self.cut(int(high))
        while high / low > NEAR:
            middle = (low * high) ** 0.5
            tried = self.cut(int(middle))
            if tried is None:
                low = middle
            else:
                high, found = middle, tried
        return int(high), found

    def _whole(self, number: int) -> int:
        """About the cycles of a layer, of its parts for all cores."""
        units = self.units(number)
        size = max(1, units // self.cores)
        try:
            return self.cost(number, size).cycles * units // size
        except DoesNotFitError:
            return 0

    def cost(self, number: int, size: int) -> Cost:
        """What so many units of a layer take: measured in the middle of it, for some sizes, and
        between those in proportion.

        Raises `DoesNotFitError` if no core holds them.
        """
        units = self.units(number)

        def measured(count: int) -> Cost:
            first = (units - count) // 2
            found = self.costs.of(self.piece(number, first, first + count))
            return found._replace(cycles=math.ceil(found.cycles * self.factors[number]))

        if size >= units or size in SIZES:
            return measured(size)
        above = next((one for one in SIZES if one > size), units)
        below, above = max(one for one in SIZES if one < size), min(above, units)
        low, high = measured(below), measured(above)
        share = (size - below) / (above - below)
        return Cost(*(math.ceil(a + (b - a) * share) for a, b in zip(low, high, strict=True)))

    def _refuse(self) -> None:
        needs = np.zeros(len(SHARES))
        for number in range(len(self.rows)):
            self.costs.of(self.piece(number, 0, 1))  # says what it lacks
            needs += self._needs(number)
        needs[0] = 0  # cycles, of which a period may have any number
        most = int(needs.argmax())
        raise DoesNotFitError(
            f"{len(self.rows)} layers do not fit {self.cores} cores, whatever the period: their "
            f"{SHARES[most]} takes about {needs[most]:.1f} cores, and parts of layers do not fill "
            "a core; take more cores, or cores with more memory"
        )

    def _needs(self, number: int) -> NDArray[np.float64]:
        """The parts of cores that a layer takes, in the largest parts that fit one."""
        units = self.units(number)
        for size in (units, *reversed([one for one in SIZES if one < units])):
            with suppress(DoesNotFitError):
                cost = self.cost(number, size)
                found = np.array(shares(cost, self.costs.shape, max(1, cost.cycles)))
                if (found <= 1).all():
                    return units / size * found
        return np.zeros(len(SHARES))

    def cut(self, period: int) -> Grouped | None:
        """The line in parts for a period, or None if it takes more cores."""
        made = Grouped([], [], [])
        number, taken = 0, np.zeros(len(SHARES))
        for layer in range(len(self.rows)):
            at, units = 0, self.units(layer)
            while at < units:
                count = self._count(layer, at, units, 1 - taken, period)
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
        return made

    def _count(
        self, layer: int, first: int, units: int, room: NDArray[np.float64], period: int
    ) -> int:
        """How many units of a layer, from one on, fit what is left of a core."""

        def fits(count: int) -> bool:
            try:
                cost = self.cost(layer, count)
            except DoesNotFitError:
                return False
            return bool((np.array(shares(cost, self.costs.shape, period)) <= room).all())

        low, high = 0, units - first + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        if not low or first + low == units or room.min() >= 1:
            return low
        return low if self.cost(layer, low).cycles >= LEAST_SHARE * period else 0


def taken_rows(whole: Whole, homes: Homes, lanes: int) -> list[Span]:
    """Of each macro node the rows that another one, or the host, takes; the last ones of a map may
    be of no window."""
    boxes: dict[Tensor, Box] = {}

    def take(owner: Tensor, box: Box) -> None:
        boxes[owner] = box.around(boxes[owner]) if owner in boxes else box

    for tensor in whole.read:
        take(homes.of(tensor).owner, homes.whole(tensor))
    found: dict[int, Span] = {}
    for number in range(len(whole.macros) - 1, -1, -1):
        macro = whole.macros[number]
        last = macro.nodes[-1].operator
        scale = last.rows if isinstance(last, Upsample) else 1
        spans = []
        for tensor in macro.outputs:
            owner = homes.of(tensor).owner
            held = homes.held(tensor, boxes[owner]) if owner in boxes else None
            if held is not None:
                spans.append(held.rows)
        first = min((one.first for one in spans), default=0) // scale
        stop = -(-max((one.stop for one in spans), default=scale) // scale)
        found[number] = Span(first, stop)
        extent = Span(0, blocks_of(macro.output.channels, lanes))
        for one in slice_macro(macro, found[number], extent, lanes).inputs:
            take(homes.of(one.whole).owner, homes.box(one.whole, one.held))
    return [found[number] for number in range(len(whole.macros))]
