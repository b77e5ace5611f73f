"""Sparse ids made dense: edges wait in a file until all ids are known.

The ids are in a hash table of plain integers: no Python objects, no sorting of what was seen.
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
from storage.files import write_error, writing
from storage.formats.losses import Magnitudes
from storage.graph import MAX_VERTICES
from storage.meta import NetworkMeta
from storage.network import ID, POPULATION, SIZE
from storage.writer import NetworkWriter

SMALLEST_TABLE = 1 << 12
_EMPTY = -1


_ID_BITS = 31  # what the number of an id takes: there are at most MAX_VERTICES
_Numbers = NDArray[np.int32]
Weight = NDArray[np.int64] | NDArray[np.float64]
_Spooled = tuple[_Numbers, _Numbers, Weight | None, NDArray[np.int64]]


@njit(cache=True, nogil=True)
def _place(table, key):
    """Where `key` is in a table of a power of two of places, or the free place for it."""
    mask = table.size - 1
    # the finaliser of splitmix64 spreads ids of any pattern; bits above 63 are cut off
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    at = np.int64((mixed ^ (mixed >> np.uint64(31))) & np.uint64(mask))
    while table[at] != _EMPTY and table[at] != key:
        at = (at + 1) & mask
    return at


@njit(cache=True, nogil=True)
def _insert(table, ids, room):
    """Put ids into the table until `room` of them were new; (new ones, ids looked at)."""
    fresh = 0
    for i in range(ids.size):
        at = _place(table, ids[i])
        if table[at] == _EMPTY:
            if fresh >= room:
                return fresh, i
            table[at] = ids[i]
            fresh += 1
    return fresh, ids.size


@njit(cache=True, nogil=True)
def _number(table, numbers, ids):
    """Give the id at place i of `ids` the number i."""
    for i in range(ids.size):
        numbers[_place(table, ids[i])] = i


@njit(cache=True, nogil=True)
def _look_up(table, numbers, ids, out):
    """The numbers of ids, all of which are in the table."""
    for i in range(ids.size):
        out[i] = numbers[_place(table, ids[i])]


class IdTable:
    """A set of whole numbers, not negative, that then counts them in increasing order.

    Takes at most 48 bytes per number, for they are in an open hash table, half full at most.
    """

    def __init__(self) -> None:
        self._table = np.full(SMALLEST_TABLE, _EMPTY, np.int64)
        self._numbers = np.empty(0, np.int32)
        self.size = 0

    def add(self, ids: NDArray[np.int64]) -> None:
        with np.errstate(over="ignore"):  # the hash is modulo 2^64, also with the JIT off
            while ids.size:
                fresh, seen = _insert(self._table, ids, self._table.size // 2 - self.size)
                self.size += fresh
                ids = ids[seen:]
                if ids.size:
                    old = self._table[self._table != _EMPTY]
                    self._table = np.full(2 * self._table.size, _EMPTY, np.int64)
                    _insert(self._table, old, old.size)

    def sorted(self) -> NDArray[np.int64]:
        """All numbers, increasing, shape (size,)."""
        ids = self._table[self._table != _EMPTY]
        ids.sort()
        return ids

    def number(self, ids: NDArray[np.int64]) -> None:
        """Count through `ids`, which hold every number of the set once."""
        self._numbers = np.empty(self._table.size, np.int32)
        with np.errstate(over="ignore"):
            _number(self._table, self._numbers, ids)

    def numbers(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """What `number` made of these ids, shape (ids,)."""
        out = np.empty(ids.size, np.int32)
        with np.errstate(over="ignore"):
            _look_up(self._table, self._numbers, ids, out)
        return out


def whole_numbers(names: list[str]) -> NDArray[np.int64] | None:
    """The numbers that all names are, if each is one below 2^63 in its only form; else None."""
    for name in names:
        plain = name.isascii() and name.isdigit() and len(name) <= 19
        if not plain or (name[0] == "0" and len(name) > 1) or int(name) >= 2**63:
            return None
    return np.array(list(map(int, names)), np.int64)


class EdgeSpool(Closing):
    """Takes edges between any ids, then writes the network of their compacted ids.

    New ids follow the increasing order of the original ones, which become the attribute `id`.
    Where ids count through populations, a neuron is an id in a population: those of a population
    are together, and the attribute `population` names it.
    The edges lie in a temporary file beside the destination, the distinct ids in memory.
    """

    def __init__(self, destination: Path, source: Path) -> None:
        self.destination, self.source = destination, source
        folder = destination.absolute().parent
        try:
            # a file without a name: whatever happens to this process, nothing stays behind
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise write_error(folder, error) from error
        self._folder = folder
        self._chunks: list[tuple[int, np.dtype[Any] | None, bool]] = []
        self._table = IdTable()
        self._magnitudes = Magnitudes()
        self.edges = 0

    def know(self, ids: NDArray[np.int64]) -> None:
        """Have neurons of these ids, whether edges name them or not."""
        self._table.add(ids)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The distinct ids so far, increasing."""
        return self._table.sorted()

    def add(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        weight: Weight | None,
        populations: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> None:
        """Add edges; arrays of shape (edges,), ids not negative.

        A weight not given is 1; of one that is negative the magnitude counts.
        populations : of sources and targets, numbered from 0; given for all edges or for none
        """
        if not source.size:
            return
        weight = self._magnitudes.of(weight)
        with writing(self._folder):
            for array in (source, target, *(populations or ()), weight):
                if array is not None:
                    self._file.write(np.ascontiguousarray(array).data)
        self.edges += source.size
        kind = None if weight is None else weight.dtype
        self._chunks.append((source.size, kind, populations is not None))
        self._table.add(source)
        self._table.add(target)
        if self._table.size > MAX_VERTICES:
            raise BadInputError(
                f"{self.source}: more than {MAX_VERTICES} different ids; split the network"
            )

    def write(
        self,
        provenance: dict[str, Any],
        memory: int,
        threads: int | None = None,
        *,
        names: list[str] | None = None,
        by_number: bool = False,
        undirected: bool = False,
        sizes: NDArray[np.int64] | None = None,
        populations: list[str] | None = None,
    ) -> NetworkMeta:
        """Write the network to the destination; raises `BadInputError` if there was no edge.

        names : where ids 0 .. n-1 stand for names: these, which become the labels of `id`, or if
            all are whole numbers its values
        by_number : then neurons are in increasing order of them, not in that of the ids
        sizes : of the neurons, in the order that they get, shape (ids,)
        populations : the names of all; those of whole numbers come in increasing order
        """
        with writing(self._folder):
            self._file.flush()
        ids = self.ids
        if not ids.size:
            raise BadInputError(f"{self.source}: no neurons; the file lists no connection")
        original, labels = ids, names
        whole = None if names is None else whole_numbers(names)
        if whole is not None:
            ids = np.argsort(whole) if by_number else ids
            original, labels = whole[ids], None
        self._table.number(ids)
        members = None if populations is None else self._members(populations)
        if members is not None:
            original = original[members.place]
        with NetworkWriter(
            self.destination,
            original.size,
            undirected=undirected,
            memory=memory,
            threads=threads,
            provenance={"source": self.source.name, **provenance, **self._magnitudes.facts},
        ) as writer:
            for source, target, weight, codes in self._spooled():
                if members is not None:
                    source, target = members.neurons(source, target, codes)
                writer.add(source, target, weight)
            writer.set_attribute(ID, original, labels=labels)
            if members is not None:
                writer.set_attribute(POPULATION, members.population, labels=members.names)
            if sizes is not None:
                writer.set_attribute(SIZE, sizes)
            return writer.finish()

    def _members(self, populations: list[str]) -> Members:
        """The neurons that the edges name, each by its population and the number of its id."""
        members = Members(populations)
        for source, target, _, codes in self._spooled():
            members.add(source, target, codes)
        members.number()
        if members.place.size > MAX_VERTICES:
            raise BadInputError(
                f"{self.source}: more than {MAX_VERTICES} neurons; split the network"
            )
        return members

    def _spooled(self) -> Iterator[_Spooled]:
        """Numbers of sources and targets, weights, and populations of both (none: no rows)."""
        self._file.seek(0)
        for count, kind, grouped in self._chunks:
            ends = np.frombuffer(self._file.read(16 * count), np.int64)
            codes = np.frombuffer(self._file.read(16 * count if grouped else 0), np.int64)
            weight = None if kind is None else np.frombuffer(self._file.read(8 * count), kind)
            new = self._table.numbers(ends)
            yield new[:count], new[count:], weight, codes.reshape(2, -1)

    def close(self) -> None:
        self._file.close()


class Members:
    """Neurons that are known by a population and the number of an id in it.

    names : of the populations, in the order that they get
    population, place : of each neuron after `number`: its population and the number of its id
    """

    def __init__(self, names: list[str]) -> None:
        whole = whole_numbers(names)
        order = np.arange(len(names)) if whole is None else np.argsort(whole)
        self.names = [names[i] for i in order.tolist()]
        self._rank = np.argsort(order)
        self._table = IdTable()
        self.population = self.place = np.empty(0, np.int64)

    def add(self, source: _Numbers, target: _Numbers, codes: NDArray[np.int64]) -> None:
        """Have these neurons; codes : shape (2, edges), populations as they were numbered."""
        for numbers, own in zip((source, target), codes, strict=True):
            self._table.add(self._keys(numbers, own))

    def number(self) -> None:
        """Count through the neurons, population by population."""
        keys = self._table.sorted()
        self._table.number(keys)
        self.population, self.place = keys >> _ID_BITS, keys & ((1 << _ID_BITS) - 1)

    def neurons(
        self, source: _Numbers, target: _Numbers, codes: NDArray[np.int64]
    ) -> tuple[_Numbers, _Numbers]:
        """Their numbers."""
        first, second = (
            self._table.numbers(self._keys(numbers, own))
            for numbers, own in zip((source, target), codes, strict=True)
        )
        return first, second

    def _keys(self, numbers: _Numbers, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return (self._rank[codes] << _ID_BITS) | numbers
