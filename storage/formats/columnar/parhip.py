"""ParHIP binary graphs, as KaHIP (user guide, "ParHIP graph format") and KaMinPar read them.

Little-endian words of 64 bits: ``version n m``, then n + 1 file positions where the list of each
vertex starts (the last one is the end of the lists), the m entries of the lists, from 0, then n
vertex weights and m edge weights. Bit 0 of the version is set if edge weights are omitted, bit 1 if
vertex weights are omitted. m counts each edge at both of its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.mirror import Mirror, find_unmatched, load_mirrored
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import SIZE

HEADER_BYTES = 24
NO_EDGE_WEIGHTS, NO_VERTEX_WEIGHTS = 1, 2
LISTS = 1 << 16  # starts of lists read at a time
ENTRIES = 1 << 18

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Counts from the header, and byte offsets of the parts of the file, 0 if omitted."""

    vertices: int
    entries: int
    lists: int
    sizes: int
    weights: int
    end: int


class ParhipFile:
    """An open file with a valid header and length. Raises `BadInputError` if it is invalid."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self.layout = self._read_layout()
        self.vertices = self.layout.vertices
        self.provenance = {"format": "parhip", "source": path.name}
        self._read = 0  # entries

    @property
    def fraction(self) -> float:
        return self._read / self.layout.entries

    def _read_layout(self) -> FileLayout:
        length = self._file.seek(0, 2)
        if length < HEADER_BYTES:
            raise BadInputError(f"{self.path}: has {length} bytes; a ParHIP header alone has 24")
        self._file.seek(0)
        version, n, m = np.fromfile(self._file, "<u8", 3).tolist()
        if version > (NO_EDGE_WEIGHTS | NO_VERTEX_WEIGHTS):
            raise BadInputError(
                f"{self.path}: header: version is {version}; it must be 0 to 3 (words of 64 bits), "
                "or name another --format"
            )
        if not 0 < n <= MAX_VERTICES:
            raise BadInputError(f"{self.path}: header: {n} vertices; give 1 to {MAX_VERTICES}")
        lists = HEADER_BYTES + 8 * (n + 1)
        sizes = lists + 8 * m
        weights = sizes + (0 if version & NO_VERTEX_WEIGHTS else 8 * n)
        end = weights + (0 if version & NO_EDGE_WEIGHTS else 8 * m)
        if length != end:
            raise BadInputError(
                f"{self.path}: has {length} bytes; {n} vertices and {m} entries need {end}; "
                "is the file complete?"
            )
        return FileLayout(
            n, m, lists,
            0 if version & NO_VERTEX_WEIGHTS else sizes,
            0 if version & NO_EDGE_WEIGHTS else weights,
            end,
        )  # fmt: skip

    def _words(self, offset: int, count: int, first: int, highest: int, what: str) -> Int64:
        """Read numbers; `first` is the index of the first one, also used in messages."""
        self._file.seek(offset + 8 * first)
        words = np.fromfile(self._file, "<u8", count)
        if words.size < count:
            raise BadInputError(f"{self.path}: {what} {first + words.size} is truncated")
        wrong = np.flatnonzero(words > np.uint64(highest))
        if wrong.size:
            at = int(wrong[0])
            raise BadInputError(
                f"{self.path}: {what} {first + at} (from 0): {words[at]} is outside 0..{highest}"
            )
        return words.astype(np.int64)

    def attributes(self) -> Iterator[tuple[str, Int64]]:
        """Yield the vertex weights, unless they are omitted."""
        start, n = self.layout.sizes, self.vertices
        if start:
            yield SIZE, self._words(start, n, 0, 2**63 - 1, "weight of vertex")

    def check(self, mirror: Mirror) -> None:
        """Do nothing: the length of the file has confirmed the number of entries."""

    def refuse_unmatched(self, folder: Path, memory: int) -> None:
        found = find_unmatched(self.vertices, self.edges(), folder, memory)
        if found is None:
            return  # one end splits the weight over repeated entries
        u, v, there, back = found
        fault = f"edge {u} {v} weighs {there} at {u} and {back} at {v}"
        if there is None or back is None:
            lists, lacks = (v, u) if there is None else (u, v)
            fault = f"vertex {lists} lists {lacks}, but {lacks} does not list {lists}"
        raise BadInputError(f"{self.path}: {fault}; list each edge at both ends with one weight")

    def edges(self) -> Iterator[tuple[Int64, Int64, Int64]]:
        """Yield all entries: vertex, neighbour, weight."""
        layout = self.layout
        n = layout.vertices
        for first in range(0, n, LISTS):
            count = min(LISTS, n - first) + 1
            starts = self._words(HEADER_BYTES, count, first, layout.end, "start of list")
            places = (starts - layout.lists) // 8
            wrong = (np.diff(starts) < 0) | (starts[1:] % 8 > 0) | (places[1:] > layout.entries)
            if first == 0:
                wrong[0] |= places[0] != 0
            if first + count > n:
                wrong[-1] |= places[-1] != layout.entries
            if wrong.any():
                at = int(np.flatnonzero(wrong)[0])
                raise BadInputError(
                    f"{self.path}: list of vertex {first + at} (from 0): from byte {starts[at]} to "
                    f"{starts[at + 1]}; the lists must be contiguous"
                )
            vertices = np.arange(first, first + count - 1)
            for low in range(int(places[0]), int(places[-1]), ENTRIES):
                high = min(low + ENTRIES, int(places[-1]))
                inside = np.clip(places, low, high)
                counts: Int64 = inside[1:] - inside[:-1]
                owner = np.repeat(vertices, counts)
                other = self._words(layout.lists, high - low, low, n - 1, "entry")
                weight = np.ones(high - low, np.int64)
                if layout.weights:
                    weight = self._words(
                        layout.weights, high - low, low, 2**63 - 1, "weight of entry"
                    )
                self._read = high
                yield owner, other, weight


def load(job: ImportJob) -> NetworkMeta:
    """Convert a ParHIP file to an undirected network file; vertex weights become sizes.

    Raises `BadInputError` with the place of the first fault. Self-loops are dropped and counted.
    """
    with job.source.open("rb") as file:
        return load_mirrored(job, ParhipFile(job.source, file))
