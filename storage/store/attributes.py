"""Stored form of neuron attributes: whole numbers from 0, in a unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.quantise import Rounding, UnitFinder, to_units
from storage.sorting.sorter import MAX_TOTAL
from storage.store.meta import AttributeMeta
from storage.store.network import RATE, SIZE


def stored_values(
    name: str,
    values: NDArray[np.integer] | NDArray[np.floating],
    labels: Sequence[str] | None,
    unit: float,
) -> tuple[NDArray[Any], AttributeMeta, Rounding]:
    """Return stored values in the narrowest dtype, shape (neurons,), metadata, and rounding.

    values : shape (neurons,), in the given unit
    Raises `BadInputError` if the format cannot hold them, see `NetworkWriter.set_attribute`.
    """
    if not name or "/" in name:
        raise BadInputError(f"attribute {name!r} cannot be stored; use a name without /")
    if name == SIZE and not np.issubdtype(values.dtype, np.integer):
        raise BadInputError("sizes must be whole numbers; scale them up")
    stored: NDArray[Any]
    rounding = Rounding()
    if np.issubdtype(values.dtype, np.integer):
        low, high = min(0, int(values.min())), int(values.max())
        if high - low >= 2**63:
            raise BadInputError(f"attribute {name!r} spans more than 63 bits; scale it down")
        if name == SIZE and values.sum(dtype=np.float64) >= MAX_TOTAL:
            raise BadInputError("the sum of all sizes exceeds 2^62; scale them down")
        step, stored = 1.0, values
    else:
        finder = UnitFinder()
        finder.observe(values if name == RATE else np.abs(values), f"attribute {name!r}")
        step = finder.unit()
        stored, rounding = to_units(values, step)
    offset = min(0, int(stored.min()))
    if offset < 0 and name in (SIZE, RATE):
        raise BadInputError(f"attribute {name!r} has a negative value: {offset * step * unit:g}")
    if labels is not None and not 0 <= stored.min() <= stored.max() < len(labels):
        raise BadInputError(f"attribute {name!r} has values outside its {len(labels)} labels")
    about = AttributeMeta(step * unit, offset, None if labels is None else list(labels))
    return stored, about, rounding
