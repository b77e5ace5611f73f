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
from numpy.typing import NDArray

from mapper.spiking.model import Floats
from mapper.spiking.tilings import Part, Tiling
from mapper.spiking.usage import CoreLimits, FanIn, joint_words

Int64 = NDArray[np.int64]
MOST_TRIALS = 1500  # packings of a search
MOST_CHECKS = 1 << 21  # pairs of a part and a core that are compared in a search


class CoreContent(NamedTuple):
    """The parts of a core, and the use of its memories.

    keys : population, tiling and tile of each part
    sources : ids, ascending
    """

    keys: tuple[tuple[int, int, int], ...]
    parts: tuple[Part, ...]
    neurons: int
    sources: Int64
    words: int
    profiles: int
    packets: float


Cost = tuple[int, float]  # cores, and packets per tick times list words


@dataclass(eq=False)
class Packer:
    """Packs parts within limits.

    rate : spikes per tick of each neuron and input
    """

    fan_ins: Sequence[FanIn]
    limits: CoreLimits
    rate: Floats
    checks: int = 0
    _joined: dict[tuple[tuple[int, int, int], ...], CoreContent | None] = field(
        default_factory=dict
    )

    def pack(self, tilings: Sequence[Sequence[Tiling]], choice: Sequence[int]) -> list[CoreContent]:
        """Return the contents of cores that hold the chosen tiling of each population."""
        parts = [
            _alone((population, number, tile), part)
            for population, number in enumerate(choice)
            for tile, part in enumerate(tilings[population][number].parts)
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
        used = (content.neurons, content.sources.size, content.words)
        return max(each / limit for each, limit in zip(used, self.limits, strict=False))

    def _join(self, core: CoreContent, part: CoreContent) -> CoreContent | None:
        """Return a core with one more part, None if it does not fit."""
        limits = self.limits
        if (
            core.neurons + part.neurons > limits.neurons
            or core.words + part.words > limits.words
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
            if words > self.limits.words:
                return None
        return CoreContent(
            core.keys + part.keys,
            parts,
            core.neurons + part.neurons,
            sources,
            words,
            core.profiles | part.profiles,
            float(self.rate[sources].sum()),
        )


def pack_cores(packer: Packer, tilings: Sequence[Sequence[Tiling]]) -> list[CoreContent]:
    """Return the contents of cores with the best tiling of each population that is found."""
    choice = [0] * len(tilings)
    best = packer.pack(tilings, choice)
    cost = _cost(best)
    trials, improved = 0, True
    while improved:
        improved = False
        for group, numbers in _exchanges(tilings):
            if trials >= MOST_TRIALS or packer.checks >= MOST_CHECKS:
                return best
            tried = list(choice)
            for population, number in zip(group, numbers, strict=True):
                tried[population] = number
            if tried == choice:
                continue
            trials += 1
            found = packer.pack(tilings, tried)
            if _cost(found) < cost:
                choice, best, cost, improved = tried, found, _cost(found), True
    return best


def _cost(cores: Sequence[CoreContent]) -> Cost:
    packets, words = sum(each.packets for each in cores), sum(each.words for each in cores)
    return len(cores), round(packets * words, 6)  # a sum in another order is the same cost


def _exchanges(
    tilings: Sequence[Sequence[Tiling]],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield one or two populations, and other tilings of them."""
    for size in (1, 2):
        for group in combinations(range(len(tilings)), size):
            for numbers in product(*(range(len(tilings[each])) for each in group)):
                yield group, numbers


def _alone(key: tuple[int, int, int], part: Part) -> CoreContent:
    return CoreContent(
        (key,), (part,), part.neurons.size, part.sources, part.words, part.profiles, part.packets
    )
