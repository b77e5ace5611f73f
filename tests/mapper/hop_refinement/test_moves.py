"""Moves of single vertices to fewer hops: kernels against reference implementations."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.executors.shard import State
from mapper.graph.rows import StreamedRows
from mapper.hop_refinement.gains import MUCH_BETTER, SeekHops, Sums, _best_hops, _walk, _walk_round
from mapper.limits.domains import Domains
from tests.mapper.helpers import adjacency, rows_of
from tests.mapper.hop_refinement.cases import (
    load_of,
    plane_of,
    random_case,
)
from tests.reference import hop_refinement as twin
from tests.reference.machine import random_plane


@pytest.mark.parametrize("seed", range(200))
def test_walk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 5, int(rng.integers(1, 9)))
    at = int(rng.integers(weight.size))
    gain = np.full(weight.size, -1, np.int64)
    plane = random_plane(seed, weight.size, 1)
    place, around = plane.axes.x, plane.axes.round_x
    if plane.x.torus:
        first, count = _walk_round(weight, at, place, around, gain)
    else:
        sums = weight[:at].sum(), weight[at + 1 :].sum()
        first, count = _walk(weight, at, *sums, place, gain)
    way = [(first + i) % weight.size for i in range(count)]
    assert [(p, int(gain[p])) for p in way] == twin.walk(weight.tolist(), at, plane.x)


@pytest.mark.sample(46)
@pytest.mark.parametrize("seed", range(200))
def test_best_hops(seed: int) -> None:
    graph, core, mesh = random_case(seed)
    sizes = graph.vertex_sizes()
    for rows in (rows_of(graph), StreamedRows(graph, sizes, 0)):
        load = load_of(rows, core, mesh)
        sums = Sums(*(np.zeros(n, np.int64) for n in (mesh.width, mesh.height) * 2))
        for index in range(rows.chunks):
            chunk = rows.read(index)
            moves = np.empty((4, chunk.vertices), np.int32)
            found, paid, everything = _best_hops(chunk, core, sizes, mesh.grid, load, sums, moves)
            assert not sums.in_column.any()
            assert not sums.in_row.any()
            expected = twin.best_hops(
                chunk.first,
                adjacency(chunk.indptr, chunk.ids, chunk.weights),
                core.tolist(),
                sizes.tolist(),
                mesh.width,
                mesh.height,
                load.tolist(),
                mesh.capacities.tolist(),
                MUCH_BETTER,
                plane_of(mesh),
            )
            assert [tuple(move) for move in moves[:, :found].T.tolist()] == expected[0]
            assert (paid, everything) == expected[1:]
            seeker = SeekHops(mesh)
            sought = seeker.seek(chunk, State(core, load, sizes))
            assert sought.table.tolist() == moves[:, :found].tolist()
            assert (sought.outside, sought.everything) == (paid, everything)
            fixed = np.random.default_rng(seed).random(core.size) < 0.3
            freely = SeekHops(mesh, Domains.of_fixed(fixed, mesh.capacities.size))
            left = [move for move in sought.table.T.tolist() if not fixed[move[0]]]
            assert freely.seek(chunk, State(core, load, sizes)).table.T.tolist() == left
