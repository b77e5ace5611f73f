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
    """
    rows, columns = usable.shape
    if int(usable.sum()) < groups:
        raise DoesNotFitError(
            f"{groups} cores are needed, the chip has {int(usable.sum())} usable ones: "
            f"{groups - int(usable.sum())} are lacking; take a larger chip"
        )
    for half in range(2, rows + columns + 1):
        if (half // 2) * (half - half // 2) < groups:
            continue
        best: tuple[int, float, int, int, int, int] | None = None
        widths = range(max(1, half - rows), min(columns, half - 1) + 1)
        for width in sorted(widths, key=lambda w: (abs(2 * w - half), w)):
            height = half - width
            if width * height < groups:
                break  # the others of this half-perimeter are flatter, so smaller
            counts = _window_counts(usable, width, height)
            fits = np.argwhere(counts >= groups)
            if not fits.size:
                continue
            spare = counts[fits[:, 0], fits[:, 1]] - groups
            offset = np.abs(fits - (np.array([rows, columns]) - [height, width]) / 2).sum(axis=1)
            pick = np.lexsort((offset, spare))[0]
            y, x = (int(c) for c in fits[pick])
            found = (int(spare[pick]), float(offset[pick]), width, height, x, y)
            if best is None or found[0] < best[0]:
                best = found
        if best is not None:
            _, _, width, height, x, y = best
            return Region(x, y, width, height, _give_up_spare(usable, best, groups))
    raise AssertionError("the whole chip has enough usable cores")


def _give_up_spare(
    usable: NDArray[np.bool_], found: tuple[int, float, int, int, int, int], groups: int
) -> NDArray[np.bool_]:
    spare, _, width, height, x, y = found
    inside = usable[y : y + height, x : x + width].copy()
    if spare:
        cells = np.argwhere(inside)
        centre = (np.array([height, width]) - 1) / 2
        far = np.abs(cells - centre).sum(axis=1)
        dropped = cells[np.argsort(-far, kind="stable")[:spare]]
        inside[dropped[:, 0], dropped[:, 1]] = False
    assert int(inside.sum()) == groups
    return inside
