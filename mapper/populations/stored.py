"""Mapping of the populations of a stored network to cores that share synapse lists."""

from __future__ import annotations

import numpy as np

from chipsim.chip.model import Chip
from mapper.populations.mapping import pack_populations, part_of
from mapper.populations.placement import place_parts
from mapper.populations.tiles import Grid
from mapper.populations.usage import NO_LIMIT, CoreLimits, Links, fan_in_of
from mapper.scoring.list_words import outgoing_synapses
from storage.arrays import Float64, Int32, Int64
from storage.store.network import POPULATION, RATE, SIZE, NetworkFile

BYTES_PER_SYNAPSE = 250  # of the arrays that count list words


def tiled_cores(
    network: NetworkFile, chip: Chip, memory: int, seed: int, fewer_than: int, placer: str
) -> Int32 | None:
    """Return the core of every neuron, mapped as tiles of populations that share synapse lists.

    memory : bytes for the synapses
    seed : of the placement
    fewer_than : number of cores that makes tiles useless
    placer : see `mapper.settings`

    Returns None if tiles need as many cores, and for networks without populations, with neurons of
    different sizes, or beyond the memory. Raises `DoesNotFitError` naming population and limit.
    """
    starts = population_starts(network)
    if starts is None or network.meta.synapses * BYTES_PER_SYNAPSE > memory:
        return None
    synapses = [outgoing_synapses(network, index) for index in range(network.block_count)]
    source, target, weight = (np.concatenate(each) for each in zip(*synapses, strict=True))
    links = Links(network.vertices, source, target)
    rate = _rates(network)
    labels = network.attribute(POPULATION).labels
    assert labels is not None, "populations have names"
    kinds = weight, np.zeros_like(weight)
    populations = [
        fan_in_of(
            f"population {labels[label]}", Grid(1, 1, end - first), first,
            np.zeros(end - first, np.int64), links, kinds, rate,
        )
        for label, first, end in starts
    ]  # fmt: skip
    limits = CoreLimits.of(chip)._replace(routes=chip.out_limit or NO_LIMIT)
    none = np.zeros(0, np.int64)
    contents = pack_populations(populations, links, none, limits, chip.usable_count, rate)
    if len(contents) >= fewer_than:
        return None
    part = part_of(contents, network.vertices)
    return place_parts(links, part, rate, none, chip, seed, placer)[part].astype(np.int32)


def population_starts(network: NetworkFile) -> list[tuple[int, int, int]] | None:
    """Return label, first neuron and end of each population.

    None if there are no populations, ids of a population are not consecutive, or sizes differ from
    one.
    """
    if POPULATION not in network.meta.attributes or SIZE in network.meta.attributes:
        return None
    about = network.attribute(POPULATION)
    if about.labels is None or network.meta.default_size != 1:
        return None
    first = np.flatnonzero(np.diff(about.stored, prepend=-1))
    label = about.stored[first]
    if np.unique(label).size < label.size:
        return None
    ends = np.append(first[1:], network.vertices)
    return list(zip(label.tolist(), first.tolist(), ends.tolist(), strict=True))


def _rates(network: NetworkFile) -> Float64:
    if RATE not in network.meta.attributes:
        return np.ones(network.vertices)
    rate: Int64 = network.attribute(RATE).stored
    return rate.astype(np.float64) if rate.any() else np.ones(network.vertices)
