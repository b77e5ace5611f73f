"""Contract of placers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from mapper.extend.contract import ContractError, require
from mapper.graph.csr import Subgraph
from mapper.placement.clock import Clock, TimeUpError
from mapper.placement.curves import CurvePlacer
from mapper.placement.placer import Placed, Placer, Problem
from mapper.placement.placers import fault_of_placement
from mapper.placement.region import choose_region
from storage.arrays import Mask

MEMORY = 1 << 28  # bytes


def check_placer(placer: Placer) -> None:
    """Check a placer on meshes of several shapes, with unusable cores, sparse and dense groups.

    Raises
    ------
    ContractError
        If a placement is invalid or its cost is wrong, if two calls with the same seed differ, also
        with another number of threads, if an argument is changed, or if the placer continues
        although the time is up.
    """
    for what, usable, share in _meshes():
        groups = max(1, round(share * int(usable.sum())))
        for degree in (0.0, 4.0, groups / 2):
            where = f"{what}, {groups} groups of degree {degree:g}"
            problem = _problem(usable, groups, degree)
            try:
                first = _run(placer, problem, where)
                again = _run(placer, _problem(usable, groups, degree, threads=2), where)
            except ContractError:
                raise
            except Exception as error:
                raise ContractError(f"{where}: {type(error).__name__}: {error}") from error
            same = len(first) == len(again) and all(
                np.array_equal(a, b) for one, two in zip(first, again, strict=True)
                for a, b in zip(one[1:], two[1:], strict=True)
            )  # fmt: skip
            require(same, f"{where}: two calls with the same seed differ")
    _check_time(placer)


def _meshes() -> Iterator[tuple[str, Mask, float]]:
    """Yield a description, the usable cores, and the share of them with groups."""
    yield "one core", np.ones((1, 1), np.bool_), 1.0
    yield "a row", np.ones((1, 13), np.bool_), 0.8
    yield "a column", np.ones((13, 1), np.bool_), 1.0
    yield "a square", np.ones((8, 8), np.bool_), 1.0
    faulty = np.random.default_rng(1).random((9, 7)) >= 0.3
    yield "a mesh with unusable cores", faulty, 0.9
    yield "few groups on a large mesh", np.ones((12, 20), np.bool_), 0.1


def _problem(usable: Mask, groups: int, degree: float, threads: int = 1) -> Problem:
    """Return a problem of random connections with this mean degree."""
    rng = np.random.default_rng([groups, int(degree)])
    region = choose_region(usable, groups)
    return Problem(_random_groups(rng, groups, degree), region, threads, MEMORY, Clock())


def _random_groups(rng: np.random.Generator, count: int, degree: float) -> Subgraph:
    """Return random connections between groups, of weights 1 to 9."""
    source, target = rng.integers(0, count, (2, round(count * degree / 2)))
    apart = source != target
    weight = rng.integers(1, 10, int(apart.sum()))
    matrix = coo_array((weight, (source[apart], target[apart])), shape=(count, count)).tocsr()
    matrix = (matrix + matrix.T).tocsr()
    matrix.sum_duplicates()
    matrix.sort_indices()
    return Subgraph(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32),
        matrix.data.astype(np.int64), np.ones(count, np.int64), np.arange(count, dtype=np.int64),
    )  # fmt: skip


def _run(placer: Placer, problem: Problem, where: str) -> list[Placed]:
    """Return all placements, checked; the start is one along a curve."""
    start = next(CurvePlacer(by_distance=False).place(problem, None, np.random.default_rng(0)))
    given = _arrays(problem, start)
    kept = [array.copy() for array in given]
    found = []
    for placed in placer.place(problem, start, np.random.default_rng(7)):
        fault = fault_of_placement(problem, placed)
        require(not fault, f"{where}: the placer {fault}")
        cost = problem.placed(placed.x, placed.y).cost
        require(placed.cost == cost, f"{where}: the cost is {placed.cost}, not {cost}")
        found.append(Placed(cost, placed.x.copy(), placed.y.copy()))
    unchanged = all(np.array_equal(a, b) for a, b in zip(given, kept, strict=True))
    require(unchanged, f"{where}: the placer changes its arguments")
    return found


def _arrays(problem: Problem, start: Placed) -> list[NDArray[Any]]:
    groups, region = problem.groups, problem.region
    connections = groups.indptr, groups.ids, groups.weights, groups.sizes, groups.members
    return [*connections, region.usable, region.axes.x, region.axes.y, start.x, start.y]


def _check_time(placer: Placer) -> None:
    """Check that a placer whose time is up ends, with at most the placement that it works on."""
    usable = np.ones((16, 16), np.bool_)
    problem = _problem(usable, 256, 8.0)
    late = Problem(problem.groups, problem.region, 1, MEMORY, Clock(1e-9))
    start = next(CurvePlacer(by_distance=False).place(late, None, np.random.default_rng(0)))
    count = 0
    with suppress(TimeUpError):
        for _ in placer.place(late, start, np.random.default_rng(0)):
            count += 1
    require(count <= 1, f"the placer yields {count} placements after its time is up")
