"""Exact search for cores of a few items, where heuristics found none within all limits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.limits.axons import LimitJob
from mapper.limits.combined_constraints import Constraints
from mapper.limits.use import BITS, NEURONS, SYNAPSES, excess
from storage.arrays import Int32, Int64, Mask

ITEMS = 16  # items of a network that is searched, at most
NODES = 200_000  # steps of the search, at most
COUNTS = 5_000  # mappings whose axons are counted, at most
ADDITIVE = (NEURONS, SYNAPSES, BITS)


def search_places(
    job: LimitJob, constraints: Constraints | None, most: int, team: ThreadTeam
) -> Int32 | None:
    """Return the core of every item within all limits and constraints; None if none was found.

    most : number of cores to use, at most; 0 for all
    """
    if job.items.count > ITEMS:
        return None
    constraints = constraints or Constraints.none(job.items.count)
    load = job.placed
    wanted = 0 if job.bounds is None else job.bounds.used
    for number in (wanted, 0) if wanted else (0,):
        found = _Search(job, constraints, most or job.cores, number).places()
        for place in islice(found, COUNTS):
            use = load.count(place[job.items.item], job.chip.cores, team)
            if not excess(use.table, load.limits).any():
                return place
    return None


class _Search:
    """Backtracking over items, with the fewest allowed cores first, then the largest."""

    def __init__(self, job: LimitJob, constraints: Constraints, most: int, wanted: int) -> None:
        """most, wanted : number of cores to use, at most and at least"""
        count, cores, kinds = job.items.count, job.chip.cores, constraints.kinds
        self._allowed = np.tile(job.chip.usable, (count, 1))
        self._apart: Mask = np.zeros((count, count), np.bool_)
        if kinds is not None:
            self._allowed &= kinds.allowed[kinds.kind]
            self._apart = kinds.apart[np.ix_(kinds.kind, kinds.kind)]
        for i in np.flatnonzero(constraints.pinned):
            self._allowed[i] &= np.arange(cores) == constraints.core[i]
        demands = job.demands()
        self._need: Int64 = np.stack([demands[r] for r in (NEURONS, SYNAPSES, -1)])
        load = job.placed
        self._reserved = np.zeros((0, cores), np.int64) if load.reserved is None else load.reserved
        self._limits = np.repeat(load.limits[list(ADDITIVE), None], cores, axis=1)
        if load.reserved is not None:
            self._limits -= load.reserved[list(ADDITIVE)]
        self._order = np.lexsort((-self._need[0], self._allowed.sum(axis=1))).tolist()
        self._use = np.zeros((len(ADDITIVE), cores), np.int64)
        self._place = np.full(count, -1, np.int32)
        self._most, self._wanted, self._left = most, wanted, NODES
        bounds = job.bounds
        self._least = np.zeros(cores, np.int64) if bounds is None else bounds.least
        sizes = self._need[0, self._order]
        self._rest = np.append(np.cumsum(sizes[::-1])[::-1], 0)

    def places(self, depth: int = 0) -> Iterator[Int32]:
        """Yield mappings within the constraints and the additive limits."""
        if depth == len(self._order):
            yield self._place.copy()
            return
        i = self._order[depth]
        for core in self._cores(i):
            self._left -= 1
            if self._left < 0:
                return
            self._place[i] = core
            self._use[:, core] += self._need[:, i]
            if self._reachable(depth + 1):
                yield from self.places(depth + 1)
            self._use[:, core] -= self._need[:, i]
            self._place[i] = -1

    def _reachable(self, depth: int) -> bool:
        """Return whether the items that are not placed can fill cores to their least size."""
        held = np.bincount(self._place[self._place >= 0], minlength=self._use.shape[1]) > 0
        lack = np.maximum(self._least - self._use[0], 0)[held].sum()
        empty = self._wanted - int(np.count_nonzero(held))
        return bool(lack <= self._rest[depth]) and empty <= len(self._order) - depth

    def _cores(self, i: int) -> list[int]:
        """Return the cores that an item may be on next to the items that are placed."""
        held = np.bincount(self._place[self._place >= 0], minlength=self._use.shape[1]) > 0
        fits = (self._use + self._need[:, i, None] <= self._limits).all(axis=0)
        fits &= self._allowed[i]
        fits[self._place[self._apart[i] & (self._place >= 0)]] = False
        if np.count_nonzero(held) >= self._most:
            fits &= held
        bare = np.flatnonzero(fits & ~held)  # equal empty cores lead to equal mappings
        own = self._least[None, bare]
        seen = np.concatenate([self._allowed[:, bare], self._reserved[:, bare], own])
        first = np.unique(seen, axis=1, return_index=True)[1]
        fits[np.delete(bare, first)] = False
        return np.flatnonzero(fits).tolist()
