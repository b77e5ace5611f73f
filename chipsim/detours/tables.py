"""The routes of a chip with broken links, computed once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np

from chipsim.chip.faults import links_of, working_links
from chipsim.chip.model import Chip
from chipsim.detours.search import (
    REACHED,
    RouteTable,
    find_routes,
    link_numbers,
    reversed_numbers,
    reversed_turns,
)
from chipsim.detours.turns import TurnMasks, link_ranks, next_routers, permitted_turns
from chipsim.parallel import map_ordered
from chipsim.protocols import BoolArray, Int32Array, Int64Array

ROWS = 64
"""Rows of a table that are computed at a time."""
THREADS = 2

_lock = Lock()


@dataclass(frozen=True, eq=False)
class Detours:
    """Permitted turns and routes of the routers of a chip.

    works, broken : ndarray[bool], shape (4, rows, columns of routers): links that work, and those
        that do not, in the form of `chipsim.chip.faults.links_of`
    """

    works: BoolArray
    broken: BoolArray

    @cached_property
    def after(self) -> Int32Array:
        """The router after each link, shape (routers, 4)."""
        return next_routers(self.works)

    @cached_property
    def turns(self) -> TurnMasks:
        """The permitted turns of every router."""
        return permitted_turns(self.works, self.broken)

    @cached_property
    def order(self) -> Int64Array:
        """All links, 4 * router + way, each after the links that packets may take from it."""
        return np.argsort(-link_ranks(self.after, self.turns))

    @property
    def routes(self) -> RouteTable:
        """The routes from every router, in the form of `chipsim.detours.search`."""
        return self._ahead[0]

    @cached_property
    def routes_back(self) -> RouteTable:
        """The routes to every router, backwards, in the same form."""
        numbers = reversed_numbers(self.after, link_numbers(len(self.after)))
        return self._table(reversed_turns(self.turns), numbers, True)[0]

    @property
    def longest(self) -> int:
        """Links of the longest route."""
        return self._ahead[1]

    def reaches(self, router: int) -> BoolArray:
        """Return whether a route leads from a router to each other, shape (routers,)."""
        found: BoolArray = (self.routes[router] >> REACHED & 1).astype(np.bool_)
        return found

    @cached_property
    def _ahead(self) -> tuple[RouteTable, int]:
        return self._table(self.turns, link_numbers(len(self.after)), False)

    def _table(
        self, turns: TurnMasks, numbers: Int64Array, backwards: bool
    ) -> tuple[RouteTable, int]:
        """Return a table, and the links of its longest route."""
        after, table = self.after, np.zeros((len(self.after), len(self.after)), np.uint16)

        def fill(first: int) -> int:
            part = table[first : first + ROWS]
            return int(find_routes(after, turns, numbers, backwards, first, part))

        return table, max(map_ordered(fill, range(0, len(table), ROWS), THREADS))


def detours_of(chip: Chip) -> Detours | None:
    """Return the routes of a chip; None without broken links, where all routes are XY routes."""
    if not chip.detoured:
        return None
    columns, rows = chip.routers
    torus = "" if chip.machine is None else chip.machine.torus
    with _lock:
        return _detours(columns, rows, torus, working_links(chip).tobytes())


@lru_cache(maxsize=2)
def _detours(columns: int, rows: int, torus: str, works: bytes) -> Detours:
    found = np.frombuffer(works, np.bool_).reshape(4, rows, columns)
    return Detours(found, links_of(columns, rows, torus) & ~found)
