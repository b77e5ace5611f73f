"""External sort of connections: in any order in, in blocks of consecutive vertices out.

Connections collect in a buffer as (key, weight) pairs, the key being owner, other end and
direction in one integer. A full buffer is radix-sorted and becomes a run on disk. At the end
ranges of vertices that fit the buffer are cut out of all runs (a binary search in each), sorted
together and merged. Each connection is written once and read once, whatever the network's size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.files import write_error
from storage.graph import MAX_VERTICES, Block
from storage.quantise import to_units
from storage.radix import sort_pairs

BYTES_PER_ENTRY = 64  # buffer, concatenation, the sort's second copy and the merged block
MAX_TOTAL = 2.0**62


@njit(cache=True, nogil=True)
def _merge_sorted(keys, values, bits, first, indptr, ids, weights, incoming, sizes):
    """Turn sorted pairs into connection lists; equal keys add up. Returns the entries kept."""
    mask = (np.int64(1) << bits) - 1
    at = 0
    previous = np.int64(-1)
    vertex = 0
    indptr[0] = 0
    for i in range(keys.size):
        key = keys[i]
        if key == previous:
            weights[at - 1] += values[i]
            sizes[at - 1] += 1
            continue
        previous = key
        owner = (key >> (bits + 1)) - first
        while vertex < owner:
            vertex += 1
            indptr[vertex] = at
        ids[at] = (key >> 1) & mask
        weights[at] = values[i]
        incoming[at] = key & 1
        sizes[at] = 1
        at += 1
    while vertex < indptr.size - 1:
        vertex += 1
        indptr[vertex] = at
    return at


class ConnectionSorter(Closing):
    """Collects connections of a graph and gives them back as `Block`s, repeated ones added up.

    vertices : number of vertices
    folder : where runs are put while they are needed
    memory : bytes that the sort may use
    """

    def __init__(self, vertices: int, folder: Path, memory: int = 256 << 20) -> None:
        if vertices > MAX_VERTICES:
            raise BadInputError(f"{vertices} vertices: at most {MAX_VERTICES} are supported")
        self.vertices = vertices
        self.entries = 0
        self.bytes_spilled = 0
        self._bits = max(1, (vertices - 1).bit_length())
        self._capacity = max(1024, memory // BYTES_PER_ENTRY)
        self._folder = folder
        self._runs: list[tuple[NDArray[np.int64], NDArray[np.int64], np.dtype[Any]]] = []
        self._chunks: list[tuple[NDArray[np.int64], NDArray[Any]]] = []
        self._held = 0
        self._total = 0.0

    def add(
        self,
        owner: NDArray[np.integer],
        other: NDArray[np.integer],
        incoming: int,
        weight: NDArray[np.integer] | NDArray[np.floating],
    ) -> None:
        """Add entries to the lists of `owner`. All arrays have the shape (entries,).

        incoming : 1 if `other` is the source of the connection, else 0
        weight : not negative; all integer, or float64 to be quantised in `blocks`
        """
        if not owner.size:  # an empty run cannot be mapped
            return
        key = owner.astype(np.int64) << (self._bits + 1)
        key |= other.astype(np.int64) << 1
        key |= incoming
        kind = np.float64 if np.issubdtype(weight.dtype, np.floating) else np.int64
        if self._chunks and self._chunks[0][1].dtype != kind:
            self._spill()
        self._chunks.append((key, weight.astype(kind)))
        self._held += key.size
        self.entries += key.size
        with np.errstate(over="ignore"):  # an infinite total is refused in `blocks`
            self._total += float(weight.sum(dtype=np.float64))
        if self._held >= self._capacity:
            self._spill()

    def _sorted_buffer(self) -> tuple[NDArray[np.int64], NDArray[np.int64], np.dtype[Any]]:
        kind = self._chunks[0][1].dtype if self._chunks else np.dtype(np.int64)
        keys = np.concatenate([np.empty(0, np.int64), *(key for key, _ in self._chunks)])
        values = np.concatenate([np.empty(0, kind), *(value for _, value in self._chunks)])
        self._chunks.clear()
        self._held = 0
        return *sort_pairs(keys, values.view(np.int64)), kind

    def _spill(self) -> None:
        keys, values, kind = self._sorted_buffer()
        maps = []
        for array in (keys, values):
            try:
                # a file without a name: whatever happens to this process, nothing stays behind
                with tempfile.TemporaryFile(dir=self._folder) as file:
                    file.write(array.data)
                    file.flush()
                    maps.append(np.memmap(file, np.int64, "r"))
            except OSError as error:
                raise write_error(self._folder, error) from error
            self.bytes_spilled += array.nbytes
        self._runs.append((maps[0], maps[1], kind))

    def blocks(self, block_size: int, unit: float = 1.0) -> Iterator[tuple[Block, int]]:
        """Blocks of `block_size` vertices in order, each with its count of clamped weights.

        Weights become whole numbers of `unit` before repeated connections add up. Can be called
        once; raises `BadInputError` if the weights of the graph do not fit 62 bits together.
        """
        if self._total / unit >= MAX_TOTAL:
            raise BadInputError(
                "the sum of all weights, at both ends, is beyond 2^62; scale them down"
            )
        if self._chunks or not self._runs:
            keys, values, kind = self._sorted_buffer()
            self._runs.append((keys, values, kind))
        starts = np.append(np.arange(0, self.vertices, block_size), self.vertices)
        cuts = np.stack(
            [np.searchsorted(keys, starts << (self._bits + 1)) for keys, _, _ in self._runs]
        )
        load = cuts.sum(axis=0)
        block = 0
        while block < starts.size - 1:
            stop = int(np.searchsorted(load, load[block] + self._capacity, side="right")) - 1
            stop = max(stop, block + 1)
            yield from self._range(starts[block : stop + 1], cuts[:, [block, stop]], unit)
            block = stop

    def _range(
        self, starts: NDArray[np.int64], cuts: NDArray[np.int64], unit: float
    ) -> Iterator[tuple[Block, int]]:
        keys, values, clamped = [], [], 0
        for (run_keys, run_values, kind), (begin, end) in zip(self._runs, cuts, strict=True):
            keys.append(np.asarray(run_keys[begin:end]))
            stored, raised = to_units(np.asarray(run_values[begin:end]).view(kind), unit)
            values.append(stored)
            clamped += raised
        if len(keys) == 1:
            all_keys, all_values = keys[0], values[0]
        else:
            all_keys, all_values = sort_pairs(np.concatenate(keys), np.concatenate(values))
        inner = np.searchsorted(all_keys, starts << (self._bits + 1))
        for index in range(starts.size - 1):
            part = slice(inner[index], inner[index + 1])
            first, last = int(starts[index]), int(starts[index + 1])
            yield self._merge(all_keys[part], all_values[part], first, last - first), clamped
            clamped = 0

    def _merge(
        self, keys: NDArray[np.int64], values: NDArray[np.int64], first: int, count: int
    ) -> Block:
        indptr = np.empty(count + 1, np.int64)
        ids = np.empty(keys.size, np.int32)
        weights = np.empty(keys.size, np.int64)
        incoming = np.empty(keys.size, np.uint8)
        sizes = np.empty(keys.size, np.int64)
        used = _merge_sorted(keys, values, self._bits, first, indptr, ids, weights, incoming, sizes)
        repeated = used < keys.size
        return Block(
            first,
            indptr,
            ids[:used],
            weights[:used],
            incoming[:used],
            sizes[:used] if repeated else None,
        )

    def close(self) -> None:
        """Forget everything; the runs on disk go with the memory maps."""
        self._runs.clear()
        self._chunks.clear()
