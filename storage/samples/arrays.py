"""Samples in memory, by the names of the arrays of a `.npz` file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from storage.errors import BadInputError
from storage.samples.sources import SampleSource, require_some_real, whole_labels


class SampleTable(NamedTuple):
    """Samples in memory.

    name : for messages
    arrays : samples `x`, or by the name of the model's input, and labels `y`
    """

    name: str
    arrays: Mapping[str, ArrayLike]

    def __str__(self) -> str:
        return self.name


class ArraySource(SampleSource):
    """An array of samples, and possibly an array of labels."""

    def __init__(self, table: SampleTable, name: str | None = None) -> None:
        """name : of the model's input"""
        super().__init__(table.name)
        arrays = _arrays(table)
        found = self._choose(list(arrays), name)
        self._x = arrays[found]
        self._describe(self._x.shape, self._x.dtype, f"{self.where}: {found}")
        if "y" in arrays:
            labels = arrays["y"]
            self._require_labels(labels.shape, labels.dtype, found)
            self.labels = whole_labels(labels, self.where)

    def read(self, first: int, count: int) -> NDArray[Any]:
        return self._x[first : first + count].reshape(count, *self.shape)

    def close(self) -> None:
        self._x = np.zeros((0, 1))


def require_arrays(table: SampleTable) -> None:
    """Raise `BadInputError` if no array can be the samples, judged by number types."""
    require_some_real({name: one.dtype for name, one in _arrays(table).items()}, table.name)


def _arrays(table: SampleTable) -> dict[str, NDArray[Any]]:
    found = {}
    for name, values in table.arrays.items():
        try:
            found[name] = np.asarray(values)
        except (ValueError, TypeError, RuntimeError) as error:
            raise BadInputError(
                f"{table.name}: {name} is not an array: {error}; give numbers of shape "
                "(samples, ...)"
            ) from error
    return found
