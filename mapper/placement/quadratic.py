"""Quadratic placement with anchors: pull connected groups together, then legalise.

As in SimPL (Kim, Lee and Markov, IEEE TCAD 31, 2012): alternately, the quadratic cost plus springs
to the last legal positions is minimised, and the result legalised; the springs stiffen from round
to round. Quadratic costs use the weights themselves: linearised weights gave no better placements
here. Positions come from conjugate gradients with Jacobi's preconditioner, with a fixed number of
steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mapper.placement.clock import ENDLESS, Clock
from mapper.placement.force import hops_of
from mapper.placement.legalise import Places, Splits, legalise
from mapper.placement.traffic import Traffic
from storage.arrays import Float64, Int32

FIRST, LAST = 0.002, 1.0  # stiffness of the springs, in strengths of the group
STEPS = 30  # steps of conjugate gradients


def _solve(
    matrix: Any, strength: Float64, stiffness: float, position: Float64,
    anchor: Float64,
) -> Float64:  # fmt: skip
    """Return positions of least quadratic cost with springs to `anchor`, both (groups, 2)."""
    diagonal = (strength * (1 + stiffness))[:, None]
    rest = (strength * stiffness)[:, None] * anchor - (diagonal * position - matrix @ position)
    step = rest / diagonal
    ahead = step
    size = np.einsum("ij,ij->j", rest, step)
    for _ in range(STEPS):
        if not (size > 1e-12).all():
            break
        image = diagonal * ahead - matrix @ ahead
        length = size / np.einsum("ij,ij->j", ahead, image)
        position = position + length * ahead
        rest = rest - length * image
        step = rest / diagonal
        last, size = size, np.einsum("ij,ij->j", rest, step)
        ahead = step + size / last * ahead
    return position


def pull_together(
    traffic: Traffic,
    splits: Splits,
    x: Int32,
    y: Int32,
    rounds: int,
    clock: Clock = ENDLESS,
    first: float = FIRST,
    start: Float64 | None = None,
) -> Places:
    """Return the cheapest legal placement found from the given one, columns and rows of `splits`.

    first : stiffness of the springs in the first round
    start : anchors of the springs in the first round, coordinates of shape (groups, 2); default:
        the given positions
    All groups must have traffic.
    """
    n = traffic.size
    weights = traffic.weights.astype(np.float64)
    matrix = csr_array((weights, traffic.ids, traffic.indptr), (n, n))
    strength = np.maximum(np.asarray(matrix.sum(axis=1)), 1e-9)
    axes = splits.axes
    position = np.column_stack([axes.x[x], axes.y[y]]).astype(np.float64)
    position = position if start is None else start
    best = hops_of(traffic.csr, x, y, axes), x, y
    anchor = position
    for stiffness in np.geomspace(first, LAST, rounds):
        if clock.over():
            break
        position = _solve(matrix, strength, float(stiffness), position, anchor)
        x, y = legalise(splits, position)
        cost = hops_of(traffic.csr, x, y, axes)
        if cost < best[0]:
            best = cost, x, y
        anchor = np.column_stack([axes.x[x], axes.y[y]]).astype(np.float64)
    return best[1], best[2]
