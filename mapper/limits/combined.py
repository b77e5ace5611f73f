"""Combine several limits into one: additive vertex sizes and a core capacity.

A vertex uses a share of each limit of a core. Neuron sizes, synapses and bits add up. Axons do not:
vertices share sources. The axons of a core are a fraction of its synapses, the sharing, which is
found by iteration (`mapper.limits.axons`): a share of axons is fan-in times sharing over the limit.
The size of a vertex is its largest share, so that parts within the capacity are within all additive
limits. If these sizes exceed the chip, because some vertices are large in one limit and others in
another, a mean of the shares replaces part of them, and exchanges repair what then exceeds a limit
(`mapper.limits.enforce`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mapper.limits.use import AXONS_IN, AXONS_OUT, BITS, NEURONS, NO_LIMIT, SYNAPSES
from storage.arrays import Float64, Int64
from storage.graph import Block, Csr, Graph

FINEST = 1 << 30  # units per core, when several limits are combined into one
ENOUGH = 0.97  # share of the chip that combined sizes may fill
SHARP = 8.0  # exponent of the weights of limits when averaging: tighter limits dominate


@dataclass(frozen=True, slots=True)
class CombinedCapacity:
    """Sizes and capacity for partitioning.

    sizes : ndarray[int64], shape (vertices,)
    capacity : capacity of a core, in the same unit
    exact : parts within the capacity are within all additive limits
    whole : capacity of a core with the limits of the chip; `capacity` may be lower, to spread parts
    """

    sizes: Int64
    capacity: int
    exact: bool = True
    whole: int = 0

    def __post_init__(self) -> None:
        if not self.whole:
            object.__setattr__(self, "whole", self.capacity)


def combine_capacity(
    demands: tuple[Int64, ...], limits: Int64, sharing: Float64, cores: int
) -> CombinedCapacity:
    """Return sizes that represent all limits.

    demands : demand of each vertex for each limit; for the axons, fan-in and fan-out
    limits : ndarray[int64], shape (5,), `NO_LIMIT` for none
    sharing : ndarray[float64], shape (2,), axons of a core over its synapses, incoming and
        outgoing; 0 ignores that limit
    """
    on = [NEURONS]
    on += [r for r in (SYNAPSES, BITS) if limits[r] < NO_LIMIT]
    on += [r for r in (AXONS_IN, AXONS_OUT) if limits[r] < NO_LIMIT and sharing[r - AXONS_IN] > 0]
    if on == [NEURONS]:
        return CombinedCapacity(demands[NEURONS], int(limits[NEURONS]))
    capacity = FINEST
    if on == [NEURONS, SYNAPSES]:  # makes shares exact, if it is small
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
    # Use as much of the largest share as the chip has capacity for; the mean for the rest.
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
    demands: tuple[Int64, ...], limits: Int64, sharing: Float64, r: int, capacity: int
) -> Int64:
    """Return the units of a core that each vertex needs for one limit, rounded up."""
    if r in (NEURONS, SYNAPSES, BITS):
        return np.asarray(-(-demands[r] * capacity // limits[r]), np.int64)
    units = np.ceil(demands[r] * (float(sharing[r - AXONS_IN]) * capacity / float(limits[r])))
    return np.minimum(units, capacity).astype(np.int64)


class Resized(Graph):
    """A graph with other vertex sizes."""

    def __init__(self, graph: Graph, sizes: Int64) -> None:
        self._graph = graph
        self._sizes = sizes
        self.vertices = graph.vertices
        self.connections = graph.connections
        self.block_size = graph.block_size
        self.undirected = graph.undirected

    def vertex_sizes(self) -> Int64:
        return self._sizes

    def read_block(self, index: int) -> Block:
        return self._graph.read_block(index)

    def read_undirected(self, index: int) -> Csr:
        return self._graph.read_undirected(index)
