"""Cut and balance of a partition, in one pass over the graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import sums_by_label
from mapper.monitoring.callbacks import Advance, ignore
from storage.arrays import Int32, Int64
from storage.store.network import NetworkFile


class PartitionScore(NamedTuple):
    """Exact figures of a partition.

    cut : weight of the edges between parts, each counted once, in the unit of the input
    weights : ndarray[int64], shape (parts,), weight of each part
    """

    cut: float
    weights: Int64

    @property
    def imbalance(self) -> float:
        """Return the heaviest part over the mean weight, minus 1."""
        total = int(self.weights.sum())
        return int(self.weights.max()) * self.weights.size / total - 1 if total else 0.0


def score_partition(
    network: NetworkFile, part: Int32, parts: int, team: ThreadTeam, advance: Advance = ignore
) -> PartitionScore:
    """Return the cut and the weights of the parts; both directions of a pair of vertices count.

    part : of every vertex, 0 .. parts - 1
    """

    def look(index: int) -> tuple[int, int]:
        first, stop = network.block_bounds(index)
        indptr, ids, weights = network.read_undirected(index)
        leaves = np.repeat(part[first:stop], np.diff(indptr)) != part[ids]
        return int(weights[leaves].sum()), ids.size

    cut = 0
    for found, entries in team.stream(look, range(network.block_count)):
        cut += found
        advance(entries)
    weights = sums_by_label(part, network.vertex_sizes(), parts)
    unit = network.meta.weight_unit  # each edge is in two lists
    return PartitionScore(cut // 2 if unit == 1.0 else cut // 2 * unit, weights)
