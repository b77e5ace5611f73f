"""Traffic of the populations of a network under a mapping, measured in one pass.

The traffic is of the packets that the chip sends: weights with a packet per synapse, otherwise
packets to cores, which the links of a multicast tree also serve. The pass sums it by slice, the
neurons of a population in a core; routes follow from these sums, so memory does not depend on the
synapses. All sums are exact, in weight units or rate units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from chipsim.parallel import map_ordered
from chipsim.protocols import BlockSource, SynapseBlock
from chipsim.traffic.links import loads_of
from chipsim.traffic.pairs import PairSums, PairTable
from chipsim.traffic.routes import Routes
from chipsim.traffic.sweep_kernel import KernelBlock
from mapper.monitoring.callbacks import Advance, ignore
from mapper.scoring.measure import SynapseBlocks
from mapper.scoring.slices import (
    SliceMapping,
    SliceScratch,
    add_flows,
    keep_strongest,
    route_pairs,
    sum_slices,
)
from storage.arrays import Float64, Int32, Int64
from storage.store.network import RATE, NetworkFile
from storage.store.populations import Populations, read_populations

PAIRS_KEPT = 4096
"""Maximum number of population pairs: the ones with most hops."""
ROUTED_PAIRS = 1024
"""Maximum number of these pairs whose loads on links are measured."""
ROUTED_LOADS = 1 << 26
"""Maximum number of loads, over all links of all pairs."""
ROUTED_BYTES = 1 << 24
"""Bytes for the routes of the pairs that are measured at a time, more for a very large chip."""
RANGES_KEPT = 1 << 20
"""Maximum number of ranges of neurons of one population that are kept."""
LINK_PAIRS = 6
"""Number of strongest pairs that are kept for each link."""


class Slices(NamedTuple):
    """The neurons of each population in each core, by population, then by core.

    population, core : ndarray[int32], shape (slices,)
    neurons : ndarray[int64], shape (slices,)
    """

    population: Int32
    core: Int32
    neurons: Int64


@dataclass(frozen=True, slots=True)
class PopulationTraffic:
    """Traffic of all populations under a mapping.

    unit : of the sums, in the units of the network
    slices : neurons by population and core
    range_first, range_population : ndarray[int64], ndarray[int32], shape (ranges,): first neuron
        and population of ranges of neurons; empty if there are more than `RANGES_KEPT`
    sent, received, within : ndarray[int64], shape (populations,): traffic to other cores, from
        other cores, and within a core, the latter two counted at its targets and its sources
    hops : ndarray[int64], shape (populations,): traffic times hops, of its sources
    pair_source, pair_target : ndarray[int32], shape (pairs,): pairs of populations, most hops first
    pair_traffic, pair_hops : ndarray[int64], shape (pairs,): also of traffic within cores
    link_pair : ndarray[int32], shape (4, rows, columns of routers, LINK_PAIRS): the strongest pairs
        of every link, in the form of `chipsim.traffic.links`; -1 for missing ones
    link_traffic : ndarray[int64], same shape
    """

    names: list[str]
    kind: str
    unit: float
    slices: Slices
    range_first: Int64
    range_population: Int32
    sent: Int64
    received: Int64
    within: Int64
    hops: Int64
    pair_source: Int32
    pair_target: Int32
    pair_traffic: Int64
    pair_hops: Int64
    link_pair: Int32
    link_traffic: Int64

    @property
    def neurons(self) -> Int64:
        """Return the neurons of each population, with relay neurons; shape (populations,)."""
        return np.bincount(self.slices.population, self.slices.neurons, len(self.names)).astype(
            np.int64
        )

    @property
    def cores(self) -> Int64:
        """Return the number of cores that each population uses, shape (populations,)."""
        return np.bincount(self.slices.population, minlength=len(self.names))

    def of_neurons(self) -> Int32 | None:
        """Return the population of every neuron and relay neuron; None if it was not kept."""
        if not self.range_first.size:
            return None
        count = int(self.slices.neurons.sum())
        return np.repeat(self.range_population, np.diff(self.range_first, append=count))

    def largest(self, cores: int) -> Int32:
        """Return the population with most neurons in each core, -1 for empty ones."""
        found = np.full(cores, -1, np.int32)
        order = np.lexsort((-self.slices.population, self.slices.neurons))
        found[self.slices.core[order]] = self.slices.population[order]
        return found

    @property
    def hops_mean(self) -> Float64:
        """Return the mean hops of the traffic of each population, 0 without traffic."""
        total = self.sent + self.within
        return np.divide(self.hops, total, out=np.zeros(total.size), where=total > 0)


class PopulationSource(NamedTuple):
    """A network for `measure_populations`.

    rates : ndarray[int64], shape (neurons,); None for the largest weight of each neuron
    units : of weights and of rates
    """

    blocks: BlockSource
    rates: Int64 | None
    undirected: bool
    units: tuple[float, float] = (1.0, 1.0)


def population_traffic(
    network: NetworkFile,
    chip: Chip,
    core: Int32,
    threads: int = 1,
    scratch: Path | None = None,
    advance: Advance = ignore,
) -> PopulationTraffic | None:
    """Return the traffic of the populations of a stored network; None without populations."""
    populations = read_populations(network)
    if populations is None:
        return None
    rate = network.attribute(RATE) if RATE in network.meta.attributes else None
    unit = network.meta.weight_unit
    source = PopulationSource(
        SynapseBlocks(network, network, advance), None if rate is None else rate.stored,
        network.undirected, (unit, unit if rate is None else rate.unit),
    )  # fmt: skip
    return measure_populations(chip, core, populations, source, threads, scratch)


def find_slices(
    population: Int32, core: Int32, cores: int, populations: int
) -> tuple[Slices, Int32]:
    """Return all slices, and the slice of every neuron, shape (neurons,)."""
    key = population.astype(np.int64)
    key *= cores
    key += core
    if populations * cores <= max(1 << 20, 2 * core.size):
        counts = np.bincount(key, minlength=populations * cores)
        found = np.flatnonzero(counts)
        number = np.zeros(counts.size, np.int32)
        number[found] = np.arange(found.size)
        of, neurons = number[key], counts[found]
    else:
        found, inverse, neurons = np.unique(key, return_inverse=True, return_counts=True)
        of = inverse.astype(np.int32)
    place = (found // cores).astype(np.int32), (found % cores).astype(np.int32)
    return Slices(*place, neurons.astype(np.int64)), of


def measure_populations(
    chip: Chip,
    core: Int32,
    labels: Populations,
    source: PopulationSource,
    threads: int = 1,
    scratch: Path | None = None,
) -> PopulationTraffic:
    """Return the traffic of the populations of a network.

    core : ndarray[int32], shape (neurons,), core of every neuron
    scratch : folder for sums that exceed their memory
    """
    slices, of = find_slices(labels.of, core, chip.cores, len(labels.names))
    packets = chip.delivery != "synapse"
    none = np.zeros(0, np.int64)
    mapping = SliceMapping(
        of, slices.core, none if source.rates is None else source.rates, source.undirected, packets
    )
    sums = _SliceSums(mapping, PairSums(len(slices.core), scratch), chip.cores)

    def add(index: int) -> None:
        sums.add(source.blocks.read_block(index))

    for _ in map_ordered(add, range(source.blocks.block_count), threads):
        pass
    table = sums.pairs.table()
    (sent, received, within, hops), pairs = _follow(chip, table, slices, len(labels.names))
    link_pair, link_traffic = _links(chip, table, slices, pairs, len(labels.names))
    rate_unit = source.units[0 if source.rates is None else 1]
    first, population = _ranges(labels.of)
    return PopulationTraffic(
        labels.names, labels.kind, rate_unit if packets else source.units[0], slices, first,
        population, sent, received, within, hops, *pairs, link_pair, link_traffic,
    )  # fmt: skip


def _ranges(population: Int32) -> tuple[Int64, Int32]:
    """Return first neuron and population of ranges of neurons; nothing if there are too many."""
    first = np.flatnonzero(np.diff(population, prepend=-1))
    if first.size > RANGES_KEPT:
        first = first[:0]
    return first, population[first]


@dataclass
class _SliceSums:
    """Sums of blocks by slices; several threads may add blocks."""

    mapping: SliceMapping
    pairs: PairSums
    cores: int
    _idle: list[tuple[SliceScratch, int]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, block: SynapseBlock) -> None:
        """Add the synapses of a block."""
        indptr, targets, weights = block.outgoing()
        count = indptr.size - 1
        order = np.argsort(self.mapping.of[block.first : block.first + count], kind="stable")
        with self._lock:
            scratch, serial = self._idle.pop() if self._idle else (self._scratch(), 1)
        keys, sums = np.empty((2, targets.size), np.int64)
        found = sum_slices(
            KernelBlock(block.first, order, indptr, targets, weights), self.mapping, scratch,
            serial, keys, sums,
        )  # fmt: skip
        with self._lock:
            self._idle.append((scratch, serial + count))
        self.pairs.add(keys[:found], sums[:found])

    def _scratch(self) -> SliceScratch:
        slices = len(self.mapping.core)
        by_slice, by_core = np.zeros((5, slices), np.int64), np.zeros((3, self.cores), np.int64)
        return SliceScratch(*by_slice, *by_core)


class _Pairs(NamedTuple):
    source: Int32
    target: Int32
    traffic: Int64
    hops: Int64


def _follow(
    chip: Chip, table: PairTable, slices: Slices, populations: int
) -> tuple[tuple[Int64, Int64, Int64, Int64], _Pairs]:
    """Return the sums of `add_flows` by column, and the pairs with most hops."""
    routes, where = Routes.of(chip), (slices.population, slices.core)
    sums, row = np.zeros((populations, 4), np.int64), np.zeros((populations, 2), np.int64)
    kept = _Pairs(*np.zeros((2, 0), np.int32), *np.zeros((2, 0), np.int64))
    parts, count, own = [kept], 0, 0

    def close() -> None:
        """Add the pairs of the finished source population."""
        nonlocal count, parts
        others = np.flatnonzero(row[:, 0])
        ends = np.full(others.size, own, np.int32), others.astype(np.int32)
        parts.append(_Pairs(*ends, *row[others].T.copy()))
        count += others.size
        row[:] = 0
        if count > 2 * PAIRS_KEPT:
            parts = [_strongest(parts)]
            count = parts[0].hops.size

    for index in range(table.stripes):
        flows, at = table.stripe(index), 0
        while at < len(flows[0]):
            first = int(slices.population[flows[0][at]])
            if first != own:
                close()
                own = first
            at = add_flows(flows, at, where, routes, sums, row)
    close()
    sent, received, within, hops = sums.T.copy()
    return (sent, received, within, hops), _strongest(parts)


def _strongest(parts: list[_Pairs]) -> _Pairs:
    """Return the pairs with most hops, then with most traffic, by falling hops."""
    source, target, traffic, hops = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.lexsort((target, source, -traffic, -hops))[:PAIRS_KEPT]
    return _Pairs(source[order], target[order], traffic[order], hops[order])


def _links(
    chip: Chip, table: PairTable, slices: Slices, pairs: _Pairs, populations: int
) -> tuple[Int32, Int64]:
    """Return the strongest pairs of every link, and their traffic."""
    columns, rows = chip.routers
    links = 4 * rows * columns
    kept_pair = np.full((links, LINK_PAIRS), -1, np.int32)
    kept = np.zeros((links, LINK_PAIRS), np.int64)
    most = min(ROUTED_PAIRS, ROUTED_LOADS // links + 1, int(np.count_nonzero(pairs.hops)))
    together = max(1, ROUTED_BYTES // (32 * (rows + 1) * (columns + 1)))
    routes, where = Routes.of(chip), (slices.population, slices.core)
    keys = pairs.source.astype(np.int64) * populations + pairs.target
    for first in range(0, most, together):
        batch = np.arange(first, min(first + together, most))
        order = batch[np.argsort(keys[batch])]
        differences = np.zeros((order.size, 4, rows + 1, columns + 1), np.int64)
        for index in range(table.stripes):
            route_pairs(table.stripe(index), where, routes, keys[order], populations, differences)
        place = np.argsort(order)
        for pair in batch.tolist():
            loads = loads_of(differences[place[pair - first]]).ravel()
            keep_strongest(loads, pair, kept_pair, kept)
    shape = (4, rows, columns, LINK_PAIRS)
    return kept_pair.reshape(shape), kept.reshape(shape)
