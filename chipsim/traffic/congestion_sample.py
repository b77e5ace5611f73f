"""Congestion of large chips from a sample of the traffic.

Sending the traffic of a source core over all minimal paths takes as long as the box around its
targets is large (`chipsim.traffic.congestion`): where cores send all over the chip the time grows
with the square of the cores. Above `ROUTERS_PER_CORE` on average, traffic to cores nearby is
followed as ever, and that to farther ones only from one core of each square of q x q for each
quadrant of targets, which a hash chooses. It is scaled by total / kept, sums of weight * routers
visited, so that the mean over the routers is exact.

Measured, before this was chosen, with 60 heavy near targets and 1,280 spikes to anywhere from each
core of 352x352, 1.7 * 10^8 pairs (one thread):

- all pairs take 31 s. It is the routers that count, 2 ns each: a tenth of the pairs, by a hash of
  both ends, takes 0.9 of the time, since each source core still sends all over the chip. On 64x64
  cores all pairs take 0.1 s.
- on 96x96 cores half of the pairs, whatever their distance, give the largest load 0.6 % too high
  and an eighth 5 %; with few far pairs 12 % and 43 %, as what is heavy is near.
- with q = 2 the largest load is 0.1 % off and those of all routers 0.9 % (root of the mean
  square), in 7.9 s; q = 3: 0.4 % and 2.1 %, 3.6 s; q = 4: 1.0 % and 3.0 %, 2.1 s; q = 8: 3.3 % and
  8.0 %. So `ROUTERS_PER_CORE` is such that q is 2 here, and 4 on 1000x1000 cores.
- choosing and dividing the pairs takes another 15 s here, 90 ns a pair, so that all sums of pairs
  take 33 s with the sample and 41 s without; larger chips gain more.
- one core of each square for all quadrants, each square by itself, is off by 0.6 % and 1.2 % with
  q = 2, and 12 % and 8 % with q = 8; with layers of 48x48 cores 17 % instead of 9 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray, Int32Array, Int64Array
from chipsim.traffic.congestion import Walks, router_loads
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.routes import Routes, way
from chipsim.workers import map_ordered

ROUTERS_PER_CORE = 1 << 16
"""Routers in the boxes around the targets of a core, on average, up to which all traffic is
followed: 130 us a core. The pass over the synapses of its neurons takes five times as long."""
NEAR = 16
"""Rows and columns to a target that is nearby."""
SAMPLED = "sampled"
"""What reports say then of congestion."""
SEED = 0x51A7
"""Of the hash that chooses source cores."""


@dataclass(frozen=True, slots=True)
class CongestionSample:
    """Whose far traffic is followed.

    chosen : ndarray[bool], shape (4, cores), by quadrant of the targets as seen from the core
    scale : what the loads by far traffic are multiplied with
    pairs, share : pairs of different cores that are followed, and their share of all
    """

    chosen: NDArray[np.bool_]
    scale: float
    pairs: int
    share: float

    def router_loads(
        self, chip: Chip, walks: Walks, source: Int32Array, target: Int32Array, weight: Int64Array
    ) -> FloatArray:
        """As `chipsim.traffic.congestion.router_loads`, from the sample."""
        parts = [np.empty((2, len(one)), one.dtype) for one in (source, target, weight)]
        near, kept = _divide(
            source, target, weight, Places.of(chip), NEAR, self.chosen, tuple(parts)
        )
        found = router_loads(chip, walks, *(part[0, :near] for part in parts))
        return found + self.scale * router_loads(chip, walks, *(part[1, :kept] for part in parts))


class Places(NamedTuple):
    """Where the routers of cores are.

    column, row : ndarray[int32], shape (cores,); looked up, as a division takes ten times as long
    """

    column: Int32Array
    row: Int32Array
    routes: Routes

    @classmethod
    def of(cls, chip: Chip) -> Places:
        """Those of a chip."""
        routes = Routes.of(chip)
        return cls(*routes.of_cores(), routes)


def choose_sample(
    chip: Chip, pairs: PairTable, used: int, threads: int = 1
) -> CongestionSample | None:
    """The sample that congestion is measured of; None if all traffic is followed.

    It depends on the chip and the sums of the pairs alone. used : number of cores with a neuron
    """
    columns, rows = chip.routers
    if columns * rows <= ROUTERS_PER_CORE:  # a box is no larger
        return None
    sums = np.zeros((10, chip.cores), dtype=np.int64)
    places = Places.of(chip)

    def look(index: int) -> None:
        for flows in pairs.stripes_of(index):
            _survey(*flows, places, NEAR, sums)

    for _ in map_ordered(look, range(pairs.ranges), threads):
        pass
    routers, flows, far, visits = sums[0], sums[1], sums[2:6], sums[6:]
    looks = float(routers.sum(dtype=np.float64))
    if looks <= ROUTERS_PER_CORE * used:
        return None
    chosen = one_of_each_square(chip, ceil(sqrt(looks / (ROUTERS_PER_CORE * used))))
    kept, total = int(visits[chosen].sum()), int(visits.sum())
    if kept in (0, total):  # nothing to scale: no core that sends far is among them
        return None
    followed = int(flows.sum() - far[~chosen].sum())
    return CongestionSample(chosen, total / kept, followed, followed / int(flows.sum()))


def one_of_each_square(chip: Chip, side: int) -> NDArray[np.bool_]:
    """One core of each square of side x side cores for each quadrant, shape (4, cores); of a square
    over the edge of the chip perhaps none.

    Of side x side squares together each row and each column of cores has one: otherwise traffic
    that goes straight along them would come from too many here, too few there. The cores for the
    quadrants are others, so that a core does not send all of its traffic at once.
    """
    (y, in_y), (x, in_x) = (
        np.divmod(n, side) for n in np.divmod(np.arange(chip.cores), chip.width)
    )
    column, row = y + _hashed(x, y // side, SEED), x + _hashed(y, x // side, SEED + 1)
    step = side // 2
    chosen = [
        (in_x == (column + west * step) % side) & (in_y == (row + north * step) % side)
        for north in (0, 1)
        for west in (0, 1)
    ]
    return np.array(chosen)


def _hashed(a: Int64Array, b: Int64Array, seed: int) -> Int64Array:
    """Numbers below 2^31, by the finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    state = ((a << 20) + b).astype(np.uint64) + np.uint64(seed << 42)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return (state >> np.uint64(33)).astype(np.int64)


