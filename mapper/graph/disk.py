"""Estimate of the scratch size of a run from a sample of blocks.

The bytes per connection depend on the gaps between ids of neighbours, which the description of a
network does not contain. So a few evenly spaced blocks are packed as in a run; the bytes of the
others are extrapolated from their size in the network file. The steps kept by a run have one label
per neuron, its part or core. They compress better if neighbours in the network are close in the
order of ids, which is measured on the same blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mapper.graph.rows import StreamedRows, weight_shift
from mapper.graph.sparsification import ThinnedGraph
from mapper.planning.core_limits import CoreLimits
from mapper.planning.memory import LEVEL_ROW_BYTES, most_parts
from mapper.planning.plan import Plan
from mapper.planning.rounds import cut_passes, hop_rounds
from mapper.settings import BY_NETS, Settings
from storage.arrays import Int64
from storage.compression import compress
from storage.graph import Graph
from storage.store.network import NetworkFile

SAMPLED = (8, 16)  # least and largest number of sampled blocks
ENTRIES = 1 << 22  # target entries of the sampled blocks, if these are more than the least number
# bytes per block in addition to its rows: head and name, see `storage.scratch.record_log`
RECORD_BYTES = 48
STEP_BYTES = 512  # bytes per step in addition to its labels
FEWER = 2  # one in FEWER sampled blocks is used to estimate the distribution of weights,
WEIGHED = 1 << 16  # from this many of its connections
CLUSTER_BYTES = 2.5  # bytes per neuron for its compressed cluster; most clusters are unique numbers
BLOCK_SHARE = 0.5  # compressed bytes of a block number relative to a part number, which is larger


def with_disk(plan: Plan, network: NetworkFile, chip: CoreLimits, settings: Settings) -> Plan:
    """Return the plan with the disk use of a run, accurate to about 10 %, from a sample of blocks.

    Also sets `scattered`; nothing else changes. The plan of the preset `classic` is unchanged, as
    its levels cannot be estimated from blocks.
    """
    settings = settings.resolved(chip.delivery)
    if settings.method == "classic":
        return plan
    seen = _look(network, settings, packed=not (plan.held or plan.nets_held))
    n, rows = network.vertices, seen.rows
    parts = most_parts(network, chip)
    labels = _compressed(seen.near * parts // n)
    count, blocks = _steps(float(seen.degrees.mean()) * n, settings, plan)
    kept = STEP_BYTES * (count + blocks) + (count + BLOCK_SHARE * blocks) * labels * n
    if blocks:
        kept += CLUSTER_BYTES * n
    if rows:
        rows += _compressed(seen.degrees) * n
    levels = LEVEL_ROW_BYTES * sum(plan.contractions[:2])
    return replace(
        plan,
        rows=int(rows),
        scratch=int(rows + levels + kept),
        scattered=seen.scattered,
    )


class _Seen(NamedTuple):
    """Measurements on the sampled blocks.

    rows : bytes of all rows, packed; 0 if they will not be packed
    degrees : of the vertices of these blocks; near : the middle neighbour of each, or itself
    """

    rows: float
    degrees: Int64
    near: Int64

    @property
    def scattered(self) -> bool:
        """Whether consecutive vertices have neighbours about as far apart as arbitrary ones."""
        near = self.near
        apart, by_chance = np.abs(np.diff(near)), np.abs(near - near[::-1])
        return bool(2 * apart.sum() > by_chance.sum())


def _look(network: NetworkFile, settings: Settings, packed: bool) -> _Seen:
    some = _some(network.block_count, network.connections)
    shift = weight_shift(network.meta.total_weight, network.meta.synapses)
    graph = _thinned(network, settings.degree * network.vertices, some)
    sizes = np.broadcast_to(np.int64(0), (network.vertices,))  # uses no memory
    rows = StreamedRows(graph, sizes, shift)
    stored = taken = 0
    degrees, near = [], []
    for index in some:
        chunk = rows.read(index)
        low, high = chunk.indptr[:-1], chunk.indptr[1:]
        degrees.append(high - low)
        middle = np.arange(chunk.first, chunk.first + chunk.vertices)
        there = high > low
        middle[there] = chunk.ids[(low + high)[there] // 2]
        near.append(middle)
        if packed:
            block = rows.packed(index)
            taken += len(block.packed) + len(block.directions) + 2 * RECORD_BYTES
            stored += network.stored_bytes(index)
    all_rows = taken * network.stored_bytes() / max(1, stored)
    return _Seen(all_rows, np.concatenate(degrees), np.concatenate(near))


def _some(blocks: int, entries: int) -> list[int]:
    """Return the sampled blocks, evenly spaced."""
    fewest, most = SAMPLED
    count = max(fewest, min(most, ENTRIES * blocks // max(1, entries)))
    places = (np.arange(count) + 0.5) / count * blocks
    return list(np.unique(places.astype(int)).tolist())


def _thinned(network: NetworkFile, wanted: int, some: list[int]) -> Graph:
    """Return the network without light connections, so that about `wanted` are left.

    some : blocks used to estimate the distribution of weights
    """
    if network.connections <= wanted:
        return network
    weights = np.concatenate([network.read_undirected(index)[2] for index in some[::FEWER]])
    weights = weights[:: max(1, weights.size // WEIGHED)]
    low, high = 1, max(1, int(weights.max(initial=1)) * network.connections)
    while low < high:  # least threshold that leaves at most `wanted`
        middle = (low + high) // 2
        left = np.minimum(1.0, weights / middle).mean() * network.connections
        low, high = (low, middle) if left <= wanted else (middle + 1, high)
    return ThinnedGraph(network, low, wanted)


def _compressed(numbers: Int64) -> float:
    """Return the compressed bytes per number, as in the steps kept in scratch."""
    return len(compress(numbers.astype(np.int32).data)) / max(1, numbers.size)


def _steps(entries: float, settings: Settings, plan: Plan) -> tuple[int, int]:
    """Return the approximate number of steps with a part or core per neuron, and with a block.

    entries : of all rows
    Passes end early when little moves: about half of the allowed ones run.
    """
    if plan.nets_held:
        return 2 + settings.net_cycles, 0
    count = 2 + plan.cycles  # the first, and the last
    if settings.objective in BY_NETS:
        count += settings.net_cycles
    if plan.levels:
        return count, 0
    passes, exchanges = hop_rounds(settings, entries)
    count += passes + (exchanges + 1) // 2
    count += (cut_passes(settings, entries) + 1) // 2
    return count, 0 if plan.sample is None else 1 + (settings.block_passes + 1) // 2
