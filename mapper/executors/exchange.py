"""Exchange (shuffle) of rows: rows move to the process that owns their label, which processes them.

The owner of a chunk selects its rows by label. The home of a label receives the rows of all its
vertices, in their order, and finishes the label. Labels are handled in batches to bound memory; the
batch size does not change results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.shard import Work

BUNCHES = 8  # per thread; small labels are grouped, large ones are alone

Lists = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Rows in CSR form: start of each row and end of the last, ids, weights."""


class Sorted(NamedTuple):
    """Rows of a chunk in contiguous arrays: row lengths, ids and weights.

    ids : increasing in each row, ndarray[uint16] or [int32]; weights : ndarray[uint8] or [int32],
        not negative; see `Exchange.near` and `light`
    """

    used: NDArray[np.int32]
    ids: NDArray[Any]
    weights: NDArray[Any]


class Exchange(NamedTuple):
    """Description of an exchange: selects rows by label, and finishes each label.

    sort : `sort(shard, chunk, low, high, *arguments)` returns a `Sorted`: rows of the vertices
        whose label (`part` of the state) is in low .. high-1; rows of other vertices are empty
    finish : `finish(label, rows, *given(label))`, all picklable; `rows()` returns `Lists` of the
        label's vertices, ascending
    most : ndarray[int64], shape (labels,), upper bound of the entries of each label
    members, start : vertices by label, see `mapper.graph.by_label`
    near, light : ids have two bytes, weights one byte; otherwise four bytes each
    memory : bytes of rows that this process may hold; exceeded only by a label that needs more
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
        """Bytes per entry held in memory."""
        return (2 if self.near else 4) + (1 if self.light else 4)

    def batch_end(self, low: int, share: float) -> int:
        """Return the end of the batch of labels from `low` on whose rows fit in memory.

        share : expected entries per label, as a fraction of the upper bound; one label always fits
        """
        entries = int(self.memory / (self.entry_bytes * share))
        sums = np.cumsum(self.most[low:])
        return low + max(1, int(np.searchsorted(sums, entries, side="right")))

    def shares(self, count: int, memory: int) -> list[list[tuple[int, int]]]:
        """Return batches of `count` label ranges with about equal numbers of entries.

        memory : bytes of rows per range; exceeded only by labels that need more
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
    """Contiguous rows with ids and weights in the narrowest type that holds them.

    near, far : ids, ndarray[uint16] and ndarray[int32]; one of the two is empty
    light, heavy : weights, ndarray[uint8] and ndarray[int32]; one of the two is empty
    """

    near: NDArray[np.uint16]
    far: NDArray[np.int32]
    light: NDArray[np.uint8]
    heavy: NDArray[np.int32]

    @classmethod
    def empty(cls, entries: int, near: bool, light: bool) -> Gathered:
        """Return uninitialised arrays for `entries` entries."""
        return cls(
            np.empty(entries if near else 0, np.uint16),
            np.empty(0 if near else entries, np.int32),
            np.empty(entries if light else 0, np.uint8),
            np.empty(0 if light else entries, np.int32),
        )


@njit(cache=True, nogil=True)
def take_rows(places, offset, used, gathered):
    """Return the gathered rows of these vertices: indptr, ids and weights."""
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
    """Buffer that receives rows in the order of their vertices and returns them by label."""

    def __init__(self, vertices: int, entries: int, near: bool, light: bool) -> None:
        """Allocate for these sizes; untouched pages use no memory."""
        self._offset, self._used = np.zeros(vertices, np.int64), np.zeros(vertices, np.int32)
        self._gathered = Gathered.empty(entries, near, light)
        self._ids: NDArray[Any] = self._gathered.near if near else self._gathered.far
        self._weights: NDArray[Any] = self._gathered.light if light else self._gathered.heavy
        self._at = self._first = 0

    def put(self, rows: Sorted, first: int | None = None) -> None:
        """Append the rows of the next vertices; `first` : their start, if vertices are skipped."""
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
        """Number of vertices whose rows were received."""
        return self._first

    @property
    def entries(self) -> int:
        """Number of entries received."""
        return self._at

    def rows(self, places: NDArray[np.int32]) -> Lists:
        """Return the rows of the vertices at some places, ascending."""
        found: Lists = take_rows(places, self._offset, self._used, self._gathered)
        return found


def finish_all(
    team: ThreadTeam, labels: range, most: NDArray[np.int64], finish: Callable[[int], Any]
) -> Iterator[Any]:
    """Yield `finish(label)` of all labels in order, computed by the threads of a team.

    most : work per label, shape (labels,); the largest labels go first, so that threads end at
        about the same time, and small ones are grouped
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
