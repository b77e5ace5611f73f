"""Consistency of files that list each edge at both ends: are the entries and weights equal?

Sums of hashes answer this in one pass in constant memory. Only if they differ are the entries
sorted to find the first inconsistent edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.formats.base import ImportJob
from storage.hashing import scrambled
from storage.sorting.sorter import ConnectionSorter
from storage.store.meta import NetworkMeta

_SALTS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


@njit(cache=True, nogil=True)
def _balance(owner, other, weight, salts, sums):
    """Add the entries' hashes to sums[0] where owner < other and to sums[1] where it is larger.

    salts : ndarray[uint64], shape (3,)
    sums : ndarray[uint64], shape (2,), modulo 2^64, so the order of entries does not matter
    Returns the number of entries with owner == other.
    """
    loops = 0
    up = np.uint64(0)
    down = np.uint64(0)
    for i in range(owner.size):
        if owner[i] == other[i]:
            loops += 1
            continue
        low = np.uint64(min(owner[i], other[i]))
        high = np.uint64(max(owner[i], other[i]))
        value = scrambled(low + salts[0])
        value = scrambled(value + high + salts[1])
        value = scrambled(value + np.uint64(weight[i]) + salts[2])
        if owner[i] < other[i]:
            up += value
        else:
            down += value
    sums[0] += up
    sums[1] += down
    return loops


class Mirror:
    """Checks all entries (owner, other, weight), int64, in chunks of any order."""

    def __init__(self) -> None:
        self.entries = 0
        self.loops = 0
        self._sums = np.zeros(2, np.uint64)

    def add(
        self,
        owner: NDArray[np.int64],
        other: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        self.entries += owner.size
        with np.errstate(over="ignore"):  # modulo 2^64, also with the JIT off
            self.loops += _balance(owner, other, weight, _SALTS, self._sums)

    @property
    def agrees(self) -> bool:
        """Return whether both ends list the same edges; false positive rate 2^-64."""
        return bool(self._sums[0] == self._sums[1])


Unmatched = tuple[int, int, int | None, int | None]


def find_unmatched(
    vertices: int, entries: Iterable[Iterable[NDArray[np.int64]]], folder: Path, memory: int
) -> Unmatched | None:
    """Return the first inconsistent edge u < v: (u, v, weight listed at u, weight listed at v).

    A weight is None if that end does not list the edge. Repeated entries are added, so all edges
    may be consistent although `Mirror` found a difference; then the result is None.
    """
    with ConnectionSorter(vertices, folder, memory) as sorter:
        for owner, other, weight in entries:
            up, down = owner < other, owner > other
            sorter.add(owner[up], other[up], 0, weight[up])
            sorter.add(other[down], owner[down], 1, weight[down])
        for block, _ in sorter.blocks(1 << 16):
            owner = np.repeat(np.arange(block.vertices), np.diff(block.indptr))
            here = np.flatnonzero(block.incoming == 0)
            there = np.flatnonzero(block.incoming == 1)
            keys = [(owner[part] << 32) + block.ids[part] for part in (here, there)]
            only = np.setxor1d(keys[0], keys[1], assume_unique=True)
            both, left, right = np.intersect1d(
                keys[0], keys[1], assume_unique=True, return_indices=True
            )
            differ = both[block.weights[here[left]] != block.weights[there[right]]]
            if not only.size and not differ.size:
                continue
            first = min([*only[:1].tolist(), *differ[:1].tolist()])
            sides = [
                int(block.weights[part[at]])
                if (at := int(np.searchsorted(key, first))) < key.size and key[at] == first
                else None
                for part, key in zip((here, there), keys, strict=True)
            ]
            return block.first + (first >> 32), first & 0xFFFFFFFF, sides[0], sides[1]
    return None


class MirroredGraph(Protocol):
    """An undirected graph in a file that lists each edge at both ends.

    fraction : part of the file read by the current pass over the edges
    provenance : of the network
    """

    vertices: int
    provenance: dict[str, Any]

    @property
    def fraction(self) -> float: ...

    def edges(self) -> Iterator[Iterable[NDArray[np.int64]]]:
        """Yield all entries of the file: owner, other, weight; each shape (entries,)."""

    def check(self, mirror: Mirror) -> None:
        """Raise `BadInputError` if the file declares a different number of edges than it has."""

    def attributes(self) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield names and values of vertex attributes; call it after a pass over the edges."""

    def refuse_unmatched(self, folder: Path, memory: int) -> None:
        """Raise `BadInputError` with the edge of `find_unmatched`, if it finds one."""


def load_mirrored(job: ImportJob, graph: MirroredGraph) -> NetworkMeta:
    """Convert to an undirected network file. Self-loops are dropped and counted.

    An edge may be split into repeated entries at one end only; then a second pass uses the entries
    of the lower end.
    """
    for both in (True, False):
        mirror = Mirror()
        with job.writer(graph.vertices, undirected=True) as writer:
            for owner, other, weight in graph.edges():
                mirror.add(owner, other, weight)
                if both:
                    writer.add_listed(owner, other, weight)
                else:
                    lower = owner <= other
                    writer.add(owner[lower], other[lower], weight[lower])
                job.progress(graph.fraction)
            if both and not mirror.agrees:
                graph.refuse_unmatched(job.destination.absolute().parent, job.memory)
                continue
            graph.check(mirror)
            for name, values in graph.attributes():
                writer.set_attribute(name, values)
            return writer.finish(graph.provenance)
    raise AssertionError("the second pass returns")
