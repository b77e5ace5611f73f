"""Network files `net.bin` as a `Graph`, with attributes (docs/format.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.address import RemotePath
from storage.blobs.readahead import DEFAULT_BUFFER
from storage.closing import Closing
from storage.errors import CorruptError
from storage.graph import Block, Csr, Graph
from storage.parallel import map_ordered
from storage.store.codec import decode_block, decode_lists, decode_numbers, decode_shares
from storage.store.index import numbered
from storage.store.meta import MEMBER, NetworkMeta, most_meta_bytes
from storage.store.sharded import BLOCKS, WEIGHTS, is_sharded, open_members
from storage.store.weights import Synapses, decode_weights

SIZE, RATE, ID = "size", "rate", "id"  # attributes with a special meaning
POPULATION = "population"  # distinguishes neurons with equal ids

Decoded = TypeVar("Decoded")


def block_member(index: int) -> str:
    return numbered(BLOCKS, index)


def weights_member(index: int) -> str:
    return numbered(WEIGHTS, index)


def attribute_member(name: str, index: int) -> str:
    return numbered(f"attributes/{name}/", index)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Values of a vertex attribute: real value = stored * unit.

    stored : ndarray[int64], shape (vertices,), may be negative; ndarray[float64] with unit 1 if
        the file stores float64
    labels : names that the values index, or None
    """

    stored: NDArray[Any]
    unit: float
    labels: list[str] | None

    @property
    def values(self) -> NDArray[Any]:
        return self.stored if self.unit == 1.0 else self.stored * self.unit


def is_network_name(path: Path) -> bool:
    """Return whether to open a path as a network file instead of importing it.

    True for any address, and for a folder with the description of a network in several files.
    """
    if path.suffix.lower() == ".bin" or isinstance(path, RemotePath):
        return True
    if path.is_dir():
        return is_sharded(path)
    if path.suffix.lower() == ".npz" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


