"""Tables of results as data frames of other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import UsageError, shown

LIBRARIES = ("pandas", "polars")


def to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return rows as arrays of shape (rows,) by name; None becomes NaN next to numbers.

    Columns are in the order of their first occurrence.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column([row.get(name) for row in rows]) for name in names}


def to_frame(
    table: Sequence[Mapping[str, Any]] | Mapping[str, NDArray[Any]], library: str = "pandas"
) -> Any:
    """Return rows, or columns by name, as a data frame of a library, "pandas" or "polars".

    Raises `UsageError` for another name, and if the package is not installed.
    """
    if library not in LIBRARIES:
        raise UsageError(f"library is {shown(library)}; give {' or '.join(LIBRARIES)}")
    try:
        package = import_module(library)
    except ImportError as error:
        raise UsageError(
            f"library: the package {library} is missing; install it with: pip install {library}"
        ) from error
    columns = dict(table) if isinstance(table, Mapping) else to_columns(table)
    return package.DataFrame(columns)


def _column(values: list[Any]) -> NDArray[Any]:
    """Return values as an array: numbers or booleans, or objects if they are mixed."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and None not in values:
        return np.array(values, bool)
    if kinds and kinds <= {int, float}:
        if kinds == {int} and None not in values:
            return np.array(values, np.int64)
        return np.array([np.nan if value is None else value for value in values], np.float64)
    found = np.empty(len(values), object)
    found[:] = values
    return found
