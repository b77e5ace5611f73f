"""Neurons of a network, found by their identifiers in the file that the network came from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.text.namedtable import Where
from storage.store.network import ID, NetworkFile

Int64 = NDArray[np.int64]


class NeuronFinder:
    """Finds neurons of a network by their identifiers in its original file."""

    def __init__(self, network: NetworkFile) -> None:
        """Raises `BadInputError` if ids are unique only within a population."""
        self._count = network.vertices
        self._ids: Int64 | None = None
        self._order = np.empty(0, np.int64)
        self._labels: list[str] | None = None
        self._numbers: dict[str, int] = {}
        if ID in network.meta.attributes:
            ids = network.attribute(ID)
            if ids.labels is None:
                self._ids, self._order = ids.stored, np.argsort(ids.stored)
            else:
                self._labels = [ids.labels[i] for i in ids.stored.tolist()]
                self._numbers = {name: i for i, name in enumerate(self._labels)}
            if np.unique(ids.stored).size < self._count:
                raise BadInputError(
                    "neurons of several populations share ids; give the rates as npz, an "
                    "array `rate` in the order of the network"
                )

    @property
    def are_numbers(self) -> bool:
        """Return whether neurons are identified by numbers, not by names."""
        return self._labels is None

    def name(self, neuron: int) -> str:
        """Return the identifier of a neuron."""
        if self._labels is not None:
            return self._labels[neuron]
        return str(neuron if self._ids is None else self._ids[neuron])

    def find(self, names: list[str], where: Where) -> Int64:
        """Return numbers of neurons, shape (names,); raise `BadInputError` for an unknown one."""
        if self._labels is not None:
            found = [self._numbers.get(name, -1) for name in names]
            result = np.array(found, np.int64)
        else:
            result = self.find_numbers(self._whole(names, where))
        if (result < 0).any():
            row = int(np.flatnonzero(result < 0)[0])
            raise BadInputError(f"{where(row)}: the network has no neuron {names[row][:40]!r}")
        return result

    @property
    def least(self) -> int:
        """Return the smallest number that identifies a neuron."""
        return 0 if self._ids is None else int(self._ids.min())

    def _whole(self, names: list[str], where: Where) -> Int64:
        try:
            return np.array(list(map(int, names)), np.int64)
        except (ValueError, OverflowError):
            for row, name in enumerate(names):
                if not name.isdecimal() or len(name) > 40 or int(name) >= 2**63:
                    raise BadInputError(
                        f"{where(row)}: the network has no neuron {name[:40]!r}"
                    ) from None
            raise

    def find_numbers(self, wanted: Int64) -> Int64:
        """Return numbers of neurons identified by numbers, shape (ids,); -1 for an unknown id."""
        if self._ids is None:
            return np.where((wanted >= 0) & (wanted < self._count), wanted, -1)
        ranked = self._ids[self._order]
        at = np.minimum(np.searchsorted(ranked, wanted), self._count - 1)
        return np.where(ranked[at] == wanted, self._order[at], -1)
