"""Declared nodes of a graph file, and the data of nodes that become attributes.

* `size`: whole numbers; other values describe drawings.
* `population`, or the other names of populations below.
* `x`, `y`, `z`: positions, if all nodes have them and they differ from 0.
* `label` or `name`: the attribute `label`, or the identity of neurons, see `Nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.columns import POPULATIONS
from storage.formats.names import LETTER_BYTES, NameTable, shown_name
from storage.formats.weightkeys import number_of
from storage.graph import MAX_VERTICES
from storage.store.network import POPULATION, SIZE

Where = Callable[[], str]
LABEL = "label"
POSITION = ("x", "y", "z")
LABELS = (LABEL, "name")
VALUE_BYTES = 150  # bytes per value of a node besides its letters
MAX_SIZE = 2**62
UNNAMED = "none"  # population of nodes without one
KEPT = (SIZE, *POPULATIONS, *POSITION, *LABELS)


class NodeAttribute(NamedTuple):
    """values : shape (nodes,); labels : names that the values index, or None"""

    name: str
    values: NDArray[Any]
    labels: list[str] | None = None


class Nodes(NameTable):
    """Numbers nodes in order of appearance by their key in the file, and holds their data.

    by_label : neurons are called by their labels, if each node has a different one, and by their
        keys otherwise
    """

    def __init__(self, source: Path, memory: int, *, by_label: bool = False) -> None:
        super().__init__(source, memory)
        self._by_label = by_label
        self._declared: set[int] = set()
        self._missing: dict[str, str] = {}  # ends without a declaration so far, with their places
        self._data: dict[str, dict[int, Any]] = {}
        self._not_sizes = False
        self._data_bytes = 0

    @property
    def bytes(self) -> int:
        """Return an upper bound of the memory used by the names and data."""
        return super().bytes + self._data_bytes

    def declare(self, key: str, data: Mapping[str, Any], where: Where) -> None:
        """Add a node with its data by name; raise `BadInputError` if it is declared twice."""
        number = self.number(key)
        if number in self._declared:
            raise BadInputError(f"{where()}: node {shown_name(key)} is declared twice")
        self._declared.add(number)
        self._missing.pop(key, None)
        if len(self._declared) > MAX_VERTICES:
            raise BadInputError(f"{where()}: more than {MAX_VERTICES} nodes; split the network")
        for name, value in data.items():
            lower = name.lower()
            if lower in KEPT:
                self._keep(number, lower, value, where)

    def end(self, key: str, where: Where) -> int:
        """Return the number of the end of an edge."""
        if key not in self:
            self._missing[key] = where()
        return self.number(key)

    def require_declared(self) -> None:
        """Raise `BadInputError` if an end of an edge has no declaration."""
        for key, place in self._missing.items():
            raise BadInputError(
                f"{place}: an edge refers to node {shown_name(key)}, which the file does not "
                "declare"
            )

    def _keep(self, number: int, name: str, value: Any, where: Where) -> None:
        if name == SIZE:
            text = str(value).strip()
            whole = text.isascii() and text.isdigit() and len(text) < 40
            self._not_sizes |= not whole or isinstance(value, bool)
            value = int(text) if whole else 0
            if value >= MAX_SIZE:
                raise BadInputError(f"{where()}: size {text[:24]} is 2^62 or more; scale it down")
        elif name in POSITION:
            value = value if isinstance(value, int | float) else number_of(str(value))
            if isinstance(value, bool) or not abs(value) < 1e300:
                return
        else:
            value = str(value).strip()
            if not value:
                return
            self._data_bytes += LETTER_BYTES * len(value)
        self._data.setdefault(name, {})[number] = value
        self._data_bytes += VALUE_BYTES

    def names(self) -> list[str]:
        """Return the names of neurons in the order of their numbers."""
        labels = self._labels() if self._by_label else None
        return super().names() if labels is None else labels

    def _labels(self) -> list[str] | None:
        """Return a different label for each node; None if there is none."""
        for name in LABELS:
            found = self._data.get(name, {})
            if len(found) == len(self) == len(set(found.values())):
                return [found[number] for number in range(len(self))]
        return None

    def attributes(self) -> Iterator[NodeAttribute]:
        """Yield the attributes of all nodes."""
        count = len(self)
        if SIZE in self._data and not self._not_sizes:
            sizes = np.ones(count, np.int64)
            _fill(sizes, self._data[SIZE])
            yield NodeAttribute(SIZE, sizes)
        for name in POPULATIONS:
            if name in self._data:
                yield _texts(POPULATION, self._data[name], count)
                break
        for name in POSITION:
            if len(self._data.get(name, {})) == count:
                values = np.zeros(count)
                _fill(values, self._data[name])
                if values.any():  # some writers set all positions to 0
                    yield NodeAttribute(name, values)
        given = super().names()
        for name in LABELS:
            found = self._data.get(name)
            if found is not None:
                called = self.names()
                if any(called[i] != label and given[i] != label for i, label in found.items()):
                    yield _texts(LABEL, found, count)
                break


def _fill(array: NDArray[Any], values: Mapping[int, Any]) -> None:
    places = np.fromiter(values, np.int64, len(values))
    array[places] = np.fromiter(values.values(), array.dtype, len(values))


def _texts(name: str, values: Mapping[int, str], count: int) -> NodeAttribute:
    """Return an attribute of texts; nodes without one have the text `UNNAMED`."""
    labels: dict[str, int] = {}
    codes = np.full(count, -1, np.int64)
    for number in sorted(values):
        codes[number] = labels.setdefault(values[number], len(labels))
    if (codes < 0).any():
        codes[codes < 0] = labels.setdefault(UNNAMED, len(labels))
    return NodeAttribute(name, codes, list(labels))
