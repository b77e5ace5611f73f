"""Independent check of split neurons: adds the helpers of a mapping to the network."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import CheckFailedError
from mapper.evaluation.verify import Connections, SlowReader
from storage.errors import BadInputError, reason_of
from storage.files import require_file
from storage.npz import load_arrays

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RelayTable:
    """Arrays of a mapping, each of shape (helpers,): see `save_mapping` of `mapper.results`."""

    core: Int64
    neuron: Int64
    first: Int64
    last: Int64


def require_arrays(path: Path, values: int) -> None:
    """Raise `CheckFailedError` if an array of an archive has more than `values` numbers.

    The sizes in the directory suffice: `zipfile` does not inflate beyond them.
    """
    try:
        require_file(path)
        with zipfile.ZipFile(path) as archive:
            longest = max((info.file_size for info in archive.infolist()), default=0)
    except BadInputError as error:
        raise CheckFailedError(str(error).replace("cannot read", "cannot be read")) from error
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise CheckFailedError(f"{path}: cannot be read: {reason_of(error)}") from error
    if longest > 8 * values + (1 << 14):
        raise CheckFailedError(f"{path}: an array of {longest} bytes exceeds {values} numbers")


def read_table(path: Path, neurons: int) -> RelayTable | None:
    """Return the table of helpers of a mapping, None without one. Raises `CheckFailedError`."""
    names = [f"helper_{name}" for name in ("core", "neuron", "first", "last")]
    try:
        with path.open("rb") as stream, load_arrays(stream) as file:
            found = [name for name in names if name in file]
            columns = [file[name] for name in found]
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise CheckFailedError(f"{path}: cannot be read: {reason_of(error)}") from error
    if not found or (found == names and not columns[0].size):
        return None
    if found != names:
        raise CheckFailedError(f"{path}: its table of relay neurons lacks a column")
    if any(column.dtype.kind not in "iu" for column in columns):
        raise CheckFailedError(f"{path}: its table of relay neurons must hold whole numbers")
    columns = [column.astype(np.int64) for column in columns]
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        raise CheckFailedError(
            f"{path}: the columns of its table of relay neurons differ in length"
        )
    table = RelayTable(*columns)
    for name, ids in (("neuron", table.neuron), ("first", table.first), ("last", table.last)):
        if ids.size and (ids.min() < 0 or ids.max() >= neurons):
            raise CheckFailedError(f"{path}: helper_{name} is outside 0..{neurons - 1}")
    order = np.lexsort((table.first, table.neuron))
    same = np.diff(table.neuron[order]) == 0
    overlap = same & (table.first[order][1:] <= table.last[order][:-1])
    if overlap.any() or (table.first > table.last).any():
        raise CheckFailedError(f"{path}: the sources of two relay neurons of a neuron overlap")
    if np.any(order != np.arange(order.size)):
        raise CheckFailedError(f"{path}: relay neurons are not ordered by neuron and source")
    return table


class SplitReader:
    """A network with helpers after its neurons, read block by block like the network itself."""

    def __init__(self, reader: SlowReader, table: RelayTable, folder: Path) -> None:
        if reader.meta["undirected"]:
            raise CheckFailedError(f"{folder}: neurons of an undirected network were split")
        self.meta = reader.meta
        self.neurons = reader.neurons + table.core.size
        self._reader, self._table, self._folder = reader, table, folder
        self._split = np.zeros(reader.neurons, np.bool_)
        self._split[table.neuron] = True

    def sizes(self) -> Int64:
        """Return the sizes; a helper has the size of its neuron."""
        sizes = self._reader.sizes()
        return np.concatenate([sizes, sizes[self._table.neuron]])

    def attribute(self, name: str) -> Int64:
        """Return an attribute; for helpers only the rate is known, as they relay their input."""
        values = self._reader.attribute(name)
        added = np.zeros(self._table.core.size, np.int64)
        if name == "rate":
            for part in self._reader.connections():
                helper, source, _ = self._helped(part)
                np.add.at(added, helper, values[source])
        return np.concatenate([values, added])

    def connections(self) -> Iterator[Connections]:
        """Yield outgoing connections, redirected from split neurons to helpers; helpers' own last.

        Raises `CheckFailedError` for a connection without helper, and for helpers without
        connections.
        """
        table, n = self._table, self._reader.neurons
        weights, counts = np.zeros((2, table.core.size), np.int64)
        for part in self._reader.connections():
            helper, _, weight = self._helped(part)
            np.add.at(weights, helper, weight)
            np.add.at(counts, helper, 1)
            other = part.other.copy()
            there = (part.incoming == 0) & self._split[part.other]
            other[there] = n + helper
            yield Connections(part.owner, other, part.incoming, part.size, part.weight)
        if not counts.all():
            empty = int(np.flatnonzero(counts == 0)[0])
            raise CheckFailedError(f"{self._folder}: relay neuron {empty} has no synapses")
        own = n + np.arange(table.core.size)
        nothing, ones = np.zeros(own.size, np.int64), np.ones(own.size, np.int64)
        yield Connections(own, table.neuron, nothing, ones, weights)

    def _helped(self, part: Connections) -> tuple[Int64, Int64, Int64]:
        """Return helper, source and weight of each synapse of a block onto a split neuron."""
        table, n = self._table, self._reader.neurons
        there = (part.incoming == 0) & self._split[part.other]
        source, target = part.owner[there], part.other[there]
        keys = table.neuron * n + table.last
        helper = np.searchsorted(keys, target * n + source)
        missing = (helper == keys.size) | (table.neuron[helper % keys.size] != target)
        missing |= source < table.first[helper % keys.size]
        if missing.any():
            k = int(np.flatnonzero(missing)[0])
            raise CheckFailedError(
                f"{self._folder}: the synapse from {source[k]} to {target[k]} has no relay neuron, "
                "although that neuron was split"
            )
        return helper, source, part.weight[there]


def check_counts(folder: Path, stated: Any, table: RelayTable | None) -> None:
    """Check the counts of split neurons in report.json against the mapping."""
    names = ("neurons", "helpers", "helpers_of_a_neuron_max")
    said = [stated.get(name) if isinstance(stated, dict) else 0 for name in names]
    found = [0, 0, 0]
    if table is not None:
        _, each = np.unique(table.neuron, return_counts=True)
        found = [int(each.size), int(table.core.size), int(each.max())]
    if said != found:
        raise CheckFailedError(
            f"{folder}: report.json has {said} split neurons, relay neurons, and "
            f"relay neurons per neuron; the mapping has {found}"
        )
