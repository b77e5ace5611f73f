"""Directions of the entries of packed rows, so that outgoing connections can be read from them.

A row adds both directions of a pair of vertices. Two bits per entry mark whether no connection is
outgoing, or one with the weight of the entry, or one with another weight, which is in a separate
list. Reading outgoing connections from rows takes a third of the time of reading the file again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.store.codec import ABSENT, REPEATED

NONE, ALL, SOME = 0, 1, 2
"""Marks: how much of the weight of an entry is outgoing."""
PER_BYTE = 4


class Directions(NamedTuple):
    """Directions of the entries of rows.

    marks : ndarray[uint8], four marks per byte, the first in the lowest bits
    some : ndarray[int32], outgoing weights of the entries marked with `SOME`
    """

    marks: NDArray[np.uint8]
    some: NDArray[np.int32]


@njit(cache=True, nogil=True)
def _mark(weights, outgoing, marks, some):
    """Fill in the marks and the weights; return their number, or -1 for repeated connections."""
    at = 0
    for i in range(marks.size):
        marks[i] = 0
    for i in range(weights.size):
        if outgoing[i] == REPEATED:
            return -1
        if outgoing[i] == ABSENT:
            continue
        mark = ALL
        if outgoing[i] != weights[i]:
            mark = SOME
            some[at] = outgoing[i]
            at += 1
        marks[i // PER_BYTE] |= mark << 2 * (i % PER_BYTE)
    return at


@njit(cache=True, nogil=True)
def _select(rows, marks, some, selected):
    """Copy the outgoing connections of rows; both are the arrays indptr, ids and weights."""
    indptr, ids, weights = rows
    out_indptr, out_ids, out_weights = selected
    at = other = 0
    out_indptr[0] = 0
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            mark = marks[np.uint32(e >> 2)] >> np.uint8(2 * (e & 3)) & 3
            out_ids[np.uint32(at)] = ids[np.uint32(e)]
            out_weights[np.uint32(at)] = weights[np.uint32(e)]
            if mark == SOME:
                out_weights[np.uint32(at)] = some[other]
                other += 1
            at += mark != NONE  # branchless: the direction is unpredictable
        out_indptr[v + 1] = at
    return at


def directions_of(weights: NDArray[np.int32], outgoing: NDArray[np.int64]) -> Directions | None:
    """Return the directions of entries; None if pairs have repeated connections.

    weights : of the entries; outgoing : the outgoing part of each, see `decode_shares`
    """
    marks = np.empty(-(-weights.size // PER_BYTE), np.uint8)
    some = np.empty(weights.size, np.int32)
    count = _mark(weights, outgoing, marks, some)
    return None if count < 0 else Directions(marks, some[:count].copy())


def outgoing_of(
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    weights: NDArray[np.int32],
    directions: Directions,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Return the outgoing connections of rows: indptr, ids and weights."""
    selected = np.empty_like(indptr), np.empty_like(ids), np.empty(ids.size, np.int64)
    used = _select((indptr, ids, weights), *directions, selected)
    return selected[0], selected[1][:used], selected[2][:used]
