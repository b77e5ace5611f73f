"""Rows or columns of a dense matrix, added to a network; zeros are not synapses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.losses import Magnitudes
from storage.graph import MAX_VERTICES
from storage.store.writer import NetworkWriter

BLOCK = 1 << 18  # entries that are read at a time, at least one row


def require_square(path: Path, shape: tuple[int, ...], what: str = "the matrix") -> int:
    """Return the number of neurons; raise `BadInputError` if a matrix cannot be a network."""
    if len(shape) != 2 or shape[0] != shape[1]:
        size = " x ".join(map(str, shape)) or "a single value"
        raise BadInputError(f"{path}: {what} is {size}; a network needs a square one")
    if not 0 < shape[0] <= MAX_VERTICES:
        raise BadInputError(
            f"{path}: {what} has {shape[0]} rows; a network needs 1 to {MAX_VERTICES}"
        )
    return shape[0]


def require_numbers(path: Path, dtype: np.dtype[Any]) -> None:
    """Raise `BadInputError` if values of this type cannot be weights."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise BadInputError(f"{path}: the matrix holds {dtype}; give whole or real numbers")


class DenseRows:
    """Adds consecutive rows to a network.

    turned : the rows are the columns of the matrix
    """

    def __init__(
        self, path: Path, writer: NetworkWriter, magnitudes: Magnitudes, turned: bool = False
    ) -> None:
        self._path, self._writer, self._magnitudes = path, writer, magnitudes
        self._turned = turned
        self.rows = 0

    def add(self, values: NDArray[Any]) -> None:
        """Add rows, shape (rows, neurons); raise `BadInputError` for values that are not finite."""
        row, column = np.nonzero(values)
        weight = values[row, column]
        row += self.rows
        self.rows += len(values)
        source, target = (column, row) if self._turned else (row, column)
        kind = weight.dtype.kind
        wrong = ~np.isfinite(weight) if kind == "f" else weight > np.uint64(2**63 - 1)
        if kind in "fu" and wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise BadInputError(
                f"{self._path}: entry [{source[at]}, {target[at]}] (from 0) is {weight[at]}, which "
                "cannot be a weight; repair it"
            )
        weight = weight.astype(np.float64 if kind == "f" else np.int64)
        self._writer.add(source, target, self._magnitudes.of(weight))
