"""External sort of synaptic weights: signed, by source and target, including self-loops.

It uses the sort of connections (`sorter`) with other record values: a weight is a float64, or a
decimal with its sign in the lowest bit. Repeated synapses of a pair are added in input order, in
float64, so sums do not depend on threads or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.sorting.radix import sort_pairs
from storage.sorting.ranges import gather_range
from storage.sorting.runs import Run, RunStore
from storage.sorting.sorter import BYTES_PER_ENTRY, ConnectionSorter

Result = TypeVar("Result")


class Weights(NamedTuple):
    """Merged synapses of consecutive sources, by source, then by target.

    first : id of the first source
    source, target : ndarray[int64], shape (pairs,)
    weight : ndarray[float64], shape (pairs,)
    size : ndarray[int64], shape (pairs,), number of synapses merged into each pair
    """

    first: int
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: NDArray[np.float64]
    size: NDArray[np.int64]

    def part(self, first: int, pairs: slice) -> Weights:
        """Return some of the pairs, of the sources from `first`."""
        _, source, target, weight, size = self
        return Weights(first, source[pairs], target[pairs], weight[pairs], size[pairs])


class WeightSorter(ConnectionSorter):
    """Collects synapses with signed weights and returns them by blocks of sources."""

    def __init__(self, vertices: int, folder: Path, memory: int, threads: int) -> None:
        super().__init__(vertices, folder, memory, threads, signed=True)

    def map_weights(self, work: Callable[[Weights], Result], block_size: int) -> Iterator[Result]:
        """Yield ``work(weights)`` for all blocks of `block_size` sources, in order, in parallel.

        Can be called once.
        """

        def done(first: int, last: int, entries: int) -> list[Result]:
            found = _merged(self._store, first, last, entries)
            starts = range(first, last, block_size)
            ends = np.searchsorted(found.source, [*starts, last])
            parts = zip(starts, map(slice, ends[:-1], ends[1:]), strict=True)
            return [work(found.part(start, part)) for start, part in parts]

        return self._map_ranges(done, block_size, 2 * BYTES_PER_ENTRY)


def _merged(store: RunStore, first: int, last: int, entries: int) -> Weights:
    """Return the synapses of sources `first` .. `last`-1; entries : estimated number."""
    keys, values = np.empty(entries, np.int64), np.empty(entries, np.int64)
    at = 0
    for run in store.runs:
        start = at
        keys, values, at = gather_range(store, run, first, last, (1, 0), keys, values, at)
        values[start:at] = _weights(run, values[start:at]).view(np.int64)
    keys, values = sort_pairs(keys[:at], values[:at])
    weight: NDArray[np.float64] = values.view(np.float64)
    new = np.append(True, keys[1:] != keys[:-1])[: keys.size]
    size = np.diff(np.append(np.flatnonzero(new), keys.size))
    if size.size < keys.size:
        # bincount adds sequentially, as documented; reduceat does not
        weight = np.bincount(np.cumsum(new) - 1, weights=weight).astype(np.float64, copy=False)
        keys = keys[new]
    mask = (1 << store.bits) - 1
    return Weights(first, first + (keys >> (store.bits + 1)), keys >> 1 & mask, weight, size)


def _weights(run: Run, stored: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weights encoded in a run's records."""
    if run.raw:
        return stored.view(np.float64)
    magnitude = stored >> 1
    real = magnitude / 10.0**run.decimals
    return np.where(stored & 1, -real, real)
