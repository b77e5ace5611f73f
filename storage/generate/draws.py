"""Random numbers of a network: streams for each purpose, derived from the seed alone.

By version 2 each chunk of a purpose has a stream of its own, so that any thread draws any chunk.
The generator is Philox, whose streams are made for it: the key says seed and purpose, the upper
word of the counter the chunk. J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
SC 2011. By version 1 a purpose has one stream, which is drawn from in order by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError

CHUNK = 1 << 18  # draws of a stream; a few arrays of this length stay in the cache of a core
VERSIONS = (1, 2)
NETWORK, NAMES = 0, 1  # what the draws of a seed are for


class Stream(Protocol):
    """The random numbers of one purpose."""

    def of(self, chunk: int) -> np.random.Generator:
        """The generator of a chunk: to be asked for once, and drawn from before the next one's."""


class _InOrder:
    """One generator for all chunks, which have to come in order."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._generator = np.random.default_rng(seed)

    def of(self, chunk: int) -> np.random.Generator:
        return self._generator


class _ByChunk:
    """A generator for each chunk, in any order, by any thread."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._key = seed.generate_state(2, np.uint64)

    def of(self, chunk: int) -> np.random.Generator:
        counter = np.array([0, 0, 0, chunk], np.uint64)
        return np.random.Generator(np.random.Philox(counter=counter, key=self._key))


@dataclass(frozen=True, slots=True)
class Draws:
    """What the random numbers of a network follow from.

    seed : >= 0; version : of `VERSIONS`
    Raises `BadInputError` for any other.
    """

    seed: int
    version: int = max(VERSIONS)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInputError(f"seed is {self.seed}; it must be a whole number >= 0")
        if self.version not in VERSIONS:
            raise BadInputError(f"draws is {self.version}; it must be 1 or 2")

    @property
    def by_chunk(self) -> bool:
        """Whether chunks may be drawn in any order."""
        return self.version > 1

    def stream(self, purpose: int) -> Stream:
        """The numbers of a purpose, from their beginning."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(NETWORK, purpose))
        return _ByChunk(seed) if self.by_chunk else _InOrder(seed)

    def names(self, neurons: int) -> NDArray[np.int32]:
        """The new id of every neuron, shape (neurons,), where they are shuffled."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(NAMES,))
        names = np.arange(neurons, dtype=np.int32)
        np.random.default_rng(seed).shuffle(names)
        return names


def ranges(count: int, step: int = 0) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of consecutive chunks of ``0 .. count-1``; `step` 0 is `CHUNK`."""
    step = step or CHUNK
    return ((first, min(first + step, count)) for first in range(0, count, step))


def spike_rates(stream: Stream, neurons: int, mean: float) -> NDArray[np.int32]:
    """1 + floor(Exp(mean)) per neuron, shape (neurons,)."""
    rates = np.empty(neurons, np.int32)
    for chunk, (first, last) in enumerate(ranges(neurons)):
        rates[first:last] = stream.of(chunk).exponential(mean, last - first).astype(np.int32)
    rates += 1
    return rates
