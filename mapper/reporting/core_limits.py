"""Limits of the cores of a chip, as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores

Grid = NDArray[Any]


def limit_of(chip: Chip, name: str) -> Grid:
    """Return a limit that the chip has, of every core, shape (cores,)."""
    found = limit_of_cores(chip, name)
    assert found is not None, "the chip has the limit"
    return found


def limit_shown(chip: Chip, name: str, per_core: Callable[[Grid], Grid]) -> Grid | int | None:
    """Return a limit of all cores, the limits of each core if they differ, or None.

    per_core : arranges values of cores in rows and columns
    """
    if any(name in one.own for one in chip.core_limits):
        return per_core(limit_of(chip, name))
    found: int | None = getattr(chip, name)
    return found


def fullest(chip: Chip, used: Mapping[str, Grid]) -> dict[str, float]:
    """Return the largest use of each limit, as a share of the limit of the same core."""
    return {
        name: float((values / limit_of(chip, name)).max(initial=0.0))
        for name, values in used.items()
        if getattr(chip, name) is not None
    }


def peaks(filled: Mapping[str, Grid], used: Grid) -> dict[str, tuple[int, float]]:
    """Return the largest use of each limit, and the mean of the cores in use.

    used : ndarray[bool], whether a core is in use
    """
    if not used.any():
        return dict.fromkeys(filled, (0, 0.0))
    return {
        name: (int(values.max(initial=0)), float(values[used].mean()))
        for name, values in filled.items()
    }
