"""Random numbers of a network: streams for each purpose, derived only from the seed.

In version 2 each chunk of a purpose has a separate stream, so any thread can draw any chunk. The
generator is Philox, which is designed for this: the key holds seed and purpose, the upper word of
the counter the chunk. J. K. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
In version 1 a purpose has one stream, drawn in order by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError

CHUNK = 1 << 18  # draws per stream; a few arrays of this length fit in the cache of a core
VERSIONS = (1, 2)
NETWORK, NAMES = 0, 1  # uses of a seed


class Stream(Protocol):
    """The random numbers of one purpose."""

    def of(self, chunk: int) -> np.random.Generator:
        """Return the generator of a chunk; call once per chunk, use it before the next call."""


class _InOrder:
    """One generator for all chunks, which must be drawn in order."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._generator = np.random.default_rng(seed)

    def of(self, chunk: int) -> np.random.Generator:
        return self._generator


class _ByChunk:
    """A separate generator per chunk, in any order, on any thread."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._key = seed.generate_state(2, np.uint64)

    def of(self, chunk: int) -> np.random.Generator:
        counter = np.array([0, 0, 0, chunk], np.uint64)
        return np.random.Generator(np.random.Philox(counter=counter, key=self._key))


@dataclass(frozen=True, slots=True)
class Draws:
    """Source of all random numbers of a network.

    seed : >= 0; version : one of `VERSIONS`
    Raises `BadInputError` for other values.
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
        """Return whether chunks may be drawn in any order."""
        return self.version > 1

    def stream(self, purpose: int) -> Stream:
        """Return the stream of a purpose, from its beginning."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(NETWORK, purpose))
        return _ByChunk(seed) if self.by_chunk else _InOrder(seed)

    def names(self, neurons: int) -> NDArray[np.int32]:
        """Return the shuffled id of each neuron, shape (neurons,)."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(NAMES,))
        names = np.arange(neurons, dtype=np.int32)
        np.random.default_rng(seed).shuffle(names)
        return names


def ranges(count: int, step: int = 0) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) of consecutive chunks of ``0 .. count-1``; `step` 0 is `CHUNK`."""
    step = step or CHUNK
    return ((first, min(first + step, count)) for first in range(0, count, step))


def spike_rates(stream: Stream, neurons: int, mean: float) -> NDArray[np.int32]:
    """Return 1 + floor(Exp(mean)) for each neuron, shape (neurons,)."""
    rates = np.empty(neurons, np.int32)
    for chunk, (first, last) in enumerate(ranges(neurons)):
        rates[first:last] = stream.of(chunk).exponential(mean, last - first).astype(np.int32)
    rates += 1
    return rates
