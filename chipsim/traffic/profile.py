"""Traffic sent and received by every core, by distance, and to the strongest destinations.

All of it is computed from the sums per core pair, stripe by stripe, in `chipsim.traffic.flows`. The
pairs of a source core are all in one stripe, so values per source are written once, by one thread;
values per target are summed. Everything is exact, in weight units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.model import Chip
from chipsim.protocols import Int32Array, Int64Array
from chipsim.traffic.routes import Routes, distances_of, way
from chipsim.traffic.walks import route_sums, router_of

DESTINATIONS = 1 << 16
"""Number of strongest destinations kept for all cores of a chip together."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Unicast traffic by core and by distance.

    Attributes
    ----------
    outgoing, incoming : ndarray[int64], shape (cores,)
        Weight to other cores, and from other cores.
    within : ndarray[int64], shape (cores,)
        Weight that stays in the core.
    distances : ndarray[int64], shape (columns + rows of routers - 1,), more with broken links
        Weight of the spikes that travel 0, 1, 2, ... hops.
    destination : ndarray[int32], shape (cores, kept), core id
        The strongest destinations of each core other than itself, by falling weight, then by id; -1
        for missing ones.
    share : ndarray[int64], shape (cores, kept)
        Weight sent to these destinations; 0 for missing ones.
    """

    outgoing: Int64Array
    incoming: Int64Array
    within: Int64Array
    distances: Int64Array
    destination: Int32Array
    share: Int64Array

    @classmethod
    def idle(cls, chip: Chip) -> Profile:
        """Return zero traffic."""
        cores, kept = chip.cores, destinations_kept(chip)
        return cls(
            outgoing=np.zeros(cores, np.int64),
            incoming=np.zeros(cores, np.int64),
            within=np.zeros(cores, np.int64),
            distances=np.zeros(distances_of(chip), np.int64),
            destination=np.full((cores, kept), -1, np.int32),
            share=np.zeros((cores, kept), np.int64),
        )

    def send(
        self, chip: Chip, source: Int32Array, target: Int32Array, weight: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Add the values of a stripe per source; pass the result to `receive`.

        ``source``, ``target`` (core ids) and ``weight`` (positive) have shape (flows,), with all
        flows of a source. Threads may call it concurrently for different sources.
        """
        incoming, distances = np.zeros_like(self.incoming), np.zeros_like(self.distances)
        sums = _Sums(self.outgoing, incoming, self.within, distances, self.destination, self.share)
        _send(source, target, weight, Routes.of(chip), sums)
        return incoming, distances

    def receive(self, part: tuple[Int64Array, Int64Array]) -> None:
        """Add the values of a stripe per target and distance."""
        self.incoming[:] += part[0]
        self.distances[:] += part[1]


def destinations_kept(chip: Chip) -> int:
    """Return the destinations kept per core: all on small chips, 16 at 64x64, fewer above."""
    return min(chip.cores - 1, DESTINATIONS // chip.cores)


class _Sums(NamedTuple):
    """The arrays of a `Profile` that the kernel writes to."""

    outgoing: Int64Array
    incoming: Int64Array
    within: Int64Array
    distances: Int64Array
    destination: Int32Array
    share: Int64Array


@njit(cache=True, nogil=True)
def _send(source, target, weight, routes, sums):
    """Sum by source, target and distance; keep the first rows of ``share`` sorted, descending."""
    outgoing, incoming, within = sums.outgoing, sums.incoming, sums.within
    distances, destination, share = sums.distances, sums.destination, sums.share
    kept = destination.shape[1]
    width, torus, detoured = routes.column.size, routes.torus, len(routes.table) > 0
    for i in range(len(source)):
        s = source[i]
        t = target[i]
        w = weight[i]
        x0, x1 = routes.column[s % width], routes.column[t % width]
        y0, y1 = routes.row[s // width], routes.row[t // width]
        if detoured:
            across, down, _ = route_sums(routes, router_of(routes, s), router_of(routes, t))
            d = across + down
        elif torus:
            d = abs(way(x0, x1, routes.x, routes.round_x))
            d += abs(way(y0, y1, routes.y, routes.round_y))
        else:
            d = np.int64(abs(x1 - x0) + abs(y1 - y0))
        distances[d] += w
        if s == t:
            within[s] += w
            continue
        outgoing[s] += w
        incoming[t] += w
        if kept == 0 or share[s, kept - 1] >= w:
            continue
        at = kept - 1
        while at > 0 and share[s, at - 1] < w:  # stable for equal weights: targets come in order
            share[s, at] = share[s, at - 1]
            destination[s, at] = destination[s, at - 1]
            at -= 1
        share[s, at] = w
        destination[s, at] = t
