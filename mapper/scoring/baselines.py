"""Hops of simple mappings of the same network, and a lower bound, to compare a mapping with.

in order : neurons in the order of the network, on the same cores, with as many in each
random : the same with the neurons shuffled
lower bound : each neuron alone has the best possible surroundings: the targets with most weight in
    its own core, the next ones in cores around it, all full

If the network is large, all of them are estimated from the synapses of evenly spaced blocks: ratios
to the hops of the mapping for the same synapses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from chipsim.traffic.arrays import Traffic, Units, measure
from mapper.scoring.measure import OutgoingSynapses
from storage.arrays import Int32, Int64
from storage.graph import Csr
from storage.store.network import RATE, NetworkFile

SAMPLED = 1 << 20
"""Number of connections that are read, about, for each mapping."""
FARTHEST = 2048
"""Distances of the lower bound; larger ones count as this."""


def measure_baselines(
    network: NetworkFile,
    chip: Chip,
    core: Int32,
    seed: int,
    threads: int = 1,
    scratch: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any] | None:
    """Return the entry `baselines` of report.json without the hops; None without any hops.

    core : ndarray[int32], shape (neurons,), of the mapping
    check : called before each measurement; its errors are raised
    """
    blocks = _Sample(network, {i: network.read_outgoing(i) for i in _chosen(network).tolist()})
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    unit = network.meta.weight_unit
    sizes = network.vertex_sizes()

    def hops(other: Int32) -> int:
        check()
        found = measure(
            chip, other, blocks, sizes=sizes, rates=None if rate is None else rate.stored,
            undirected=network.undirected, units=Units(unit, unit if rate is None else rate.unit),
            threads=threads, scratch=scratch,
        )  # fmt: skip
        return hops_of(chip, found)

    own = hops(core)
    if not own:
        return None
    found = {"in_order": hops(np.sort(core))}
    found["random"] = hops(np.random.default_rng(seed).permutation(core))
    check()
    rates = None if rate is None else rate.stored
    found["lower_bound"] = sum(
        _least_hops(chip, sizes, rates, network.undirected, blocks.read_block(index))
        for index in blocks.chosen
    )
    share = len(blocks.chosen) / max(1, network.block_count)
    return {**{name: value / own for name, value in found.items()}, "sampled": share}


def hops_of(chip: Chip, traffic: Traffic) -> int:
    """Return the hops of the packets that a chip sends, in stored units."""
    if chip.delivery == "synapse":
        return traffic.totals.hops
    links = traffic.core_links if chip.delivery == "core" else traffic.multicast_links
    return int(links.sum())


def _chosen(network: NetworkFile) -> Int64:
    """Return the indices of blocks with at most about `SAMPLED` connections together."""
    share = min(1.0, SAMPLED / max(1, network.connections))
    count = max(1, round(share * network.block_count))
    return np.unique(np.linspace(0, network.block_count - 1, count).astype(np.int64))


@dataclass(frozen=True, slots=True)
class _Sample:
    """Blocks of a network; only the chosen ones have synapses.

    chosen : outgoing connections of these blocks, which are read once for all mappings
    """

    network: NetworkFile
    chosen: dict[int, Csr]

    @property
    def block_count(self) -> int:
        return self.network.block_count

    def read_block(self, index: int) -> OutgoingSynapses:
        first, last = self.network.block_bounds(index)
        if index in self.chosen:
            return OutgoingSynapses(first, self.chosen[index])
        none = np.zeros(0, np.int64)
        return OutgoingSynapses(
            first, (np.zeros(last - first + 1, np.int64), none.astype(np.int32), none)
        )


def _least_hops(
    chip: Chip, sizes: Int64, rates: Int64 | None, undirected: bool, block: OutgoingSynapses
) -> int:
    """Return a lower bound of the hops of the synapses of a block."""
    indptr, _, weights = block.outgoing()
    tile = 1 if chip.machine is None else int(np.prod(chip.machine.tile_size))
    held = chip.neurons // max(1, int(sizes.min(initial=1)))  # neurons of a core, at most
    degree = np.diff(indptr)
    if chip.delivery == "synapse":
        row = np.repeat(np.arange(degree.size), degree)
        order = np.lexsort((-weights, row))
        rank = np.arange(weights.size) - indptr[:-1][row]
        hops = int((weights[order] * nearest(rank, held * tile)).sum())
        return hops // 2 if undirected else hops
    others = np.maximum(-(-(degree - (held - 1)) // max(1, held)), 0)  # cores besides its own
    if rates is None:
        filled = np.flatnonzero(degree)
        rate = np.zeros(degree.size, np.int64)
        if filled.size:
            rate[filled] = np.maximum.reduceat(weights, indptr[:-1][filled])
    else:
        rate = rates[block.first : block.first + degree.size]
    if chip.delivery == "tree":  # each router besides the first takes at least a link
        return int((rate * np.maximum(-(-(others - (tile - 1)) // tile), 0)).sum())
    steps = nearest(np.arange(int(others.max(initial=0))), tile)
    return int((rate * np.append(0, np.cumsum(steps))[others]).sum())


def nearest(rank: Int64, held: int) -> Int64:
    """Return the least distances of things around one thing, of which a router holds `held`.

    rank : 0 for the nearest one, 1 for the next, ...

    There are 4 d routers at distance d; the first router also holds the thing itself.
    """
    distance = np.arange(FARTHEST, dtype=np.int64)
    room = held * (1 + 2 * distance * (distance + 1)) - 1
    return np.searchsorted(room, rank, side="right")