@njit(cache=True, nogil=True, inline="always")
def _steps(s, t, column, row, across, down, torus):
    """Rows and columns from the router of a core to that of another, southwards and eastwards.

    across, down : coordinates of columns and of rows of routers, and the length of the way round
    """
    if torus:
        return way(row[s], row[t], down[0], down[1]), way(
            column[s], column[t], across[0], across[1]
        )
    return np.int64(row[t]) - row[s], np.int64(column[t]) - column[s]


@njit(cache=True, nogil=True, inline="always")
def _quadrant_of(dy, dx, near):
    """That of a target that many rows and columns away, 4 if it is nearby."""
    if max(abs(dy), abs(dx)) <= near:
        return 4
    return 2 * (dy < 0) + (dx < 0)


@njit(cache=True, nogil=True)
def _survey(source, target, weight, places, near, sums):
    """Sums of each source core; sums : shape (10, cores): routers in the boxes around its targets,
    pairs, and by quadrant far pairs, and weight * routers visited of these"""
    column, row, torus = places.column, places.row, places.routes.torus
    across = places.routes.x, places.routes.round_x
    down = places.routes.y, places.routes.round_y
    at = 0
    counts = np.zeros(5, np.int64)
    visits = np.zeros(5, np.int64)
    while at < len(source):
        s = source[at]
        south = north = east = west = pairs = np.int64(0)
        counts[:] = 0
        visits[:] = 0
        while at < len(source) and source[at] == s:
            t = target[at]
            if t != s:
                dy, dx = _steps(s, t, column, row, across, down, torus)
                south, north = max(south, dy), max(north, -dy)
                east, west = max(east, dx), max(west, -dx)
                pairs += 1
                q = _quadrant_of(dy, dx, near)
                counts[q] += 1
                visits[q] += weight[at] * (abs(dy) + abs(dx) + 1)
            at += 1
        sums[0, s] = (south + north + 1) * (east + west + 1)
        sums[1, s] = pairs
        for q in range(4):
            sums[2 + q, s] = counts[q]
            sums[6 + q, s] = visits[q]


@njit(cache=True, nogil=True)
def _divide(source, target, weight, places, near, chosen, parts):
    """Copy pairs of cores that are near each other, and far ones of chosen source cores, to the
    rows of ``parts``: sources, targets and weights, each shape (2, pairs). Returns how many."""
    column, row, torus = places.column, places.row, places.routes.torus
    across = places.routes.x, places.routes.round_x
    down = places.routes.y, places.routes.round_y
    sources, targets, weights = parts
    count = np.zeros(2, np.int64)
    for i in range(len(source)):
        s = source[i]
        t = target[i]
        dy, dx = _steps(s, t, column, row, across, down, torus)
        q = _quadrant_of(dy, dx, near)
        if q < 4 and not chosen[q, s]:
            continue
        part = 0 if q == 4 else 1
        at = count[part]
        sources[part, at] = s
        targets[part, at] = t
        weights[part, at] = weight[i]
        count[part] = at + 1
    return count[0], count[1]
