"""Packing of the parts of all populations into as few cores as possible.

Parts are packed by decreasing size, each into the core with which it shares most packets. The
tiling of each population, then of pairs of populations, is exchanged for another while that leads
to fewer cores, or to a smaller product of packets and list words: tiles of few channels share more
words, but receive more packets, and the product weighs relative changes of both equally.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from mapper.populations.tiles import Grid
from mapper.populations.tilings import Part, Tiling
from mapper.populations.usage import CoreLimits, FanIn, joint_words
from storage.arrays import Float64, Int64

PartKey = tuple[int, Grid, int]  # population, its cut, and tile
MOST_TRIALS = 1500  # packings of a search
MOST_CHECKS = 1 << 21  # pairs of a part and a core that are compared in a search


class CoreContent(NamedTuple):
    """The parts of a core, and the use of its memories.

    sources : ids, ascending
    """

    keys: tuple[PartKey, ...]
    parts: tuple[Part, ...]
    neurons: int
    sources: Int64
    words: int
    synapses: int
    profiles: int
    packets: float

    @property
    def counts(self) -> tuple[int, ...]:
        """Neurons, axons, list words, profiles and synapses, as `CoreLimits.uses` expects them."""
        return (
            self.neurons, self.sources.size, self.words, self.profiles.bit_count(), self.synapses
        )  # fmt: skip


Cost = tuple[int, float]  # cores, and packets per tick times list words


@dataclass(eq=False)
class Packer:
    """Packs parts within limits.

    rate : spikes per tick of each neuron and input
    checks : pairs of a part and a core that were compared
    """

    fan_ins: Sequence[FanIn]
    limits: CoreLimits
    rate: Float64
    checks: int = 0
    _joined: dict[tuple[PartKey, ...], CoreContent | None] = field(default_factory=dict)

    def pack(self, tilings: Sequence[Tiling]) -> list[CoreContent]:
        """Return the contents of cores that hold the parts of these tilings."""
        parts = [
            _alone((part.population, each.cut, tile), part)
            for each in tilings
            for tile, part in enumerate(each.parts)
        ]
        parts.sort(key=lambda each: -self._size(each))
        cores: list[CoreContent] = []
        for part in parts:
            self.checks += len(cores)
            best, least = -1, np.inf
            for at, core in enumerate(cores):
                joined = self._join(core, part)
                if joined is not None and joined.packets - core.packets < least:
                    best, least = at, joined.packets - core.packets
            if best < 0:
                cores.append(part)
            else:
                joined = self._join(cores[best], part)
                assert joined is not None, "found before"
                cores[best] = joined
        return cores

    def _size(self, content: CoreContent) -> float:
        """Return the largest part of a memory that a content uses."""
        *used, _, synapses, bits = (int(each) for each in self.limits.uses(content.counts))
        limits = self.limits
        return max(
            *(each / limit for each, limit in zip(used, limits.most, strict=False)),
            synapses / limits.synapses,
            bits / limits.bits,
        )

    def _join(self, core: CoreContent, part: CoreContent) -> CoreContent | None:
        """Return a core with one more part, None if it does not fit.

        A core has at most one tile of a population: neurons of two would interleave, and their
        lists would be shared less.
        """
        limits = self.limits
        population = part.parts[0].population
        if (
            any(each.population == population for each in core.parts)
            or core.neurons + part.neurons > limits.neurons
            or core.words + part.words > limits.words
            or core.synapses + part.synapses > limits.synapses
            or max(core.sources.size, part.sources.size) > limits.axons
            or (core.profiles | part.profiles).bit_count() > limits.profiles
        ):
            return None
        keys = core.keys + part.keys
        if keys not in self._joined:
            self._joined[keys] = self._joint(core, part)
        return self._joined[keys]

    def _joint(self, core: CoreContent, part: CoreContent) -> CoreContent | None:
        sources = np.union1d(core.sources, part.sources)
        if sources.size > self.limits.axons:
            return None
        parts = core.parts + part.parts
        words = core.words + part.words
        if sources.size < core.sources.size + part.sources.size:
            # A source of both has one list, which may be shared less; otherwise words only add up.
            words = joint_words([(self.fan_ins[each.population], each.neurons) for each in parts])
        found = CoreContent(
            core.keys + part.keys,
            parts,
            core.neurons + part.neurons,
            sources,
            words,
            core.synapses + part.synapses,
            core.profiles | part.profiles,
            float(self.rate[sources].sum()),
        )
        used = self.limits.uses(found.counts)
        fits = all(int(each) <= limit for each, limit in zip(used, self.limits.most, strict=True))
        return found if fits else None


def pack_cores(packer: Packer, tilings: Sequence[Sequence[Tiling]]) -> list[CoreContent]:
    """Return the contents of cores with the best tiling of each population that is found."""
    chosen = [each[0] for each in tilings]
    packer.checks = trials = 0
    best = packer.pack(chosen)
    cost, improved = _cost(best), True
    while improved:
        improved = False
        for changed in _exchanges(tilings):
            if trials >= MOST_TRIALS or packer.checks >= MOST_CHECKS:
                return best
            tried = [changed.get(n, each) for n, each in enumerate(chosen)]
            trials += 1
            found = packer.pack(tried)
            if _cost(found) < cost:
                chosen, best, cost, improved = tried, found, _cost(found), True
    return best


def _cost(cores: Sequence[CoreContent]) -> Cost:
    packets, words = sum(each.packets for each in cores), sum(each.words for each in cores)
    return len(cores), round(packets * words, 6)  # a sum in another order is the same cost


def _exchanges(tilings: Sequence[Sequence[Tiling]]) -> Iterator[dict[int, Tiling]]:
    """Yield tilings of one or two populations, by population."""
    for size in (1, 2):
        for group in combinations(range(len(tilings)), size):
            for chosen in product(*(tilings[each] for each in group)):
                yield dict(zip(group, chosen, strict=True))


def _alone(key: PartKey, part: Part) -> CoreContent:
    return CoreContent(
        (key,), (part,), part.neurons.size, part.sources, part.words, part.synapses,
        part.profiles, part.packets,
    )  # fmt: skip
