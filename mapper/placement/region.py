"""Step 6: choose the rectangle of the chip for the groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.machine import STRAIGHT, Axes, flat_axes
from mapper.errors import DoesNotFitError
from storage.arrays import Float64, Int32, Int64, Mask


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of cores, columns x .. x+width-1 and rows y .. y+height-1.

    usable : ndarray[bool], shape (height, width), cores for groups: as many as there are groups
    axes : coordinates of its columns and rows
    """

    x: int
    y: int
    width: int
    height: int
    usable: Mask
    axes: Axes


def _window_counts(usable: Mask, width: int, height: int) -> Int64:
    """Count the usable cores in every window of this size, by its upper left corner."""
    total = np.zeros((usable.shape[0] + 1, usable.shape[1] + 1), np.int64)
    total[1:, 1:] = usable.cumsum(0).cumsum(1)
    return (
        total[height:, width:] - total[:-height, width:] - total[height:, :-width]
        + total[:-height, :-width]
    )  # fmt: skip


def choose_region(usable: Mask, groups: int, axes: Axes | None = None) -> Region:
    """Return the most compact rectangle with at least `groups` usable cores.

    usable : ndarray[bool], shape (height, width) of the chip, False for unavailable cores
    axes : coordinates of columns and rows; None if all steps cost 1

    The mean distance of two random cores of a w x h rectangle is about (w + h)/3: rectangles are
    tried by increasing half-perimeter, the most square first; ties go to the position with the
    fewest spare cores, then to the one nearest to the centre of the chip. Spare cores farthest from
    the rectangle's centre are not used. If steps have different costs, the rectangle has the least
    mean distance, with the same rules for ties and spare cores.

    Raises `DoesNotFitError` if the chip has fewer usable cores than groups.
    """
    rows, columns = usable.shape
    short = groups - int(usable.sum())
    if short > 0:
        raise DoesNotFitError(
            f"needs {groups} cores; the chip has {groups - short} usable cores ({short} short); "
            "use a larger chip"
        )
    axes = flat_axes(columns, rows) if axes is None else axes
    if not axes.flat:
        return _nearest(usable, groups, axes)
    for half in range(2, rows + columns + 1):
        widths = range(max(1, half - rows), min(columns, half - 1) + 1)
        for width in sorted(widths, key=lambda w: (abs(2 * w - half), w)):
            height = half - width
            if width * height < groups:
                break  # the others of this half-perimeter are smaller
            counts = _window_counts(usable, width, height)
            fits = np.argwhere(counts >= groups)
            if fits.size:
                spare = counts[fits[:, 0], fits[:, 1]] - groups
                middle = (np.array([rows, columns]) - [height, width]) / 2
                pick = np.lexsort((np.abs(fits - middle).sum(axis=1), spare))[0]
                y, x = (int(corner) for corner in fits[pick])
                return _region(usable, axes, (x, y, width, height), int(spare[pick]))
    raise AssertionError("the whole chip has enough usable cores")


def _nearest(usable: Mask, groups: int, axes: Axes) -> Region:
    """Return the rectangle of least mean distance: for each width the lowest that fits.

    Ties go to the fewest spare cores, then to the uppermost and leftmost.
    """
    rows, columns = usable.shape
    across = _spreads(axes.x, axes.round_x)
    down = _spreads(axes.y, axes.round_y)
    best: tuple[float, int, int, int, int, int] | None = None
    for width in range(1, columns + 1):
        for height in range(-(-groups // width), rows + 1):
            counts = _window_counts(usable, width, height)
            fits = np.argwhere(counts >= groups)
            if fits.size == 0:
                continue
            spare = counts[fits[:, 0], fits[:, 1]] - groups
            spread = down[height - 1][fits[:, 0]] + across[width - 1][fits[:, 1]]
            pick = np.lexsort((spare, spread))[0]
            y, x = (int(corner) for corner in fits[pick])
            found = float(spread[pick]), int(spare[pick]), y, x, width, height
            best = found if best is None or found[:2] < best[:2] else best
            break
    assert best is not None, "the whole chip has enough usable cores"
    _, left, y, x, width, height = best
    return _region(usable, axes, (x, y, width, height), left)


def _spreads(at: Int32, around: int) -> list[Float64]:
    """Return mean distances in windows of consecutive positions, by length - 1 and first position.

    The sum of a window is the sum of the window without its last position, plus the distances of
    that position.
    """
    place = at.astype(np.int64)
    sums = np.zeros(at.size, np.int64)
    found = [np.zeros(at.size)]
    if around == STRAIGHT:
        before = np.append(0, place.cumsum())
        for length in range(2, at.size + 1):
            last = np.arange(length - 1, at.size)
            to_last = (length - 1) * place[last] - (before[last] - before[last - length + 1])
            sums = sums[: last.size] + to_last
            found.append(2 * sums / length**2)
        return found
    for length in range(2, at.size + 1):
        last = np.arange(length - 1, at.size)
        straight = np.abs(place[last, None] - place[last[:, None] - np.arange(1, length)])
        sums = sums[: last.size] + np.minimum(straight, around - straight).sum(axis=1)
        found.append(2 * sums / length**2)
    return found


def _region(usable: Mask, axes: Axes, window: tuple[int, int, int, int], spare: int) -> Region:
    """Return the window (x, y, width, height), without some usable cores of its rim."""
    x, y, width, height = window
    inside = usable[y : y + height, x : x + width].copy()
    own = axes.window(*window)
    _give_up(inside, spare, own)
    return Region(*window, inside, own)


def _give_up(inside: Mask, spare: int, axes: Axes) -> None:
    """Mark the usable cores farthest from the centre as unused."""
    cells = np.argwhere(inside)
    centre = np.array([axes.y[-1], axes.x[-1]]) / 2
    apart = np.abs(axes.places(cells[:, ::-1])[:, ::-1] - centre)
    far = np.argsort(-apart.sum(axis=1), kind="stable")
    dropped = cells[far[:spare]]
    inside[dropped[:, 0], dropped[:, 1]] = False
