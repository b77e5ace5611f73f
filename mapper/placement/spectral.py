"""Places from the eigenvectors of the normalised Laplacian, with a search over rotations.

Hall's quadratic placement (Management Science 17, 1970): coordinates that minimise the weighted
sum of squared distances are eigenvectors. They come from a multilevel solver (Barnard and Simon,
Concurrency 6, 1994): groups are paired until few are left, and on the way back each level starts
from the vectors of the coarser one, sharpened by Chebyshev filtered subspace iteration (Zhou,
Saad, Tiago and Chelikowsky, J. Comput. Phys. 219, 2006). Where eigenvalues nearly coincide, as on
square grids (two) and tori (four), the vectors are an arbitrary rotation of the useful ones: many
rotations are tried and those with the smallest cost are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from mapper.placement.force import _hop_cost
from mapper.placement.legalise import Splits, legalise, split_cells
from mapper.placement.traffic import Traffic
from storage.parallel import map_ordered

Levels = list[tuple[Any, NDArray[np.int64]]]

SKETCH = 8192  # vertices on which rotations are compared
COARSEST = 64  # groups; small enough for a dense solver in any library to stay on one thread
VECTORS = 4  # that span the rotations
SEARCHED = 512  # groups from which more than a plane is searched
GUARD = 3  # vectors more, so that the wanted ones converge fast
DEGREE = 16  # of the Chebyshev filter
CYCLES = 6  # filters on a level at most
RESIDUAL = 0.05  # of the distance of the eigenvalue from 1


@njit(cache=True, nogil=True)
def _pair(indptr, ids, weights, size, order, coarse):
    """Pair each group with the neighbour of largest weight for its size; returns the pairs' number.

    size : groups in each vertex; order : in which vertices choose
    coarse : number of the vertex that each becomes a part of, changed
    """
    coarse[:] = -1
    count = 0
    for u in order:
        if coarse[u] >= 0:
            continue
        best = -1.0
        mate = -1
        for e in range(indptr[u], indptr[u + 1]):
            v = ids[e]
            if v != u and coarse[v] < 0:
                score = weights[e] / size[v]
                if score > best:
                    best = score
                    mate = v
        coarse[u] = count
        if mate >= 0:
            coarse[mate] = count
        count += 1
    return count


def _hierarchy(matrix: Any, rng: np.random.Generator) -> Levels:
    """Matrices from fine to coarse, each with the map onto the next."""
    levels = []
    size = np.ones(matrix.shape[0])
    while matrix.shape[0] > COARSEST:
        n = matrix.shape[0]
        coarse = np.empty(n, np.int64)
        count = _pair(matrix.indptr, matrix.indices, matrix.data, size, rng.permutation(n), coarse)
        if count > 0.9 * n:
            break
        levels.append((matrix, coarse))
        merge = csr_array((np.ones(n), coarse, np.arange(n + 1)), shape=(n, count))
        matrix = (merge.T @ matrix @ merge).tocsr()
        size = np.bincount(coarse, weights=size, minlength=count).astype(np.float64)
    levels.append((matrix, np.zeros(0, np.int64)))
    return levels


def _ritz(matrix: Any, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Best eigenvalues, vectors and residuals within the span of a block (Rayleigh and Ritz)."""
    block = block / np.sqrt(np.einsum("ij,ij->j", block, block))
    gram = np.einsum("ij,ik->jk", block, block)
    values, vectors = np.linalg.eigh(gram)
    block = np.einsum("ij,jk->ik", block, vectors / np.sqrt(np.maximum(values, 1e-14)))
    image = matrix @ block
    values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", block, image))
    values, vectors = values[::-1], vectors[:, ::-1]
    block = np.einsum("ij,jk->ik", block, vectors)
    image = np.einsum("ij,jk->ik", image, vectors)
    residual = image - block * values
    return values, block, np.sqrt(np.einsum("ij,ij->j", residual, residual))


def _filtered(
    matrix: Any, block: NDArray[np.float64], cut: float, degree: int
) -> NDArray[np.float64]:
    """Chebyshev polynomial that is small on [-1, cut] and large above, of the matrix."""
    centre, half = (cut - 1) / 2, (cut + 1) / 2
    last = block
    block = (matrix @ block - centre * block) / half
    for _ in range(degree - 1):
        last, block = block, 2 / half * (matrix @ block - centre * block) - last
    return block


