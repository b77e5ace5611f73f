"""Several limits as one: vertex sizes that partitioning adds up, and the capacity of a core.

A vertex uses a share of a core of each limit. Sizes and synapses add up. Axons do not: vertices
share sources. The axons of a core are at most its synapses, and a fraction of them, the sharing,
that is found by trial (`mapper.limits.axons`): a share of axons is fan-in times that fraction
over the limit. The size of a vertex is the largest of its shares, so that parts within the
capacity are within all limits that add up. Where that asks for more than the chip has, since
some vertices are large in one limit and others in another, it gives way to a mean of the shares,
and what is then above a limit is repaired by exchanges (`mapper.limits.enforce`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.limits.use import AXONS_IN, AXONS_OUT, NEURONS, NO_LIMIT, SYNAPSES
from storage.graph import Block, Csr, Graph

FINEST = 1 << 30  # units of a core, when several limits are combined into one
ENOUGH = 0.97  # of the chip that combined sizes may fill
SHARP = 8.0  # the tighter of two limits has this power of its weight on average


@dataclass(frozen=True, slots=True)
class CombinedCapacity:
    """What partitioning works with.

    sizes : ndarray[int64], shape (vertices,); capacity : of a core, in the same unit
    exact : parts within the capacity are within all limits that add up
    """

    sizes: NDArray[np.int64]
    capacity: int
    exact: bool = True


def combine_capacity(
    demands: tuple[NDArray[np.int64], ...],
    limits: NDArray[np.int64],
    sharing: NDArray[np.float64],
    cores: int,
) -> CombinedCapacity:
    """Sizes that stand for all limits.

    demands : what each vertex needs of each limit, fan-in and fan-out for the axons
    limits : ndarray[int64], shape (4,), `NO_LIMIT` for none
    sharing : ndarray[float64], shape (2,), axons of a core over its synapses, incoming and
        outgoing; 0 leaves that limit out
    """
    on = [NEURONS]
    on += [SYNAPSES] if limits[SYNAPSES] < NO_LIMIT else []
    on += [r for r in (AXONS_IN, AXONS_OUT) if limits[r] < NO_LIMIT and sharing[r - AXONS_IN] > 0]
    if on == [NEURONS]:
        return CombinedCapacity(demands[NEURONS], int(limits[NEURONS]))
    capacity = FINEST
    if on == [NEURONS, SYNAPSES]:  # so that shares are exact, if that is small
        capacity = min(FINEST, math.lcm(int(limits[NEURONS]), int(limits[SYNAPSES])))
    largest = np.zeros(demands[0].size, np.int64)
    totals = []
    for r in on:
        share = _share(demands, limits, sharing, r, capacity)
        totals.append(int(share.sum()))
        np.maximum(largest, share, out=largest)
    available = int(ENOUGH * cores * capacity)
    if largest.sum() <= available or max(totals) == 0:
        return CombinedCapacity(largest, capacity)
    # As much of the largest share as the chip has capacity for, and of the mean as must be.
    tight = (np.array(totals) / max(totals)) ** SHARP
    tight /= tight.sum()
    mean = np.zeros(largest.size)
    for r, part in zip(on, tight, strict=True):
        mean += part * _share(demands, limits, sharing, r, capacity)
    spare = float(largest.sum() - mean.sum())
    blend = min(1.0, (float(largest.sum()) - available) / spare) if spare > 0 else 0.0
    return CombinedCapacity(
        ((1 - blend) * largest + blend * mean).astype(np.int64), capacity, exact=False
    )


def _share(
    demands: tuple[NDArray[np.int64], ...],
    limits: NDArray[np.int64],
    sharing: NDArray[np.float64],
    r: int,
    capacity: int,
) -> NDArray[np.int64]:
    """Units of a core that each vertex needs of one limit, rounded up."""
    if r in (NEURONS, SYNAPSES):
        return np.asarray(-(-demands[r] * capacity // limits[r]), np.int64)
    units = np.ceil(demands[r] * (float(sharing[r - AXONS_IN]) * capacity / float(limits[r])))
    return np.minimum(units, capacity).astype(np.int64)


class Resized(Graph):
    """A graph with other vertex sizes."""

    def __init__(self, graph: Graph, sizes: NDArray[np.int64]) -> None:
        self._graph = graph
        self._sizes = sizes
        self.vertices = graph.vertices
        self.connections = graph.connections
        self.block_size = graph.block_size
        self.undirected = graph.undirected

    def vertex_sizes(self) -> NDArray[np.int64]:
        return self._sizes

    def read_block(self, index: int) -> Block:
        return self._graph.read_block(index)

    def read_undirected(self, index: int) -> Csr:
        return self._graph.read_undirected(index)
