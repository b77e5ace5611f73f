"""How much disk the scratch of a run takes, from a few blocks of the network.

How many bytes a connection takes depends on how far apart the ids of neighbours are, which nothing
in the description of a network tells. So a few blocks, evenly spread, are packed as the run packs
all of them; the bytes of the others follow from what they take in the network itself. The steps
that a run keeps have a label for each neuron, its part or core. These are compressed the better the
more neighbours in the network are neighbours in the order of ids: the same blocks tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.graph.rows import StreamedRows, weight_shift
from mapper.graph.sparsification import ThinnedGraph
from mapper.runtime.memory_plan import LEVEL_ROW_BYTES, most_parts
from mapper.runtime.plan import Plan
from mapper.settings import BY_NETS, Settings
from storage.graph import Graph
from storage.scratch.packed import pack_block
from storage.scratch.scratch import compress
from storage.store.network import NetworkFile

SAMPLED = (8, 16)  # blocks, at least and at most
ENTRIES = 1 << 22  # of the blocks that are read, about, if these are more than the fewest
RECORD_BYTES = 48  # of a block beside its rows: head and name, see `storage.scratch.record_log`
STEP_BYTES = 512  # of a step beside its labels
FEWER = 2  # one of so many of the blocks tells how heavy connections are,
WEIGHED = 1 << 16  # by so many of them
CLUSTER_BYTES = 2.5  # of the cluster of a neuron, compressed; of most a number of their own
BLOCK_SHARE = 0.5  # of the bytes of a part, those of a block: their numbers are smaller


def with_disk(plan: Plan, network: NetworkFile, chip: Chip, settings: Settings) -> Plan:
    """The plan with the disk that a run takes, within some 10 %, from a few blocks of the network.

    `scattered` is told, too; nothing else changes. The plan of the preset `classic`, whose levels
    no block tells, stays as it is.
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
    """What some blocks tell.

    rows : bytes of all rows, packed; 0 if they are not to be
    degrees : of the vertices of these blocks; near : the neighbour of each in the middle, or itself
    """

    rows: float
    degrees: NDArray[np.int64]
    near: NDArray[np.int64]

    @property
    def scattered(self) -> bool:
        """Whether vertices behind each other have neighbours about as far apart as any others."""
        near = self.near
        apart, by_chance = np.abs(np.diff(near)), np.abs(near - near[::-1])
        return bool(2 * apart.sum() > by_chance.sum())


def _look(network: NetworkFile, settings: Settings, packed: bool) -> _Seen:
    some = _some(network.block_count, network.connections)
    shift = weight_shift(network.meta.total_weight, network.meta.synapses)
    graph = _thinned(network, settings.degree * network.vertices, some)
    sizes = np.broadcast_to(np.int64(0), (network.vertices,))  # of no memory
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
            block = pack_block(index, chunk.indptr, chunk.ids, chunk.weights)
            taken += len(block.packed) + RECORD_BYTES
            stored += network.stored_bytes(index)
    all_rows = taken * network.stored_bytes() / max(1, stored)
    return _Seen(all_rows, np.concatenate(degrees), np.concatenate(near))


def _some(blocks: int, entries: int) -> list[int]:
    """Blocks that are looked at, evenly spread."""
    fewest, most = SAMPLED
    count = max(fewest, min(most, ENTRIES * blocks // max(1, entries)))
    places = (np.arange(count) + 0.5) / count * blocks
    return list(np.unique(places.astype(int)).tolist())


def _thinned(network: NetworkFile, wanted: int, some: list[int]) -> Graph:
    """The network, without so many light connections that about `wanted` are left.

    some : blocks that tell how heavy they are
    """
    if network.connections <= wanted:
        return network
    weights = np.concatenate([network.read_undirected(index)[2] for index in some[::FEWER]])
    weights = weights[:: max(1, weights.size // WEIGHED)]
    low, high = 1, max(1, int(weights.max(initial=1)) * network.connections)
    while low < high:  # the least threshold that leaves no more
        middle = (low + high) // 2
        left = np.minimum(1.0, weights / middle).mean() * network.connections
        low, high = (low, middle) if left <= wanted else (middle + 1, high)
    return ThinnedGraph(network, low, wanted)


def _compressed(numbers: NDArray[np.int64]) -> float:
    """Bytes of one of these numbers, as steps are kept."""
    return len(compress(numbers.astype(np.int32).data)) / max(1, numbers.size)


def _steps(entries: float, settings: Settings, plan: Plan) -> tuple[int, int]:
    """About how many steps have a part or core for each neuron, and how many more a block.

    entries : of all rows

    Passes end when little moves: of those that may be there, about half are.
    """
    if plan.nets_held:
        return 2 + settings.net_cycles, 0
    count = 2 + plan.cycles  # the first, and the last
    if settings.objective in BY_NETS:
        count += settings.net_cycles
    if plan.levels:
        return count, 0
    most = int(settings.hop_budget // max(1.0, entries))
    count += min(settings.hop_passes, most) + (min(settings.exchanges, most) + 1) // 2
    count += (settings.refinement_passes + 1) // 2
    return count, 0 if plan.sample is None else 1 + (settings.block_passes + 1) // 2
