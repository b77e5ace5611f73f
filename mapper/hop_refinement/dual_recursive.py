"""Recursive bisection of network and mesh together, with terminal propagation.

A region of the mesh and its vertices are bisected together. A cut connection inside the region
costs the distance of the halves; an external connection biases its vertex towards the half that is
nearer to the present position of the other end (dual recursive bipartitioning: Pellegrini and
Roman, HPCN 1996; terminal propagation: Dunlop and Kernighan, IEEE Trans. CAD 4, 1985). All regions
of a depth are bisected before any of the next, so that external positions are equally precise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.graph.csr import Csr
from mapper.graph.distance import along
from mapper.graph.rows import HeldRows
from mapper.hop_refinement.mesh import CoreMesh
from mapper.partitioning.multilevel_bisection import BisectionEffort, bisect_graph
from mapper.partitioning.recursive_splitting import split_limits
from storage.arrays import Int32, Int64

INT32_MOST = np.int64(2**31 - 1)


@njit(cache=True, nogil=True)
def _region_graph(rows, sizes, members, local, region, x, y, halves, rounds):
    """Build the graph inside a region, with the bias of each vertex towards the first half.

    members, local : vertices of the region, and the index of each vertex among them
    region : region of every vertex
    x, y : position of every vertex, in half steps
    halves : positions (x, y) of both halves, in half steps
    rounds : circumference on both axes, in half steps
    """
    first, second = halves
    round_x, round_y = rounds
    _, indptr, ids, weights = rows
    n = members.size
    wanted = region[members[0]] if n > 0 else -1
    entries = 0
    for i in range(n):
        entries += indptr[members[i] + 1] - indptr[members[i]]
    out_indptr = np.empty(n + 1, np.int64)
    out_ids = np.empty(entries, np.int32)
    out_weights = np.empty(entries, np.int32)
    own_sizes = np.empty(n, np.int64)
    bias = np.empty(n, np.int64)
    apart = along(first[0], second[0], round_x) + along(first[1], second[1], round_y)
    at = 0
    out_indptr[0] = 0
    for i in range(n):
        v = members[i]
        towards = np.int64(0)
        for e in range(indptr[v], indptr[v + 1]):
            u = ids[e]
            w = np.int64(weights[e])
            if region[u] == wanted:
                out_ids[at] = local[u]
                out_weights[at] = min(w * apart, INT32_MOST)
                at += 1
            else:
                farther = along(x[u], second[0], round_x) + along(y[u], second[1], round_y)
                farther -= along(x[u], first[0], round_x) + along(y[u], first[1], round_y)
                towards += w * farther
        own_sizes[i] = sizes[v]
        bias[i] = towards
        out_indptr[i + 1] = at
    return Csr(out_indptr, out_ids[:at], out_weights[:at], own_sizes, bias)


@dataclass(frozen=True, slots=True)
class _Region:
    """Usable cores in a rectangle of the mesh."""

    cores: Int64
    column: Int64
    row: Int64
    places: Int64

    @classmethod
    def of(cls, cores: Int64, mesh: CoreMesh) -> _Region:
        cells = np.column_stack([cores % mesh.width, cores // mesh.width])
        return cls(cores, cells[:, 0], cells[:, 1], mesh.axes.places(cells))

    @property
    def middle(self) -> Int64:
        """Return the middle of the rectangle, in half steps."""
        found: Int64 = self.places.min(axis=0) + self.places.max(axis=0)
        return found

    def halves(self, mesh: CoreMesh) -> tuple[_Region, _Region]:
        """Cut across the longer side, into halves of nearly equal numbers of cores."""
        span = np.ptp(self.places, axis=0)
        # Cores of a tile have the same position.
        wide = (span[0], np.ptp(self.column)) >= (span[1], np.ptp(self.row))
        across, along = (self.row, self.column) if wide else (self.column, self.row)
        order = np.lexsort((across, along))
        # Cut between columns or rows near the middle, if possible, so that halves are rectangles.
        ends = np.flatnonzero(np.diff(along[order])) + 1
        middle = (self.cores.size + 1) // 2
        cut = int(ends[np.abs(ends - middle).argmin()]) if ends.size else middle
        return (
            _Region.of(np.sort(self.cores[order[:cut]]), mesh),
            _Region.of(np.sort(self.cores[order[cut:]]), mesh),
        )


def place_by_dual_recursive_bipartitioning(
    rows: HeldRows, mesh: CoreMesh, effort: BisectionEffort, seed: int
) -> Int32:
    """Return the core of every vertex; cores may slightly exceed their capacity.

    mesh : all usable cores must have the same capacity
    """
    capacity = int(mesh.capacities.max())
    usable = np.flatnonzero(mesh.capacities)
    state = np.random.default_rng([seed, rows.vertices]).integers(1, 1 << 62, 1).astype(np.uint64)
    region = np.zeros(rows.vertices, np.int32)
    local = np.empty(rows.vertices, np.int32)
    whole = _Region.of(usable, mesh)
    x, y = (np.full(rows.vertices, place, np.int64) for place in whole.middle)
    rounds = 2 * mesh.axes.round_x, 2 * mesh.axes.round_y
    regions, todo = [whole], [0]
    while todo:
        following = []
        for number in todo:
            if regions[number].cores.size == 1:
                continue
            members = np.flatnonzero(region == number)
            local[members] = np.arange(members.size)
            halves = regions[number].halves(mesh)
            first, second = (half.middle for half in halves)
            graph = _region_graph(
                rows.whole, rows.sizes, members, local, region, x, y, (first, second), rounds
            )
            counts = [half.cores.size for half in halves]
            size = int(graph.sizes.sum())
            target, most0, most1 = split_limits(size, sum(counts), counts[0], capacity)
            side = np.zeros(members.size, np.uint8)
            if members.size > 1:
                bisect_graph(graph, target, most0, most1, effort, state, side)
            regions[number] = halves[0]
            regions.append(halves[1])
            stop = side == 1
            region[members[stop]] = len(regions) - 1
            for half, (cx, cy) in ((~stop, first), (stop, second)):
                x[members[half]], y[members[half]] = cx, cy
            following += [number, len(regions) - 1]
        todo = following
    cores = np.array([one.cores[0] for one in regions], np.int32)
    return cores[region]
