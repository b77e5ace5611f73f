"""Use of core memories by parts of populations, counted exactly as the cores' tables are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chipsim.chip.limits import BITS_OF_MEMORY
from chipsim.chip.model import Chip
from hw.core.sharing import SynapseRows, share_lists
from mapper.populations.tiles import Grid
from storage.arrays import Float64, Int64

MAP_BYTES = 1 << 27  # of a map of tiles and sources; larger ones are sorted instead
NO_LIMIT = 1 << 62
LIMIT_NAMES = ("neurons", "axons", "list words", "profiles", "synapses", BITS_OF_MEMORY)
"""Names of the fields of `CoreLimits` that a part uses by itself, in messages."""


class CoreLimits(NamedTuple):
    """Sizes of a core's memories.

    words : of synapse lists, after sharing
    synapses : before sharing, on chips that do not share lists
    bits : of a memory of the chip with counted bits
    routes : (neuron, destination core) pairs
    costs : bits in that memory per neuron, axon, list word, profile and synapse
    """

    neurons: int
    axons: int
    words: int
    profiles: int
    synapses: int
    bits: int
    routes: int
    costs: tuple[int, ...]

    @classmethod
    def of(cls, chip: Chip) -> CoreLimits:
        """Return the limits of the cores of a chip, without one on routes."""
        stored = chip.synapses or NO_LIMIT
        shared = chip.sharing == "offset"
        words, synapses = (chip.synapse_bits, 0) if shared else (0, chip.synapse_bits)
        return cls(
            chip.neurons,
            chip.axons_in or NO_LIMIT,
            stored if shared else NO_LIMIT,
            NO_LIMIT,
            NO_LIMIT if shared else stored,
            chip.memory_bits or NO_LIMIT,
            NO_LIMIT,
            (chip.neuron_bits, chip.axon_bits, words, 0, synapses),
        )

    @property
    def most(self) -> tuple[int, ...]:
        """The limits in `LIMIT_NAMES`."""
        return self[:6]

    def uses(self, counts: Sequence[Int64] | Sequence[int]) -> tuple[Int64, ...]:
        """Return the use of each limit in `LIMIT_NAMES` by one core, or by several.

        counts : neurons, axons, list words, profiles and synapses
        """
        held = [np.asarray(each) for each in counts]
        return (*held, np.asarray(np.tensordot(self.costs, held, 1), np.int64))


class FanIn(NamedTuple):
    """A population and the synapses that reach it, sorted by source and target.

    first : id of its first neuron
    sources : ids of the neurons and inputs with a synapse to it, ascending
    source : index of each synapse's source in `sources`
    target : of each synapse, counted from `first`
    weight, delay : of each synapse
    profile : profile of each neuron, numbered over the network
    rate : spikes of each of `sources` per tick
    """

    name: str
    grid: Grid
    first: int
    sources: Int64
    source: Int64
    target: Int64
    weight: Int64
    delay: Int64
    profile: Int64
    rate: Float64

    @property
    def size(self) -> int:
        """Number of neurons."""
        return self.profile.size


class Links(NamedTuple):
    """Synapses between neurons and, with ids from `neurons`, from inputs.

    source, target : ndarray[int64], shape (synapses,)
    """

    neurons: int
    source: Int64
    target: Int64


class TileAxons(NamedTuple):
    """Axons of the tiles of a population, by tile, then by source.

    part : tile of each neuron
    pair : tile * sources + source, ascending, shape (axons,)
    neurons, axons, profiles, synapses : used by each tile
    packets : that reach each tile per tick
    """

    part: Int64
    pair: Int64
    neurons: Int64
    axons: Int64
    profiles: Int64
    synapses: Int64
    packets: Float64


def fan_in_of(
    name: str,
    grid: Grid,
    first: int,
    profile: Int64,
    links: Links,
    kinds: tuple[Int64, Int64],
    rate: Float64,
) -> FanIn:
    """Return a population with its synapses.

    profile : of its neurons
    links : synapses of the network, sorted by source, then by target
    kinds : weight and delay of each synapse
    rate : spikes of each neuron and input per tick
    """
    own = np.flatnonzero((links.target >= first) & (links.target < first + profile.size))
    sources, of_source = np.unique(links.source[own], return_inverse=True)
    weight, delay = kinds
    return FanIn(
        name, grid, first, sources, of_source.reshape(-1), links.target[own] - first, weight[own],
        delay[own], profile, rate[sources],
    )  # fmt: skip


def count_axons(fan_in: FanIn, part: Int64, parts: int) -> TileAxons:
    """Count everything but list words of a population in parts; part : of each neuron."""
    sources = fan_in.sources.size
    key = part[fan_in.target] * sources + fan_in.source
    if parts * sources <= MAP_BYTES:
        occurs = np.zeros(parts * sources, bool)
        occurs[key] = True
        pair = np.flatnonzero(occurs)
    else:
        pair = np.unique(key)
    tile = pair // max(sources, 1)
    kinds = np.unique(np.column_stack([part, fan_in.profile]), axis=0)[:, 0]
    return TileAxons(
        part,
        pair,
        np.bincount(part, minlength=parts),
        np.bincount(tile, minlength=parts),
        np.bincount(kinds, minlength=parts),
        np.bincount(part[fan_in.target], minlength=parts),
        np.bincount(tile, fan_in.rate[pair % max(sources, 1)], parts).astype(np.float64),
    )


def count_words(fan_in: FanIn, axons: TileAxons) -> Int64:
    """Return the words of the synapse lists of each tile, shape (tiles,)."""
    part, parts, sources = axons.part, axons.neurons.size, fan_in.sources.size
    order = np.argsort(part, kind="stable")
    local = np.empty_like(part)
    local[order] = np.arange(part.size) - (np.cumsum(axons.neurons) - axons.neurons)[part[order]]
    axon = np.searchsorted(axons.pair, part[fan_in.target] * sources + fan_in.source)
    rows = SynapseRows(axon, local[fan_in.target], fan_in.weight, fan_in.delay)
    return np.diff(share_lists(axons.pair // max(sources, 1), rows, parts).first)


def joint_words(given: Sequence[tuple[FanIn, Int64]]) -> int:
    """Return the list words of one core with several parts.

    given : population, and ids of its neurons in the core, ascending, of each part
    """
    neurons = np.sort(np.concatenate([ids for _, ids in given]))
    columns = []
    for fan_in, ids in given:
        inside = np.zeros(fan_in.size, bool)
        inside[ids - fan_in.first] = True
        own = inside[fan_in.target]
        columns.append(
            (
                fan_in.sources[fan_in.source[own]],
                np.searchsorted(neurons, fan_in.target[own] + fan_in.first),
                fan_in.weight[own],
                fan_in.delay[own],
            )
        )
    source, local, weight, delay = (np.concatenate(each) for each in zip(*columns, strict=True))
    sources, axon = np.unique(source, return_inverse=True)
    rows = SynapseRows(axon.reshape(-1), local, weight, delay)
    return len(share_lists(np.zeros(sources.size, np.int64), rows, 1).words)
