"""Congestion of large chips, estimated from a sample of the traffic.

Spreading the traffic of a source core over all minimal paths takes time proportional to the box
around its targets (`chipsim.traffic.congestion`). If cores send all over the chip the time grows
with the square of the number of cores. Above `ROUTERS_PER_CORE` routers on average, traffic to
nearby cores is still processed in full, but traffic to farther cores only for a sample: in each
square of q x q cores, a hash chooses one source core for each quadrant of targets. The sampled
loads are scaled by total / kept, the sums of weight * routers visited, so the mean over the routers
is exact.

Measurements behind this choice, with 60 heavy near targets and 1,280 spikes to random cores from
each core of 352x352, 1.7 * 10^8 pairs (one thread):

- All pairs take 31 s. The cost is in the routers, 2 ns each: a tenth of the pairs, chosen by a hash
of both ends, takes 0.9 of the time, since each source core still sends all over the chip. On 64x64
cores all pairs take 0.1 s.
- On 96x96 cores, half of the pairs regardless of distance overestimate the largest load by 0.6 %,
an eighth by 5 %; with few far pairs by 12 % and 43 %, as the heavy traffic is near.
- With q = 2 the largest load is off by 0.1 % and all routers by 0.9 % (root mean square), in 7.9 s;
q = 3: 0.4 % and 2.1 %, 3.6 s; q = 4: 1.0 % and 3.0 %, 2.1 s; q = 8: 3.3 % and 8.0 %.
`ROUTERS_PER_CORE` gives q = 2 here, and q = 4 on 1000x1000 cores.
- Choosing and dividing the pairs takes another 15 s here, 90 ns per pair, so all sums of pairs take
33 s with the sample and 41 s without; larger chips gain more.
- One core per square for all quadrants, chosen independently per square, is off by 0.6 % and 1.2 %
with q = 2, and 12 % and 8 % with q = 8; with layers of 48x48 cores 17 % instead of 9 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.parallel import map_ordered
from chipsim.protocols import FloatArray, Int32Array, Int64Array
from chipsim.traffic.congestion import Walks, router_loads
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.routes import Routes, way

ROUTERS_PER_CORE = 1 << 16
"""Average number of routers in the boxes around the targets of a core, up to which all traffic
is processed: 130 us per core. The pass over the synapses of its neurons takes five times as
long."""
NEARBY_STEPS = 16
"""Rows and columns to a target that counts as nearby."""
SAMPLED = "sampled"
"""Value of the metric `congestion` if it was measured on a sample."""
SEED = 0x51A7
"""Seed of the hash that chooses source cores."""


@dataclass(frozen=True, slots=True)
class CongestionSample:
    """Sampled source cores of far traffic.

    chosen : ndarray[bool], shape (4, cores), by quadrant of the targets relative to the core
    scale : factor on the loads by far traffic
    pairs, share : sampled pairs of different cores, and their share of all
    """

    chosen: NDArray[np.bool_]
    scale: float
    pairs: int
    share: float

    def router_loads(
        self, chip: Chip, walks: Walks, source: Int32Array, target: Int32Array, weight: Int64Array
    ) -> FloatArray:
        """Like `chipsim.traffic.congestion.router_loads`, from the sample."""
        parts = [np.empty((2, len(one)), one.dtype) for one in (source, target, weight)]
        near, kept = _divide(
            source, target, weight, Places.of(chip), NEARBY_STEPS, self.chosen, tuple(parts)
        )
        found = router_loads(chip, walks, *(part[0, :near] for part in parts))
        return found + self.scale * router_loads(chip, walks, *(part[1, :kept] for part in parts))


class Places(NamedTuple):
    """Positions of the routers of cores.

    column, row : ndarray[int32], shape (cores,); table lookup, as a division takes ten times as
        long
    """

    column: Int32Array
    row: Int32Array
    routes: Routes

    @classmethod
    def of(cls, chip: Chip) -> Places:
        """Return the positions on a chip."""
        routes = Routes.of(chip)
        return cls(*routes.of_cores(), routes)


def choose_sample(
    chip: Chip, pairs: PairTable, used: int, threads: int = 1
) -> CongestionSample | None:
    """Return the sample for congestion; None if all traffic is processed.

    It depends only on the chip and the sums of the pairs.

    used : number of cores with a neuron
    """
    columns, rows = chip.routers
    if columns * rows <= ROUTERS_PER_CORE:  # no box is larger
        return None
    sums = np.zeros((10, chip.cores), dtype=np.int64)
    places = Places.of(chip)

    def look(index: int) -> None:
        for flows in pairs.stripes_of(index):
            _survey(*flows, places, NEARBY_STEPS, sums)

    for _ in map_ordered(look, range(pairs.ranges), threads):
        pass
    routers, flows, far, visits = sums[0], sums[1], sums[2:6], sums[6:]
    looks = float(routers.sum(dtype=np.float64))
    if looks <= ROUTERS_PER_CORE * used:
        return None
    chosen = one_of_each_square(chip, ceil(sqrt(looks / (ROUTERS_PER_CORE * used))))
    kept, total = int(visits[chosen].sum()), int(visits.sum())
    if kept in (0, total):  # nothing to scale: the sample has no core with far traffic
        return None
    followed = int(flows.sum() - far[~chosen].sum())
    return CongestionSample(chosen, total / kept, followed, followed / int(flows.sum()))


def one_of_each_square(chip: Chip, side: int) -> NDArray[np.bool_]:
    """Choose one core of each square of side x side cores per quadrant, shape (4, cores).

    A square that crosses the edge of the chip may have none. Among side x side squares, each row
    and each column of cores is chosen once: otherwise traffic that goes straight along a row or
    column would be over- or underestimated. The quadrants have different cores, so that a core does
    not contribute all of its traffic at once.
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
    """Hash to numbers below 2^31: finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    state = ((a << 20) + b).astype(np.uint64) + np.uint64(seed << 42)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return (state >> np.uint64(33)).astype(np.int64)


@njit(cache=True, nogil=True, inline="always")
def _steps(s, t, column, row, across, down, torus):
    """Return rows and columns between the routers of two cores, southwards and eastwards.

    across, down : coordinates of columns and of rows of routers, and the circumference
    """
    if torus:
        return way(row[s], row[t], down[0], down[1]), way(
            column[s], column[t], across[0], across[1]
        )
    return np.int64(row[t]) - row[s], np.int64(column[t]) - column[s]


@njit(cache=True, nogil=True, inline="always")
def _quadrant_of(dy, dx, near):
    """Return the quadrant of a target at this offset, or 4 if it is nearby."""
    if max(abs(dy), abs(dx)) <= near:
        return 4
    return 2 * (dy < 0) + (dx < 0)


@njit(cache=True, nogil=True)
def _survey(source, target, weight, places, near, sums):
    """Compute sums of each source core.

    sums : shape (10, cores): routers in the boxes around its targets, pairs, and by quadrant far
        pairs and their weight * routers visited
    """
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
    """Copy near pairs of cores, and far pairs of chosen source cores, to the rows of ``parts``.

    parts : sources, targets and weights, each shape (2, pairs)

    Returns the number of near and of far pairs.
    """
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
