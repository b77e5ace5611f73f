"""Lower bounds on the axons that any mapping uses: proofs that a network cannot fit.

A core that holds a neuron has an axon from each of its sources, so the fan-in of a neuron bounds
axons_in. The targets of a neuron s fill at least k(s) cores, by the sum of their sizes and of their
synapses: each of these cores has an axon from s, and at most one of them is the core of s.
So any mapping has at least sum k(s) axons_in, and sum (k(s) - 1) axons_out. Where a neuron has a
single target, it occupies k(s) places, including its copies.

A core with A axons has at most as many synapses as the A neurons of largest fan-out together;
this also bounds synapses, and k(s) uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.limits.use import Fans
from storage.graph import Graph


@njit(cache=True, nogil=True)
def _add_targets(first, indptr, targets, sizes, fan_in, size_sum, synapse_sum):
    """Sum the sizes and incoming synapses of the targets of each neuron of a block."""
    for i in range(indptr.size - 1):
        size = np.int64(0)
        synapses = np.int64(0)
        for e in range(indptr[i], indptr[i + 1]):
            t = np.uint32(targets[e])
            size += sizes[t]
            synapses += fan_in[t]
        size_sum[first + i] = size
        synapse_sum[first + i] = synapses


@dataclass(frozen=True, slots=True)
class AxonBounds:
    """Lower bounds for any mapping.

    spread : ndarray[int64], shape (neurons,), cores that the targets of each neuron fill
    cores : cores that the synapses fill, given the limit on axons per core
    """

    spread: NDArray[np.int64]
    cores: int

    @property
    def axons_in(self) -> int:
        return int(self.spread.sum())


def axon_bounds(
    graph: Graph, chip: Chip, sizes: NDArray[np.int64], fans: Fans, threads: int = 1
) -> AxonBounds:
    """Compute bounds on axons, in one pass.

    sizes : size of each neuron, ndarray[int64], shape (neurons,)
    """
    most = most_synapses(chip, fans)
    size_sum, synapse_sum = np.zeros((2, graph.vertices), np.int64)
    for block in graph.blocks(threads=threads):
        indptr, targets, _ = block.outgoing()
        _add_targets(block.first, indptr, targets, sizes, fans.into, size_sum, synapse_sum)
    spread = np.maximum(-(-size_sum // chip.neurons), -(-synapse_sum // most))
    np.maximum(spread, fans.out > 0, out=spread)  # targets of size 0 still occupy a core
    return AxonBounds(spread, -(-int(fans.into.sum()) // most))


def most_synapses(chip: Chip, fans: Fans) -> int:
    """Return the most synapses a core can have within its limits on synapses and axons_in, >= 1."""
    most = int(fans.into.sum())
    if chip.synapse_limit is not None:
        most = min(most, chip.synapse_limit)
    if chip.axons_in is not None and chip.axons_in < fans.out.size:
        widest = np.partition(fans.out, fans.out.size - chip.axons_in)[-chip.axons_in :]
        most = min(most, int(widest.sum()))
    return max(1, most)