class NetworkFile(Graph, Closing):
    """An open network file. Blocks can be read in any order and from several threads."""

    def __init__(self, path: Path, buffer: int = DEFAULT_BUFFER) -> None:
        """path : of a file, of a folder of several files, or the address of either; buffer : bytes
        to prefetch from an address"""
        self.path = path
        self._archive = open_members(path, buffer)
        try:
            if MEMBER not in self._archive:
                raise CorruptError(f"{path}: is a zip archive without {MEMBER}, not a network")
            most = most_meta_bytes(self._archive.find(MEMBER).packed)
            self.meta = NetworkMeta.from_json(self._archive.read(MEMBER, most), str(path))
            self.vertices = self.meta.neurons
            self.connections = self.meta.connections
            self.block_size = self.meta.block_size
            self.undirected = self.meta.undirected
            self._check_sizes()
        except BaseException:
            self._archive.close()
            raise

    def _check_sizes(self) -> None:
        """Raise `CorruptError` if a block is missing or has an impossible size; reads no block.

        A small block could claim to inflate to gigabytes.
        """
        whole, rest = divmod(self.vertices, self.block_size)
        self._archive.require_sizes(BLOCKS, range(whole), *self.meta.block_bytes(self.block_size))
        if rest:
            self._archive.require_size(block_member(whole), *self.meta.block_bytes(rest))
        if self.meta.synaptic is not None:
            most = self.meta.synaptic.largest_bytes
            self._archive.require_sizes(WEIGHTS, range(self.block_count), 2, most)

    def read_block(self, index: int) -> Block:
        first, last = self.block_bounds(index)
        name = block_member(index)
        return decode_block(
            self._archive.read(name),
            first,
            last - first,
            self.vertices,
            default_size=self.meta.default_size,
            default_weight=self.meta.default_weight,
            where=f"{self.path}: member {name}",
        )

    def read_undirected(self, index: int) -> Csr:
        return self._decoded(index, partial(decode_lists, outgoing=False))

    def read_outgoing(self, index: int) -> Csr:
        return self._decoded(index, partial(decode_lists, outgoing=True))

    def read_shares(self, index: int) -> tuple[Csr, NDArray[np.int64]]:
        """Return `read_undirected(index)` and the outgoing part of each weight.

        See `storage.store.codec.decode_shares`.
        """
        return self._decoded(index, decode_shares)

    def _decoded(self, index: int, decode: Callable[..., Decoded]) -> Decoded:
        first, last = self.block_bounds(index)
        name = block_member(index)
        return decode(
            self._archive.read(name),
            first,
            last - first,
            self.vertices,
            default_weight=self.meta.default_weight,
            where=f"{self.path}: member {name}",
        )

    def read_synapses(self, index: int) -> Synapses:
        """Return the synapses of the sources of a block with signed weights and self-loops.

        In an undirected network each edge is a synapse in both directions. Raises `KeyError` if
        the network has no synaptic weights, `CorruptError` if their bytes are damaged.
        """
        if self.meta.synaptic is None:
            raise KeyError("the network has no synaptic weights")
        first, last = self.block_bounds(index)
        name = weights_member(index)
        indptr, ids, _ = self.read_outgoing(index)
        source = np.repeat(np.arange(first, last), np.diff(indptr))
        where = f"{self.path}: member {name}"
        return decode_weights(self._archive.read(name), (first, last), source, ids, where)

    def vertex_sizes(self) -> NDArray[np.int64]:
        """Return the capacity that each neuron uses; default 1."""
        if SIZE not in self.meta.attributes:
            return np.ones(self.vertices, np.int64)
        return self.attribute(SIZE).stored

    def attribute(self, name: str) -> Attribute:
        """Return all values of an attribute; raise `KeyError` if the network does not have it."""
        about = self.meta.attributes[name]
        if about.real:
            return Attribute(self._real(name), 1.0, None)
        stored = np.empty(self.vertices, np.int64)
        for index, part in self._attribute_parts():
            member = attribute_member(name, index)
            count = part.stop - part.start
            self._archive.require_size(member, *self.meta.attribute_bytes(name, count))
            stored[part] = decode_numbers(
                self._archive.read(member), count, f"{self.path}: member {member}"
            )
        if about.labels is not None and stored.size and stored.max() >= len(about.labels):
            raise CorruptError(f"{self.path}: attribute {name!r} has values outside its labels")
        if not math.isfinite(float(stored.max(initial=0)) * about.unit):
            raise CorruptError(f"{self.path}: attribute {name!r} exceeds 1e308; scale it down")
        stored += about.offset
        return Attribute(stored, about.unit, about.labels)

    def _real(self, name: str) -> NDArray[np.float64]:
        values = np.empty(self.vertices)
        for index, part in self._attribute_parts():
            member = attribute_member(name, index)
            count = part.stop - part.start
            self._archive.require_size(member, *self.meta.attribute_bytes(name, count))
            values[part] = np.frombuffer(self._archive.read(member), "<f8")
        if not np.isfinite(values).all():
            raise CorruptError(f"{self.path}: attribute {name!r} holds values that are not finite")
        return values

    def _attribute_parts(self) -> Iterator[tuple[int, slice]]:
        step = self.meta.attribute_block_size
        for index, first in enumerate(range(0, self.vertices, step)):
            yield index, slice(first, min(first + step, self.vertices))

    def check(self, threads: int = 1) -> None:
        """Raise `CorruptError` if any relevant byte differs from the bytes written."""
        for _ in map_ordered(self._archive.read, self._archive.names(), threads):
            pass

    @property
    def identity(self) -> tuple[int, int]:
        """File size in bytes, and the CRC-32 of `meta.json`: independent of the location."""
        return self._archive.size, self._archive.find(MEMBER).crc

    def member(self, name: str) -> bytes:
        """Return the bytes of a member; raise `CorruptError` if it is missing or damaged."""
        return self._archive.read(name)

    def stored_bytes(self, index: int | None = None) -> int:
        """Return the compressed bytes of a block of connections, or of all blocks."""
        if index is None:
            return self._archive.packed_bytes(BLOCKS)
        return self._archive.find(block_member(index)).packed

    def close(self) -> None:
        self._archive.close()
