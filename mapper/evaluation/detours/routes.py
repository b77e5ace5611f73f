"""Independent routes around broken links, for the check of a mapping.

Broken links are derived from the keys of the chip. The permitted turns come from the router
tables (`chipsim.detours.turns`): they are checked to use no broken link and to have no cycle, so
that packets cannot deadlock. Routes are searched here, by the rules of `chipsim.detours.search`,
from many routers at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.presets import from_fields
from chipsim.detours.tables import detours_of
from mapper.errors import CheckFailedError

Int64 = NDArray[np.int64]

KEYS = ("broken_links", "broken_routers")
STEPS = ((1, 0), (-1, 0), (0, 1), (0, -1))  # right, left, down, up
CORE = 4  # direction index of the core port
AT_ONCE = 1 << 20  # links times routers that are searched at a time


class RouteParts(NamedTuple):
    """A link of each of some routes, from their ends to their starts.

    route : index of each; router, way : router that the link leaves, and its direction
    came : direction in which the route comes to that router, `CORE` at its start
    """

    route: Int64
    router: Int64
    way: Int64
    came: Int64


class DetourRoutes:
    """The routes of a chip with broken links.

    works : (4, rows, columns), whether a link works
    order : groups of links 4 * router + way; packets wait only for links of earlier groups
    """

    def __init__(self, chip: Mapping[str, Any]) -> None:
        self._chip = chip
        self.columns, self.rows = _routers(chip)
        self.works = working(chip)
        cells = np.arange(self.columns * self.rows)
        y, x = np.divmod(cells, self.columns)
        ends = [(y + dy) % self.rows * self.columns + (x + dx) % self.columns for dx, dy in STEPS]
        self._after = np.where(self.works.reshape(4, -1), ends, -1).T
        self._turns = self._checked_turns(chip)
        self.order = self._peeled()
        self._numbers = np.array([_number(link) for link in range(self._after.size)])
        count = len(cells)
        self._came = np.full((count, count, 4), -1, np.int8)
        self._arrives = np.full((count, count), -1, np.int8)
        step = max(1, AT_ONCE // (4 * count))
        for first in range(0, count, step):
            self._search(cells[first : first + step])

    @staticmethod
    def of(chip: Mapping[str, Any]) -> DetourRoutes | None:
        """Return the routes of a chip, computed once per process; None without broken links."""
        return _routes_of(json.dumps(chip)) if any(chip.get(key) for key in KEYS) else None

    def __reduce__(self) -> tuple[Any, ...]:
        return DetourRoutes.of, (self._chip,)  # another process computes the tables itself

    def _checked_turns(self, chip: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the permitted turns by router, direction before and after."""
        detours = detours_of(from_fields(chip))
        assert detours is not None
        bits = detours.turns.astype(np.int64)[:, None] >> np.arange(16) & 1
        turns = bits.reshape(-1, 4, 4).astype(np.bool_)
        for way, back in ((0, 1), (1, 0), (2, 3), (3, 2)):
            if turns[self._after[:, back] < 0, way].any() or turns[:, way, back].any():
                raise CheckFailedError("turns: a turn comes from a broken link, or leads back")
            if turns[self._after[:, way] < 0, :, way].any():
                raise CheckFailedError("turns: a turn leads to a broken link")
        return turns

    def _peeled(self) -> list[Int64]:
        """Return groups of links whose packets wait only for links of earlier groups."""
        tail, way = np.nonzero(self._after >= 0)
        head = self._after[tail, way]
        waits, left = self._turns[head, way].sum(axis=1), np.ones(len(tail), np.bool_)
        place = np.full(self._after.shape, -1)
        place[tail, way] = np.arange(len(tail))
        groups = []
        while left.any():
            free = np.flatnonzero(left & (waits == 0))
            if not free.size:
                raise CheckFailedError("turns: links wait for each other in a circle")
            groups.append(4 * tail[free] + way[free])
            left[free] = False
            for back, before in enumerate((1, 0, 3, 2)):
                came = self._turns[tail[free], back, way[free]]
                link = place[self._after[tail[free], before], back][came]
                np.subtract.at(waits, link, 1)
        return groups

    def _search(self, sources: Int64) -> None:
        """Find the routes from some routers, one link further in each step."""
        origin, way = np.nonzero(self._after[sources] >= 0)
        link = 4 * sources[origin] + way
        came = np.full(link.size, CORE)
        turned, total = np.zeros(link.size, np.int64), self._numbers[link]
        done = np.zeros((sources.size, self._after.size), np.bool_)
        while link.size:
            order = np.lexsort((total, turned, link, origin))
            first = np.diff(origin[order] * self._after.size + link[order], prepend=-1) != 0
            best = order[first]
            origin, link, came, turned, total = (
                each[best] for each in (origin, link, came, turned, total)
            )
            done[origin, link] = True
            tail, way = np.divmod(link, 4)
            self._came[sources[origin], tail, way] = came
            head = self._after[tail, way]
            self._arrive(sources[origin], head, way, turned, total)
            parts = []
            for out in range(4):
                on = np.flatnonzero(self._turns[head, way, out])
                then = 4 * head[on] + out
                new = ~done[origin[on], then]
                on, then = on[new], then[new]
                into_row = ((way[on] >= 2) & (out < 2)).astype(np.int64)
                parts.append(
                    (
                        origin[on],
                        then,
                        way[on],
                        turned[on] + into_row,
                        total[on] + self._numbers[then],
                    )
                )
            origin, link, came, turned, total = (
                np.concatenate(one) for one in zip(*parts, strict=True)
            )

    def _arrive(self, source: Int64, head: Int64, way: Int64, turned: Int64, total: Int64) -> None:
        """Record the best of the links that reach routers for the first time."""
        new = np.flatnonzero((self._arrives[source, head] < 0) & (source != head))
        key = source[new] * len(self._after) + head[new]
        order = np.lexsort((total[new], turned[new], key))
        best = new[order][np.diff(key[order], prepend=-1) != 0]
        self._arrives[source[best], head[best]] = way[best]

    def parts(self, source: Int64, target: Int64) -> Iterator[RouteParts]:
        """Yield the links of routes between routers, from their ends to their starts."""
        route = np.flatnonzero(source != target)
        origin, here = source[route], target[route]
        way = self._arrives[origin, here].astype(np.int64)
        if way.min(initial=0) < 0:
            a = int(np.flatnonzero(way < 0)[0])
            raise CheckFailedError(f"no route leads from router {origin[a]} to router {here[a]}")
        while route.size:
            dx, dy = np.array(STEPS)[way].T
            y, x = np.divmod(here, self.columns)
            here = (y - dy) % self.rows * self.columns + (x - dx) % self.columns
            came = self._came[origin, here, way].astype(np.int64)
            yield RouteParts(route, here, way, came)
            on = came != CORE
            route, origin, here, way = route[on], origin[on], here[on], came[on]

    def steps(self, source: Int64, target: Int64) -> tuple[Int64, Int64]:
        """Return the links of routes along rows and along columns."""
        found = np.zeros((2, source.size), np.int64)
        for part in self.parts(source, target):
            found[part.way // 2, part.route] += 1
        return found[0], found[1]

    def sums(self, source: Int64, target: Int64, values: Int64) -> Int64:
        """Return the sum of values over the links of each route; values : (4, rows, columns)"""
        found = np.zeros(source.size, np.int64)
        for part in self.parts(source, target):
            found[part.route] += values.reshape(4, -1)[part.way, part.router]
        return found

    def arrivals(self, source: Int64, target: Int64) -> Int64:
        """Return the directions in which routes end, `CORE` between equal routers."""
        return np.where(source == target, CORE, self._arrives[source, target])


@lru_cache(maxsize=1)
def _routes_of(chip: str) -> DetourRoutes:
    return DetourRoutes(json.loads(chip))


def _routers(chip: Mapping[str, Any]) -> tuple[int, int]:
    tile = chip.get("tile") or {"width": 1, "height": 1}
    return chip["width"] // tile["width"], chip["height"] // tile["height"]


def working(chip: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Return whether each link exists and works, shape (4, rows, columns)."""
    columns, rows = _routers(chip)
    wide, tall = chip["width"] // columns, chip["height"] // rows
    torus = chip.get("torus", "")

    def router(core: int) -> tuple[int, int]:
        return core % chip["width"] // wide, core // chip["width"] // tall

    dead = {router(core) for core in chip.get("broken_routers", ())}
    broken = [{router(core) for core in pair} for pair in chip.get("broken_links", ())]
    found = np.zeros((4, rows, columns), np.bool_)
    for y in range(rows):
        for x in range(columns):
            for way, (dx, dy) in enumerate(STEPS):
                across, down = x + dx, y + dy
                if "x" in torus:
                    across %= columns
                if "y" in torus:
                    down %= rows
                ends = {(x, y), (across, down)}
                inside = 0 <= across < columns and 0 <= down < rows and len(ends) == 2
                found[way, y, x] = inside and not ends & dead and ends not in broken
    return found


def _number(link: int) -> int:
    """Return the number of a link: the first 40 bits of splitmix64 after `link`."""
    mask = (1 << 64) - 1
    z = (link + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return (z ^ z >> 31) >> 24
