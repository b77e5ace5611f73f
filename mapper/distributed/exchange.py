"""Exchanges: rows go to where their vertices' labels are at home, and are worked on there.

Who has a chunk sorts its rows out; the home of a label gets those of all its vertices, in their
order, and finishes them. Batches of labels bound the memory; they change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.distributed.shard import Work
from mapper.runtime.threads import ThreadTeam

BUNCHES = 8  # of labels for each thread: small ones together, large ones alone

Lists = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Rows: where each begins and the last ends, ids, and weights."""


class Sorted(NamedTuple):
    """Rows of a chunk, one behind the other: the length of each vertex's, ids, and weights.

    ids : increasing in each row, ndarray[uint16] or [int32]; weights : ndarray[uint8] or [int32],
        not negative; see `Exchange.near` and `light`
    """

    used: NDArray[np.int32]
    ids: NDArray[Any]
    weights: NDArray[Any]


class Exchange(NamedTuple):
    """What is sorted out by label, and what becomes of it.

    sort : `sort(shard, chunk, low, high, *arguments)` makes a `Sorted`: rows of the vertices whose
        label, in the `part` of the state, is in low .. high-1; those of others are empty
    finish : `finish(label, rows, *given(label))`, of anything that can be sent to other processes;
        `rows()` makes `Lists` of the label's vertices, ascending
    most : ndarray[int64], shape (labels,), entries that each label gets at most
    members, start : vertices by label, see `mapper.graph.by_label`
    near, light : ids take two bytes, weights take one; else both take four
    memory : bytes of rows that this process may hold; more for one label that needs more
    """

    sort: Work[Sorted]
    arguments: tuple[Any, ...]
    finish: Callable[..., Any]
    given: Callable[[int], tuple[Any, ...]]
    most: NDArray[np.int64]
    members: NDArray[np.int32]
    start: NDArray[np.int64]
    near: bool
    light: bool
    memory: int

    @property
    def entry_bytes(self) -> int:
        """Of an entry that is held."""
        return (2 if self.near else 4) + (1 if self.light else 4)

    def batch_end(self, low: int, share: float) -> int:
        """The end of the labels from `low` on whose rows fit the memory of this process together.

        share : of the entries that a label gets at most, what it gets; one label always fits
        """
        entries = int(self.memory / (self.entry_bytes * share))
        sums = np.cumsum(self.most[low:])
        return low + max(1, int(np.searchsorted(sums, entries, side="right")))

    def shares(self, count: int, memory: int) -> list[list[tuple[int, int]]]:
        """Batches of ranges of labels, `count` of about the same entries in each.

        memory : bytes of rows of a range; more for labels that need more
        """
        at = np.append(0, np.cumsum(self.most))
        total, largest = int(at[-1]), int(self.most.max(initial=0))
        entries = max(memory // self.entry_bytes - largest, memory // self.entry_bytes // 2, 1)
        rounds = max(1, -(-total // (count * entries)))
        ends = total * np.arange(1, count * rounds) // (count * rounds)
        inner = np.searchsorted(at, ends, side="left")
        edges = np.unique(np.concatenate([[0], inner, [self.most.size]])).tolist()
        ranges = list(pairwise(edges))
        return [ranges[low : low + count] for low in range(0, len(ranges), count)]


class Gathered(NamedTuple):
    """Rows one behind the other, in as few bytes as they need.

    near, far : ids, ndarray[uint16] and ndarray[int32]; one of the two is empty
    light, heavy : weights, ndarray[uint8] and ndarray[int32]; one of the two is empty
    """

    near: NDArray[np.uint16]
    far: NDArray[np.int32]
    light: NDArray[np.uint8]
    heavy: NDArray[np.int32]

    @classmethod
    def empty(cls, entries: int, near: bool, light: bool) -> Gathered:
        """Room for so many entries."""
        return cls(
            np.empty(entries if near else 0, np.uint16),
            np.empty(0 if near else entries, np.int32),
            np.empty(entries if light else 0, np.uint8),
            np.empty(0 if light else entries, np.int32),
        )


@njit(cache=True, nogil=True)
def take_rows(places, offset, used, gathered):
    """The rows at these places, from where each has been gathered: indptr, ids and weights."""
    near, far, light, heavy = gathered
    indptr = np.empty(places.size + 1, np.int64)
    indptr[0] = 0
    for i in range(places.size):
        indptr[i + 1] = indptr[i] + used[places[i]]
    own_ids = np.empty(indptr[-1], np.int32)
    own_weights = np.empty(indptr[-1], np.int32)
    for i in range(places.size):
        first = offset[places[i]]
        low, count = indptr[i], indptr[i + 1] - indptr[i]
        if near.size > 0:
            for e in range(count):
                own_ids[low + e] = near[first + e]
        else:
            for e in range(count):
                own_ids[low + e] = far[first + e]
        if light.size > 0:
            for e in range(count):
                own_weights[low + e] = light[first + e]
        else:
            for e in range(count):
                own_weights[low + e] = heavy[first + e]
    return indptr, own_ids, own_weights


class RowBuffer:
    """Rows that come in, in the order of their vertices, and go out by label."""

    def __init__(self, vertices: int, entries: int, near: bool, light: bool) -> None:
        """Room for so many; pages of it that are never touched cost nothing."""
        self._offset, self._used = np.zeros(vertices, np.int64), np.zeros(vertices, np.int32)
        self._gathered = Gathered.empty(entries, near, light)
        self._ids: NDArray[Any] = self._gathered.near if near else self._gathered.far
        self._weights: NDArray[Any] = self._gathered.light if light else self._gathered.heavy
        self._at = self._first = 0

    def put(self, rows: Sorted, first: int | None = None) -> None:
        """The rows of the next vertices; first : where they begin, if some are left out."""
        at, first = self._at, self._first if first is None else first
        end, last = at + rows.ids.size, first + rows.used.size
        self._ids[at:end], self._weights[at:end] = rows.ids, rows.weights
        self._used[first:last] = rows.used
        np.cumsum(rows.used[:-1], out=self._offset[first + 1 : last])
        self._offset[first:last][:1] = 0
        self._offset[first:last] += at
        self._at, self._first = end, last

    @property
    def vertices(self) -> int:
        """Whose rows have come."""
        return self._first

    @property
    def entries(self) -> int:
        """Of the rows that have come."""
        return self._at

    def rows(self, places: NDArray[np.int32]) -> Lists:
        """Those of vertices at some places, ascending."""
        found: Lists = take_rows(places, self._offset, self._used, self._gathered)
        return found


def finish_all(
    team: ThreadTeam, labels: range, most: NDArray[np.int64], finish: Callable[[int], Any]
) -> Iterator[Any]:
    """`finish(label)` of all labels, by the threads of a team, in the order of the labels.

    most : work of each label, shape (labels,): the largest go first, so that threads end together,
        and small ones in bunches
    """
    order = np.argsort(-most, kind="stable")
    ends = np.linspace(0, most.sum(), BUNCHES * team.threads + 1)[1:-1]
    bunches = np.unique(np.searchsorted(np.cumsum(most[order]), ends))
    found: dict[int, Any] = {}

    def finish_some(places: NDArray[np.int64]) -> None:
        for place in places.tolist():
            found[place] = finish(labels[place])

    team.map(finish_some, [some for some in np.split(order, bunches) if some.size])
    for place in range(len(labels)):
        yield found.pop(place)
