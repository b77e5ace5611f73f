"""Graphs held in memory: one array of neighbours, row after row (compressed sparse rows)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _extract(indptr, ids, weights, side, wanted, local, members, sub_indptr, sub_ids, sub_weights):
    """The subgraph of the vertices on one side."""
    count = 0
    for v in range(side.size):
        if side[v] == wanted:
            local[v] = count
            members[count] = v
            count += 1
    at = 0
    sub_indptr[0] = 0
    for i in range(count):
        v = members[i]
        for e in range(indptr[v], indptr[v + 1]):
            if side[ids[e]] == wanted:
                sub_ids[at] = local[ids[e]]
                sub_weights[at] = weights[e]
                at += 1
        sub_indptr[i + 1] = at
    return count, at


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Part of a graph in memory: connection lists, sizes, and each vertex's id in the whole.

    indptr : ndarray[int64], shape (n + 1,); ids : ndarray[int32]; weights : ndarray[int64]
    sizes, members : ndarray[int64], shape (n,)
    """

    indptr: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: NDArray[np.int64]

    @property
    def size(self) -> int:
        return int(self.sizes.sum())

    def halves(self, side: NDArray[np.uint8]) -> Iterator[Subgraph]:
        """The part where `side` is 1, then the part where it is 0."""
        local = np.empty(side.size, np.int32)
        for wanted in (1, 0):
            members = np.empty(side.size, np.int64)
            indptr = np.empty(side.size + 1, np.int64)
            ids, weights = np.empty_like(self.ids), np.empty_like(self.weights)
            count, used = _extract(
                self.indptr, self.ids, self.weights, side, wanted,
                local, members, indptr, ids, weights,
            )  # fmt: skip
            kept = members[:count]
            yield Subgraph(
                indptr[: count + 1].copy(),
                ids[:used].copy(),
                weights[:used].copy(),
                self.sizes[kept],
                self.members[kept],
            )
