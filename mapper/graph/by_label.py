"""Vertices in the order of a label that they have: a core, a part, a cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

SOME = 1 << 16  # vertices whose temporary arrays stay in the cache


class ByLabel(NamedTuple):
    """members : ndarray[int32], vertices by label, ascending among those of one
    start : ndarray[int64], shape (labels + 1,), where those of each label begin
    place : ndarray[int32], shape (vertices,), of each among those of its label; -1 of those that
        are left out
    """

    members: NDArray[np.int32]
    start: NDArray[np.int64]
    place: NDArray[np.int32]


def by_label(
    label: NDArray[np.integer], labels: int, without: NDArray[np.bool_] | None = None
) -> ByLabel:
    """Vertices by label.

    label : shape (vertices,), 0 .. labels-1 of each
    without : ndarray[bool], shape (vertices,), those that are left out

    A counting sort, as rows of a sparse matrix are made from pairs: it takes a tenth of the time of
    a stable argsort, which has the same result.
    """
    vertices = np.arange(label.size, dtype=np.int32)
    if without is not None:
        vertices = vertices[~without]
        label = label[vertices]
    shape = labels, int(vertices[-1]) + 1 if vertices.size else 1
    rows = sparse.csr_matrix((np.ones(vertices.size, np.bool_), (label, vertices)), shape=shape)
    members, start = rows.indices, rows.indptr.astype(np.int64)
    del vertices, rows
    ranks = np.arange(members.size, dtype=np.int32)
    ranks -= np.repeat(start[:-1].astype(np.int32), np.diff(start))
    place = np.full(label.size if without is None else without.size, -1, np.int32)
    place[members] = ranks
    return ByLabel(members, start, place)


def sums_by_label(
    label: NDArray[np.integer], values: NDArray[np.integer], labels: int
) -> NDArray[np.int64]:
    """Sums of the values of the vertices of each label, shape (labels,).

    Some at a time: numpy makes an index of 8 bytes of each label.
    """
    sums = np.zeros(labels, np.int64)
    for first in range(0, label.size, SOME):
        some = slice(first, first + SOME)
        np.add.at(sums, label[some], values[some])
    return sums
