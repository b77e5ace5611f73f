"""Placement by eigenvectors of the normalised Laplacian, with a search over rotations.

Hall's quadratic placement (Management Science 17, 1970): coordinates that minimise the weighted
sum of squared distances are eigenvectors. They come from a multilevel solver (Barnard and Simon,
Concurrency 6, 1994): groups are paired until few are left, and when uncoarsening, each level starts
from the vectors of the coarser one, refined by Chebyshev filtered subspace iteration (Zhou, Saad,
Tiago and Chelikowsky, J. Comput. Phys. 219, 2006). If eigenvalues nearly coincide, as on square
grids (two) and tori (four), the vectors are an arbitrary rotation of the useful ones: many
rotations are tried and the cheapest are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import csr_array, diags_array

from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.component_packing import ComponentArea
from mapper.placement.curves import SAMPLE, breadth_first, walk_best
from mapper.placement.force import hops_of
from mapper.placement.legalise import Places, Splits, legalise, split_cells
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.quadratic import pull_together
from mapper.placement.traffic import Traffic, sampled, traffic_of
from storage.arrays import Float64, Int64
from storage.parallel import map_ordered

Levels = list[tuple[Any, Int64]]

SKETCH, COARSE_SKETCH = 8192, 1024  # vertices on which rotations are compared
PLANE = 16  # rotations in the plane of the first two vectors
LARGE = 1 << 17  # groups above which only the plane is searched, and vectors are less exact
BYTES = 40  # maximum bytes per connection
COARSEST = 64  # groups; small enough for a dense solver of any library to use one thread
VECTORS = 4  # vectors that span the rotations
SINGLE = 1024  # groups up to which threads would wait for the interpreter lock
SEARCHED = 512  # groups from which more than a plane is searched
GUARD = 3  # additional vectors that speed up convergence
DEGREE = 16  # degree of the Chebyshev filter
CYCLES = 6  # maximum filters per level
RESIDUAL = 0.05  # tolerance, relative to the distance of the eigenvalue from 1


@njit(cache=True, nogil=True)
def _pair(indptr, ids, weights, size, order, coarse):
    """Pair each group with the neighbour of largest weight over size; return the number of pairs.

    size : groups in each vertex
    order : order in which vertices choose
    coarse : coarse vertex of each vertex, changed
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


def hierarchy(
    traffic: Traffic, rng: np.random.Generator, coarsest: int = COARSEST, clock: Clock = ENDLESS
) -> Levels:
    """Return matrices from fine to coarse, down to `coarsest` groups, each with its map onwards."""
    n = traffic.size
    matrix = csr_array((traffic.weights.astype(np.float64), traffic.ids, traffic.indptr), (n, n))
    levels = []
    size = np.ones(n)
    while matrix.shape[0] > coarsest:
        clock.check()
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


def _ritz(matrix: Any, block: Float64) -> tuple[Float64, ...]:
    """Return eigenvalues, vectors and residuals in the span of a block (Rayleigh and Ritz)."""
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


def _filtered(matrix: Any, block: Float64, cut: float, degree: int) -> Float64:
    """Apply a Chebyshev polynomial of the matrix, small on [-1, cut] and large above."""
    centre, half = (cut - 1) / 2, (cut + 1) / 2
    last = block
    block = (matrix @ block - centre * block) / half
    for _ in range(degree - 1):
        last, block = block, 2 / half * (matrix @ block - centre * block) - last
    return block


def eigenvectors(
    traffic: Traffic, count: int, rng: np.random.Generator, clock: Clock = ENDLESS
) -> tuple[Float64, Float64, Levels]:
    """Return the first non-trivial eigenvectors of the random walk on a connected graph.

    Returns eigenvalues, shape (count,), vectors, shape (groups, count), and the hierarchy: matrices
    from fine to coarse, each with the map to the next.
    """
    levels = hierarchy(traffic, rng, COARSEST, clock)
    wanted = count + 1
    width = min(wanted + GUARD, levels[-1][0].shape[0])
    block = np.zeros((0, 0))
    for level in range(len(levels) - 1, -1, -1):
        matrix, coarse = levels[level]
        # weights within a coarse vertex remain on the diagonal: they count as strength
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
        for _ in range(CYCLES if matrix.shape[0] <= LARGE else 1):
            clock.check()
            values, block, residual = _ritz(matrix, block)
            short = 1 - values
            if (residual[1:wanted] <= RESIDUAL * short[1:wanted]).all():
                break
            block = _filtered(matrix, block, min(max(float(values[-1]), -0.5), 0.999), DEGREE)
        values, block, residual = _ritz(matrix, block)
        block = block / strength[:, None]
    return values[1:wanted], block[:, 1:wanted], levels


