"""Choice of the cores in use, so that all of them can hold their least number of neurons."""

from __future__ import annotations

import numpy as np

from mapper.limits.allocation import allocate
from mapper.limits.fill_bounds import FillBounds
from mapper.limits.kinds import Kinds
from mapper.planning.memory import FILL
from storage.arrays import Int32, Int64, Mask


def cores_in_use(
    bounds: FillBounds,
    place: Int32,
    sizes: Int64,
    kinds: Kinds,
    pinned: Mask,
    most: Int64,
    width: int,
) -> Mask:
    """Return the cores to use, shape (cores,).

    place, sizes, pinned : shape (items,), core and size of every item, and whether it is pinned
    kinds : of the items; most : ndarray[int64], shape (cores,), neuron limits, 0 for unusable cores
    width : cores per row

    Cores with few neurons become empty if the others have room, or if there are too few neurons for
    all; with a number of cores to use, the nearest empty cores are added.
    """
    held = np.zeros(most.size, np.int64)
    np.add.at(held, place, sizes)
    used = np.bincount(place, minlength=most.size) > 0
    keep = np.zeros(most.size, np.bool_)
    keep[place[pinned]] = True
    total = int(sizes.sum())
    wanted = np.zeros(kinds.allowed.shape, np.int64)
    np.add.at(wanted, (kinds.kind, place), sizes)
    for core in np.argsort(held, kind="stable").tolist():
        if not used[core] or keep[core]:
            continue
        too_few = int(bounds.least[used].sum()) > total
        costly = bounds.least[core] > 2 * held[core] and not bounds.used
        room = int(most[used].sum() - most[core])
        if (too_few and room >= total) or (costly and room * FILL >= total):
            rest = used.copy()
            rest[core] = False
            found = allocate(wanted, most, kinds.allowed & rest, np.arange(most.size))
            if not found.short.any():
                used = rest
    return _with_more(used, bounds, kinds, most, width)


def _with_more(used: Mask, bounds: FillBounds, kinds: Kinds, most: Int64, width: int) -> Mask:
    """Return used cores, with the nearest others until there are enough."""
    used = used.copy()
    y, x = np.divmod(np.arange(used.size), width)
    others = np.flatnonzero(~used & (most > 0) & kinds.allowed.any(axis=0))
    missing = bounds.used - int(np.count_nonzero(used))
    if missing < others.size:
        own = np.flatnonzero(used)
        far = np.abs(x[others, None] - x[own]) + np.abs(y[others, None] - y[own])
        others = others[np.argsort(far.min(axis=1), kind="stable")]
    used[others[: max(0, missing)]] = True
    return used