def eigenvectors(
    traffic: Traffic, count: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], Levels]:
    """The first non-trivial eigenvectors of the random walk on a connected graph.

    Returns eigenvalues, shape (count,), vectors, shape (groups, count), and the hierarchy: matrices
    from fine to coarse, each with the map onto the next.
    """
    n = traffic.size
    matrix = csr_array((traffic.weights.astype(np.float64), traffic.ids, traffic.indptr), (n, n))
    levels = _hierarchy(matrix, rng)
    wanted = count + 1
    width = min(wanted + GUARD, levels[-1][0].shape[0])
    block = np.zeros((0, 0))
    for level in range(len(levels) - 1, -1, -1):
        matrix, coarse = levels[level]
        # weights within a coarse vertex stay on the diagonal: they count as strength
        strength = np.sqrt(matrix.sum(axis=1))
        strength = np.maximum(strength, 1e-9)
        scale = diags_array(1 / strength)
        matrix = (scale @ matrix @ scale).tocsr()
        if level == len(levels) - 1:
            if matrix.shape[0] <= 4 * COARSEST:
                values, block = np.linalg.eigh(matrix.toarray())
                block = block[:, ::-1][:, :width]
                block = block / strength[:, None]
                continue
            block = rng.standard_normal((matrix.shape[0], width))
        else:
            block = block[coarse] * strength[:, None]
        block[:, 0] = strength
        for _ in range(CYCLES):
            values, block, residual = _ritz(matrix, block)
            short = 1 - values
            if (residual[1:wanted] <= RESIDUAL * short[1:wanted]).all():
                break
            block = _filtered(matrix, block, min(max(float(values[-1]), -0.5), 0.999), DEGREE)
        values, block, residual = _ritz(matrix, block)
        block = block / strength[:, None]
    return values[1:wanted], block[:, 1:wanted], levels


def _sketch(levels: Levels, vectors: NDArray[np.float64]) -> tuple[Traffic, NDArray[np.float64]]:
    """A coarse level of at most `SKETCH` vertices, and the mean of the vectors in each of them."""
    matrix, size = levels[0][0], np.ones(len(vectors))
    for (_, coarse), (after, _) in pairwise(levels):
        if matrix.shape[0] <= SKETCH:
            break
        matrix = after
        sums = [np.bincount(coarse, column * size) for column in vectors.T]
        size = np.bincount(coarse, size).astype(np.float64)
        vectors = np.column_stack(sums) / size[:, None]
    weights = np.rint(matrix.data).astype(np.int64)  # sums of integers
    csr = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), weights
    return Traffic(*csr, np.zeros(len(vectors))), vectors


def rotations(vectors: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Matrices that turn the vectors into two coordinates, each shape (vectors, 2)."""
    for angle in np.arange(16) * np.pi / 16:
        turn = np.zeros((vectors, 2))
        turn[0] = np.cos(angle), -np.sin(angle)
        if vectors > 1:
            turn[1] = np.sin(angle), np.cos(angle)
        yield turn
    for span in range(3, vectors + 1):
        for _ in range(24 if span == 3 else 48):
            turn = np.zeros((vectors, 2))
            turn[:span] = np.linalg.qr(rng.standard_normal((span, 2)))[0]
            yield turn


def place_by_spectrum(
    traffic: Traffic,
    splits: Splits,
    keep: int,
    rng: np.random.Generator,
    threads: int = 1,
) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """The cheapest placements of connected groups, `keep` at most: columns and rows of `splits`."""
    count = VECTORS if traffic.size >= SEARCHED else 2
    _, vectors, levels = eigenvectors(traffic, min(count, traffic.size - 1), rng)
    vectors = vectors / np.sqrt((vectors**2).mean(axis=0))
    sketch, means = _sketch(levels, vectors)
    every = np.arange(sketch.size) * traffic.size // sketch.size
    few = splits if sketch.size == traffic.size else split_cells(splits.cells[every])

    def attempt(turn: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        x, y = legalise(few, np.einsum("ij,jk->ik", means, turn))
        return int(_hop_cost(*sketch.csr, x, y)), turn

    tried = list(map_ordered(attempt, rotations(vectors.shape[1], rng), threads))
    for step in (0.3, 0.15, 0.08, 0.04):  # small turns around the best so far
        tried.sort(key=lambda found: found[0])
        around = [
            np.linalg.qr(turn + step * rng.standard_normal(turn.shape))[0]
            for _, turn in tried[:count]
            for _ in range(6)
        ]
        tried += map_ordered(attempt, around, threads)
    tried.sort(key=lambda found: found[0])
    return [legalise(splits, np.einsum("ij,jk->ik", vectors, turn)) for _, turn in tried[:keep]]
