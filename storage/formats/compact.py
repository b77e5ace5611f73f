"""Mapping of sparse ids to dense ones: edges are spooled to a file until all ids are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.distinct import DistinctIds, TemporaryNumbers
from storage.formats.losses import Magnitudes
from storage.formats.names import NameTable
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import ID, POPULATION

_ID_BITS = 31  # bits of a dense id: there are at most MAX_VERTICES
_Numbers = NDArray[np.int32]
Weight = NDArray[np.int64] | NDArray[np.float64]
_Group = tuple[list[int], np.dtype[Any] | None, bool]
_Spooled = tuple[_Numbers, _Numbers, Weight | None, NDArray[np.int64]]


def whole_numbers(names: list[str]) -> NDArray[np.int64] | None:
    """Return the names as int64 if each is a canonical number below 2^63, else None."""
    for name in names:
        plain = name.isascii() and name.isdigit() and len(name) <= 19
        if not plain or (name[0] == "0" and len(name) > 1) or int(name) >= 2**63:
            return None
    return np.array(list(map(int, names)), np.int64)


class EdgeSpool(Closing):
    """Collects edges between arbitrary ids, then writes the network with dense ids.

    Dense ids follow the increasing order of the original ids, which become the attribute `id`.
    If ids are per population, a neuron is an id in a population; neurons of a population are
    contiguous, and the attribute `population` names it.
    The edges are spooled to a temporary file in the destination folder, and so are the distinct
    ids if they do not fit in memory.
    """

    def __init__(self, job: ImportJob, names: NameTable | None = None) -> None:
        """job : its memory is used for ids and, once all are known, for the sort
        names : the names that ids index, if ids stand for names; they become the labels of the
            attribute `id`, or its values if all are whole numbers
        """
        self._job = job
        self._folder = job.destination.absolute().parent
        self._file = TemporaryNumbers(self._folder)
        self._chunks: list[tuple[int, np.dtype[Any] | None, bool]] = []
        self._names = names
        self.distinct = DistinctIds(self._folder, job.memory // 2)  # without names
        self._magnitudes = Magnitudes(job.keeps_weights)
        self.edges = 0

    def add(
        self,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        weight: Weight | None,
        populations: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    ) -> None:
        """Add edges; arrays of shape (edges,), ids not negative.

        A missing weight is 1; the magnitude of a negative weight is used.
        populations : of sources and targets, numbered from 0; given for all edges or for none
        """
        if not source.size:
            return
        weight = self._magnitudes.of(weight)
        for array in (source, target, *(populations or ()), weight):
            if array is not None:
                self._file.append(np.ascontiguousarray(array).view(np.int64))
        self.edges += source.size
        kind = None if weight is None else weight.dtype
        self._chunks.append((source.size, kind, populations is not None))
        if self._names is None:
            self.distinct.add(source)
            self.distinct.add(target)
            self._require_few(self.distinct.seen)

    def _require_few(self, count: int) -> None:
        if count > MAX_VERTICES:
            raise BadInputError(
                f"{self._job.source}: more than {MAX_VERTICES} different ids; split the network"
            )

    def write(
        self,
        provenance: dict[str, Any],
        *,
        by_number: bool = False,
        undirected: bool = False,
        attributes: Iterable[tuple[str, NDArray[Any], Sequence[str] | None]] = (),
        populations: list[str] | None = None,
    ) -> NetworkMeta:
        """Write the network to the destination; raise `BadInputError` if there was no edge.

        by_number : order neurons whose names are whole numbers by increasing number
        attributes : name, values in the order of the new ids, shape (ids,), and labels or None
        populations : names of all populations; whole numbers are sorted in increasing order
        """
        ids: _Ids = self.distinct
        if self._names is not None:
            ids = NamedIds(self._names.names(), by_number)
        if not ids.size:
            raise BadInputError(f"{self._job.source}: no neurons: the file lists no connections")
        self._require_few(ids.size)
        left = self._job.memory // 2 if self._names is None else self._names.left
        job = self._job._replace(memory=left)
        with ExitStack() as stack:
            members = None
            if populations is not None:
                members = stack.enter_context(self._members(ids, populations))
            neurons = ids.size if members is None else members.size
            writer = stack.enter_context(job.writer(neurons, undirected=undirected))
            for source, target, weight, codes in self._spooled(ids):
                if members is not None:
                    source, target = members.neurons(source, target, codes)
                writer.add(source, target, weight)
            labels = ids.labels if isinstance(ids, NamedIds) else None
            if members is None:
                writer.set_attribute_parts(ID, ids.largest, ids.read, labels)
            else:
                writer.set_attribute_parts(
                    ID, ids.largest, lambda first, last: ids.at(members.places(first, last)), labels
                )
                writer.set_attribute_parts(
                    POPULATION, len(members.names) - 1, members.populations, members.names
                )
            for name, values, texts in attributes:
                writer.set_attribute(name, values, texts)
            source_name = {"source": job.source.name}
            return writer.finish(source_name | provenance | self._magnitudes.facts)

    def _members(self, ids: _Ids, populations: list[str]) -> Members:
        """Return the neurons named by the edges, each as a population and a dense id."""
        members = Members(populations, self._folder, self._job.memory // 4)
        for source, target, _, codes in self._spooled(ids):
            members.add(source, target, codes)
        if members.size > MAX_VERTICES:
            raise BadInputError(
                f"{self._job.source}: more than {MAX_VERTICES} neurons; split the network"
            )
        return members

    def _spooled(self, ids: _Ids) -> Iterator[_Spooled]:
        """Yield dense ids of sources and targets, weights, and populations of both (or 0 rows)."""
        at = 0
        for count, kind, grouped in self._together(ids.at_a_time):
            ends, codes, weights = [], [], []
            for size in count:
                ends.append(self._file.read(at, at + 2 * size).reshape(2, -1))
                at += 2 * size
                if grouped:
                    codes.append(self._file.read(at, at + 2 * size).reshape(2, -1))
                    at += 2 * size
                if kind is not None:
                    weights.append(self._file.read(at, at + size).view(kind))
                    at += size
            new = ids.numbers(np.concatenate(ends, axis=1).ravel()).reshape(2, -1)
            weight = np.concatenate(weights) if weights else None
            none = np.empty((2, 0), np.int64)
            yield new[0], new[1], weight, np.concatenate([none, *codes], axis=1)

    def _together(self, most: int | None) -> Iterator[_Group]:
        """Group consecutive chunks of the same type, of at most `most` ends or one chunk."""
        group: list[int] = []
        kind, grouped = None, False
        for count, of_weight, has_populations in self._chunks:
            full = most is None or 2 * (sum(group) + count) > most
            if group and (full or (of_weight, has_populations) != (kind, grouped)):
                yield group, kind, grouped
                group = []
            kind, grouped = of_weight, has_populations
            group.append(count)
        if group:
            yield group, kind, grouped

    def close(self) -> None:
        self._file.close()
        self.distinct.close()


class NamedIds:
    """Ids 0 .. n-1 that stand for names; same interface as `DistinctIds`.

    labels : the names, None if all are whole numbers, which are then the ids
    by_number : number the names in increasing order of these
    """

    at_a_time = None

    def __init__(self, names: list[str], by_number: bool) -> None:
        whole = whole_numbers(names)
        self.size = len(names)
        self.labels = names if whole is None else None
        order = np.argsort(whole) if by_number and whole is not None else np.arange(self.size)
        self._original = order if whole is None else whole[order]
        self._number = np.empty(self.size, np.int32)
        self._number[order] = np.arange(self.size)

    @property
    def largest(self) -> int:
        return int(self._original.max())

    def read(self, first: int, last: int) -> NDArray[np.int64]:
        return self._original[first:last]

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._original[places]

    def numbers(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        return self._number[ids]


_Ids = DistinctIds | NamedIds


class Members(Closing):
    """Neurons identified by a population and the dense id in it, numbered population by
    population.

    names : of the populations, in their new order
    """

    def __init__(self, names: list[str], folder: Path, memory: int) -> None:
        whole = whole_numbers(names)
        order = np.arange(len(names)) if whole is None else np.argsort(whole)
        self.names = [names[i] for i in order.tolist()]
        self._rank = np.argsort(order)
        self._distinct = DistinctIds(folder, memory)

    @property
    def size(self) -> int:
        return self._distinct.size

    def add(self, source: _Numbers, target: _Numbers, codes: NDArray[np.int64]) -> None:
        """Add neurons; codes : shape (2, edges), populations in their original numbering."""
        for numbers, own in zip((source, target), codes, strict=True):
            self._distinct.add(self._keys(numbers, own))

    def populations(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the populations of neurons first .. last-1."""
        return self._distinct.read(first, last) >> _ID_BITS

    def places(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the dense ids of neurons first .. last-1."""
        return self._distinct.read(first, last) & ((1 << _ID_BITS) - 1)

    def neurons(
        self, source: _Numbers, target: _Numbers, codes: NDArray[np.int64]
    ) -> tuple[_Numbers, _Numbers]:
        """Return the neuron numbers of both ends of edges; parameters as in `add`."""
        first, second = (
            self._distinct.numbers(self._keys(numbers, own))
            for numbers, own in zip((source, target), codes, strict=True)
        )
        return first, second

    def _keys(self, numbers: _Numbers, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return (self._rank[codes] << _ID_BITS) | numbers

    def close(self) -> None:
        self._distinct.close()