def _sketch(levels: Levels, vectors: Float64, limit: int) -> tuple[Traffic, Float64]:
    """Return a coarse level of at most `limit` vertices, and the mean vectors of its vertices."""
    matrix, size = levels[0][0], np.ones(len(vectors))
    for (_, coarse), (after, _) in pairwise(levels):
        if matrix.shape[0] <= limit:
            break
        matrix = after
        sums = [np.bincount(coarse, column * size) for column in vectors.T]
        size = np.bincount(coarse, size).astype(np.float64)
        vectors = np.column_stack(sums) / size[:, None]
    return traffic_of(matrix), vectors


def rotations(vectors: int, rng: np.random.Generator, plane: int = PLANE) -> Iterator[Float64]:
    """Yield matrices that rotate the vectors into two coordinates, each shape (vectors, 2).

    plane : number of matrices, the first ones, that rotate the first two vectors only
    """
    for angle in np.arange(plane) * np.pi / plane:
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
    effort: RotationSearch,
    rng: np.random.Generator,
    threads: int = 1,
    clock: Clock = ENDLESS,
) -> list[Places]:
    """Return the cheapest placements of connected groups, at most `effort.kept`.

    Rotations are ranked on a sketch by their cost after quadratic placement, because the cheapest
    before is often not the cheapest after: on sheared grids that choice ended 7 % higher.
    """
    count = VECTORS if SEARCHED <= traffic.size <= LARGE else 2
    _, vectors, levels = eigenvectors(traffic, min(count, traffic.size - 1), rng, clock)
    vectors = vectors / np.sqrt((vectors**2).mean(axis=0))

    def ranked(size: int, rounds: int, turns: list[Float64]) -> list[Float64]:
        sketch, means = _sketch(levels, vectors, size)
        every = np.arange(sketch.size) * traffic.size // sketch.size
        whole = sketch.size == traffic.size
        few = splits if whole else split_cells(splits.cells[every], splits.axes)

        def cost(turn: Float64) -> int:
            clock.check()
            places = legalise(few, np.einsum("ij,jk->ik", means, turn))
            if rounds:
                places = pull_together(sketch, few, *places, rounds, clock)
            return hops_of(sketch.csr, *places, splits.axes)

        costs = list(map_ordered(cost, turns, threads if sketch.size > SINGLE else 1))
        return [turns[k] for k in np.argsort(costs, kind="stable")]

    turns = list(rotations(vectors.shape[1], rng, effort.plane))
    plane, others = turns[: effort.plane], turns[effort.plane :]
    plane += ranked(COARSE_SKETCH, 0, others)[: effort.plane // 2]
    turns = ranked(COARSE_SKETCH, 4, plane)
    if traffic.size >= SEARCHED and effort.searched > effort.kept:
        turns = ranked(SKETCH, 8, turns[: effort.searched])

    def pulled(turn: Float64) -> Places:
        places = legalise(splits, np.einsum("ij,jk->ik", vectors, turn))
        return pull_together(traffic, splits, *places, effort.rounds, clock)

    return list(map_ordered(pulled, turns[: effort.kept], threads))


@dataclass(frozen=True, slots=True)
class RotationSearch:
    """Number of rotations that are examined closely.

    searched : refined on the finer sketch
    kept : refined on the graph itself, in `rounds` rounds
    plane : in the plane of the first two vectors; half as many may be added from outside it
    """

    searched: int
    kept: int
    rounds: int
    plane: int = PLANE


@dataclass(frozen=True, slots=True)
class SpectralPlacer(Placer):
    """Places every connected area by eigenvectors."""

    effort: RotationSearch

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        if BYTES * problem.traffic.ids.size > problem.memory:
            return

        def connected(area: ComponentArea) -> list[Places]:
            splits = split_cells(area.cells, problem.region.axes)
            return place_by_spectrum(
                area.traffic, splits, self.effort, rng, problem.threads, problem.clock
            )

        yield from place_areas(problem, connected, rng)


def place_areas(
    problem: Problem, connected: Callable[[ComponentArea], list[Places]], rng: np.random.Generator
) -> Iterator[Placed]:
    """Yield placements of all areas: connected ones by the given method, others along curves."""
    made = []
    for area in problem.areas:
        if area.connected and area.members.size >= 4:
            found = connected(area)
        else:
            sample = sampled(area.traffic, SAMPLE, rng)
            order = breadth_first(area.traffic)
            axes = problem.region.axes
            found = [walk_best(sample, area.cells, order, axes, problem.threads)]
        made.append(found)
    for k in range(max(len(found) for found in made)):
        x, y = np.empty(problem.size, np.int32), np.empty(problem.size, np.int32)
        for area, found in zip(problem.areas, made, strict=True):
            x[area.members], y[area.members] = found[min(k, len(found) - 1)]
        yield problem.placed(x, y)
