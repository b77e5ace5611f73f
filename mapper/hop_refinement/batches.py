"""Cores in batches whose vertices have all their rows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.graph.rows import HeldRows, Rows
from mapper.hop_refinement.mesh import Mesh
from mapper.hop_refinement.pairwise_fm import Batch, pairwise_fm_round
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.threads import ThreadTeam

ROW_BYTES = 8  # of an entry: id and weight


@njit(cache=True, nogil=True)
def _gather_rows(chunk, core, wanted, offset, out_ids, out_weights):
    """Copy the rows of the vertices on wanted cores to their places."""
    first, indptr, ids, weights = chunk
    for i in range(indptr.size - 1):
        v = first + i
        if not wanted[core[v]]:
            continue
        length = indptr[i + 1] - indptr[i]
        out_ids[offset[v] : offset[v] + length] = ids[indptr[i] : indptr[i + 1]]
        out_weights[offset[v] : offset[v] + length] = weights[indptr[i] : indptr[i + 1]]


def batches(
    rows: Rows,
    core: NDArray[np.int32],
    mesh: Mesh,
    memory: int,
    turned: bool,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> Iterator[Batch]:
    """All cores of a mesh in as few batches as the memory allows: one, if the rows are held.

    memory : bytes for rows; a core that needs more is alone
    turned : batches are made of rows of the mesh, not of columns, so that other cores come
        together
    """
    cores = mesh.width * mesh.height
    if isinstance(rows, HeldRows):
        advance(rows.entries)
        every = np.ones(cores, np.bool_)
        yield Batch(every, rows.indptr[:-1], rows.degrees(), rows.ids, rows.weights)
        return
    degree = rows.degrees()
    needs = np.bincount(core, weights=degree, minlength=cores).astype(np.int64)
    order = np.arange(cores)
    if not turned:
        order = order.reshape(mesh.height, mesh.width).T.ravel()
    longest = max(memory // ROW_BYTES, int(needs.max()))
    ids, weights = np.empty(0, np.int32), np.empty(0, np.int32)
    at = 0
    while at < cores:
        total_bytes = np.cumsum(needs[order[at:]])
        count = max(1, int(np.searchsorted(total_bytes, longest, side="right")))
        wanted = np.zeros(cores, np.bool_)
        wanted[order[at : at + count]] = True
        at += count
        mine = wanted[core]
        lengths = np.where(mine, degree, 0)
        offset = np.cumsum(lengths, dtype=np.int64) - lengths
        total = int(total_bytes[count - 1])
        if total == 0:
            continue
        if ids.size < total:
            del ids, weights
            ids, weights = np.empty(total, np.int32), np.empty(total, np.int32)

        def gather(
            index: int,
            wanted: NDArray[np.bool_] = wanted,
            offset: NDArray[np.int64] = offset,
            ids: NDArray[np.int32] = ids,
            weights: NDArray[np.int32] = weights,
        ) -> int:
            chunk = rows.read(index)
            _gather_rows(chunk, core, wanted, offset, ids, weights)
            return int(chunk.indptr[-1] - chunk.indptr[0])

        for entries in team.stream(gather, range(rows.chunks)):
            advance(entries)
        yield Batch(wanted, offset, degree, ids, weights)


def pairwise_fm_batches(
    found_batches: Iterable[Batch],
    mesh: Mesh,
    core: NDArray[np.int32],
    sizes: NDArray[np.int64],
    sets: Sequence[NDArray[np.int64]],
    passes: int,
    rng: np.random.Generator,
    team: ThreadTeam,
    fixed: NDArray[np.bool_] | None = None,
) -> tuple[int, int]:
    """All pairs of cores once, as far as both are in one batch; `core` changes in place.

    found_batches : see `batches`; the others : see `pairwise_fm_round`

    Returns the moves, and about the hops that they saved.
    """
    moved = saved = 0
    for batch in found_batches:
        found = pairwise_fm_round(batch, mesh, core, sizes, sets, passes, rng, team, fixed)
        moved, saved = moved + found[0], saved + found[1]
    return moved, saved
