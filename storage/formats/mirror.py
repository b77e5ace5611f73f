"""Does a file list every edge at both of its ends, with the same weight?

Sums of hashes answer it in one pass and no memory; only when they disagree the entries are sorted
to find the first edge that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.sorter import ConnectionSorter

_SALT = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_MIX = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that looks random."""
    value = (value ^ (value >> _SHIFTS[0])) * _MIX[:1]
    value = (value ^ (value >> _SHIFTS[1])) * _MIX[1:]
    return value ^ (value >> _SHIFTS[2])


def _digest(low: NDArray[np.int64], high: NDArray[np.int64], weight: NDArray[np.int64]) -> int:
    """Sum of the entries' hashes modulo 2^64: does not depend on their order."""
    value = _mixed(low.view(np.uint64) + _SALT[:1])
    value = _mixed(value + high.view(np.uint64) + _SALT[1:2])
    value = _mixed(value + weight.view(np.uint64) + _SALT[2:])
    return int(value.sum(dtype=np.uint64))


class Mirror:
    """Sees all entries (owner, other, weight), int64, in chunks of any order."""

    def __init__(self) -> None:
        self.entries = 0
        self.loops = 0
        self._balance = 0

    def add(
        self,
        owner: NDArray[np.int64],
        other: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        up, down = np.flatnonzero(owner < other), np.flatnonzero(owner > other)
        self.entries += owner.size
        self.loops += owner.size - up.size - down.size
        self._balance += _digest(owner[up], other[up], weight[up])
        self._balance -= _digest(other[down], owner[down], weight[down])

    @property
    def agrees(self) -> bool:
        """Whether all edges were seen from both ends alike; wrong once in 2^64."""
        return self._balance % (1 << 64) == 0


Unmatched = tuple[int, int, int | None, int | None]


def find_unmatched(
    vertices: int,
    entries: Iterable[tuple[NDArray[np.int64], ...]],
    folder: Path,
    memory: int,
) -> Unmatched | None:
    """The first edge u < v that differs: (u, v, weight listed at u, weight listed at v).

    A weight is None if that end does not list the edge. Repeated entries add up, so there may be
    no such edge although `Mirror` saw a difference; then the result is None.
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
