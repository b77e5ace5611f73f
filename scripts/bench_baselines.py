"""Baseline placements: row-major, and the published Hilbert curve with force-directed swaps."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.store.network import NetworkFile

Places = tuple[NDArray[np.int64], NDArray[np.int64]]
MOST_SWEEPS = 10_000


def row_major(size: int) -> Places:
    """Return column and row of each group in row-major order."""
    y, x = np.divmod(np.arange(size * size), size)
    return x, y


def hilbert(size: int) -> Places:
    """Return column and row of each step along a Hilbert curve; the side must be a power of 2."""
    if size & (size - 1):
        raise ValueError(f"side {size}: must be a power of 2")
    d = np.arange(size * size)
    x, y = np.zeros_like(d), np.zeros_like(d)
    side = 1
    while side < size:
        right = (d // 2) & 1
        up = (d ^ right) & 1
        flip = (up == 0) & (right == 1)
        x, y = np.where(flip, side - 1 - x, x), np.where(flip, side - 1 - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
        x, y = x + side * right, y + side * up
        d = d // 4
        side *= 2
    return x, y


def hilbert_forced(network: Path, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Place groups along the Hilbert curve, then swap neighbouring cells while the cost falls.

    Returns columns, rows and the seconds of the swaps, without reading and compilation.
    """
    with NetworkFile(network) as net:
        blocks = [lists for _, lists in net.undirected_blocks()]
    degrees = np.concatenate([np.diff(indptr) for indptr, _, _ in blocks])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    ids = np.concatenate([ids for _, ids, _ in blocks])
    weights = np.concatenate([weights for _, _, weights in blocks])
    x, y = hilbert(size)
    _swap_neighbours(indptr, ids, weights, x.copy(), y.copy(), size, 0)  # compile the kernel
    start = time.perf_counter()
    _swap_neighbours(indptr, ids, weights, x, y, size, MOST_SWEEPS)
    return x, y, time.perf_counter() - start


@njit
def _moved(indptr, ids, weights, x, y, u, v, dx, dy):
    """Return the change of cost if u moves by (dx, dy), without its connection to v."""
    change = 0
    for e in range(indptr[u], indptr[u + 1]):
        w = ids[e]
        if w != v:
            before = abs(x[w] - x[u]) + abs(y[w] - y[u])
            change += weights[e] * (abs(x[w] - x[u] - dx) + abs(y[w] - y[u] - dy) - before)
    return change


@njit
def _swap_neighbours(indptr, ids, weights, x, y, size, sweeps):
    """Swap groups on neighbouring cells while the cost falls; every cell holds a group."""
    at = np.empty((size, size), np.int64)
    for u in range(x.size):
        at[y[u], x[u]] = u
    for _ in range(sweeps):
        swapped = 0
        for row in range(size):
            for column in range(size):
                for dx, dy in ((1, 0), (0, 1)):
                    if column + dx >= size or row + dy >= size:
                        continue
                    u, v = at[row, column], at[row + dy, column + dx]
                    change = _moved(indptr, ids, weights, x, y, u, v, dx, dy)
                    change += _moved(indptr, ids, weights, x, y, v, u, -dx, -dy)
                    if change < 0:
                        at[row, column], at[row + dy, column + dx] = v, u
                        x[u], y[u] = column + dx, row + dy
                        x[v], y[v] = column, row
                        swapped += 1
        if swapped == 0:
            break
