"""Step 6: the rectangle of the chip that the groups will live in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.errors import DoesNotFitError


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of cores, columns x .. x+width-1 and rows y .. y+height-1.

    usable : ndarray[bool], shape (height, width), cores that groups may use: as many as groups
    """

    x: int
    y: int
    width: int
    height: int
    usable: NDArray[np.bool_]


def _window_counts(usable: NDArray[np.bool_], width: int, height: int) -> NDArray[np.int64]:
    """Usable cores in every window of this size, by its upper left corner (prefix sums)."""
    total = np.zeros((usable.shape[0] + 1, usable.shape[1] + 1), np.int64)
    total[1:, 1:] = usable.cumsum(0).cumsum(1)
    return (
        total[height:, width:] - total[:-height, width:] - total[height:, :-width]
        + total[:-height, :-width]
    )  # fmt: skip


def choose_region(usable: NDArray[np.bool_], groups: int) -> Region:
    """The most compact rectangle with at least `groups` usable cores.

    usable : ndarray[bool], shape (height, width) of the chip, False for unavailable cores

    The mean distance of two random cores of a w x h rectangle is about (w + h)/3: rectangles are
    tried by growing half-perimeter, the squarest first; of several places, the one with the
    fewest spare cores, then the nearest to the middle of the chip. Spare cores are given up from
    the rim: those farthest from the rectangle's centre.

    Raises `DoesNotFitError` if the chip has fewer usable cores than groups.
    """
    rows, columns = usable.shape
    short = groups - int(usable.sum())
    if short > 0:
        raise DoesNotFitError(
            f"needs {groups} cores; the chip has {groups - short} usable ones ({short} short); "
            "take a larger chip"
        )
    for half in range(2, rows + columns + 1):
        widths = range(max(1, half - rows), min(columns, half - 1) + 1)
        for width in sorted(widths, key=lambda w: (abs(2 * w - half), w)):
            height = half - width
            if width * height < groups:
                break  # the others of this half-perimeter are flatter, so smaller
            counts = _window_counts(usable, width, height)
            fits = np.argwhere(counts >= groups)
            if fits.size:
                spare = counts[fits[:, 0], fits[:, 1]] - groups
                middle = (np.array([rows, columns]) - [height, width]) / 2
                pick = np.lexsort((np.abs(fits - middle).sum(axis=1), spare))[0]
                y, x = (int(corner) for corner in fits[pick])
                inside = usable[y : y + height, x : x + width].copy()
                _give_up(inside, int(spare[pick]))
                return Region(x, y, width, height, inside)
    raise AssertionError("the whole chip has enough usable cores")


def _give_up(inside: NDArray[np.bool_], spare: int) -> None:
    """Mark the usable cores that are farthest from the centre as not to be used."""
    cells = np.argwhere(inside)
    centre = (np.array(inside.shape) - 1) / 2
    far = np.argsort(-np.abs(cells - centre).sum(axis=1), kind="stable")
    dropped = cells[far[:spare]]
    inside[dropped[:, 0], dropped[:, 1]] = False
