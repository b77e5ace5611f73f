"""Choice of the weight of an edge among the data that a file has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import NONE, WEIGHTS, ColumnNames
from storage.formats.losses import WEIGHTS_MISSING

MAX_DIGITS = 400  # characters of a weight


class WeightKeys:
    """Finds weights by the names of edge data, and counts edges without a weight."""

    def __init__(self, wanted: str | None, usual: Sequence[str] = WEIGHTS) -> None:
        """wanted : name of the weights, if it is not a usual one; `NONE` for no weights
        usual : the usual names, the preferred one first
        """
        self._wanted = usual if wanted is None else () if wanted == NONE else (wanted,)
        self._used: set[str] = set()
        self._ignored: set[str] = set()
        self.missing = 0

    def accepts(self, name: str) -> bool:
        """Return whether a name may be the name of weights."""
        return name in self._wanted

    def weight(self, data: Mapping[str, Any]) -> float:
        """Return the weight of an edge, nan if it has none; raise `ValueError` (fault)."""
        key = next((key for key in self._wanted if key in data), None)
        if len(data) > (key is not None):
            self._ignored |= {str(name) for name in data if name != key}
        if key is None:
            return np.nan
        self._used.add(key)
        value = data[key]
        try:
            number = float("nan" if isinstance(value, bool | str) else value)
        except (TypeError, OverflowError):
            number = np.nan
        if not np.isfinite(number):
            raise ValueError(f"has no finite number for {key}")
        return number

    def facts(self, source: str | int, target: str | int) -> dict[str, Any]:
        """Return the entries for the provenance; source, target : names of the ends."""
        used: dict[str, Any] = {"source": source, "target": target}
        if not self._used:
            return {"columns": used, "columns_ignored": sorted(self._ignored)}
        used["weight"] = ", ".join(sorted(self._used))
        ignored = sorted(self._ignored - self._used)
        found: dict[str, Any] = {"columns": used, "columns_ignored": ignored}
        return {**found, WEIGHTS_MISSING: self.missing} if self.missing else found


def number_of(text: str) -> float:
    """Return a text as a number, nan if it is none."""
    try:
        return float(text) if len(text) < MAX_DIGITS else np.nan
    except ValueError:
        return np.nan


def wanted_weight(job: ImportJob, format: str, columns: ColumnNames | None) -> str | None:
    """Return the name of the weights that the user chose.

    Raises `BadInputError` if the user chose other columns, which a graph file does not have.
    """
    if columns is not None and columns != ColumnNames(weight=columns.weight):
        raise BadInputError(f"{job.source}: a {format} file has no columns for source and target")
    return None if columns is None else columns.weight
