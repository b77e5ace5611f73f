"""Move items to cores that their constraints allow, within one additive capacity per core.

Amounts of each kind and core come from `mapper.limits.allocation`; items stay where they are as far
as these allow, and the others fill the remaining amounts along a curve over the mesh, so that items
of a core stay close together. Sizes may not divide the amounts evenly: `mapper.limits.enforce`
repairs what exceeds a limit then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mapper.limits.allocation import Allocation, allocate, divide_cores
from mapper.limits.kinds import Kinds
from storage.arrays import Int32, Int64, Mask


@dataclass(frozen=True, slots=True)
class Cores:
    """The cores of a mesh.

    width : cores per row
    capacity : ndarray[int64], shape (cores,), 0 for cores that must not be used
    most : number of cores to use, at most; 0 for all
    """

    width: int
    capacity: Int64
    most: int = 0


def curve(cores: int, width: int) -> Int64:
    """Return all cores along a Z-order curve: consecutive cores are close to each other."""
    y, x = np.divmod(np.arange(cores), width)
    key = np.zeros(cores, np.int64)
    for bit in range(31):
        key |= (x >> bit & 1) << (2 * bit) | (y >> bit & 1) << (2 * bit + 1)
    return np.argsort(key)


def legal_places(place: Int32, kinds: Kinds, pinned: Int32, sizes: Int64, cores: Cores) -> Int32:
    """Return the core of every item, as its constraints require if that was found.

    place : ndarray[int32], shape (items,), core of every item
    pinned : ndarray[int32], shape (items,), required core, or -1
    sizes : ndarray[int64], shape (items,)
    """
    place = np.where(pinned >= 0, pinned, place).astype(np.int32)
    movable = pinned < 0
    kind, size = kinds.kind, sizes
    shape = kinds.allowed.shape
    held = np.zeros(shape[1], np.int64)
    np.add.at(held, place[~movable], size[~movable])
    room = np.maximum(cores.capacity - held, 0)
    wanted = np.zeros(shape, np.int64)
    np.add.at(wanted, (kind[movable], place[movable]), size[movable])
    walk = curve(shape[1], cores.width)
    used = np.bincount(place, minlength=shape[1]) > 0
    order = walk[np.argsort(~used[walk], kind="stable")]
    allowed = kinds.free(place, ~movable) & (cores.capacity > 0)
    if cores.most:
        allowed &= _chosen(kinds, allowed, wanted, room, order, used, cores.most)
    allowed = divide_cores(kinds, allowed, wanted, room, order)
    found = allocate(wanted, room, allowed, order)
    rank = np.empty(shape[1], np.int64)
    rank[walk] = np.arange(shape[1])
    for k in range(shape[0]):
        items = np.flatnonzero(movable & (kind == k))
        items = items[np.argsort(rank[place[items]], kind="stable")]
        place[items] = _assigned(place[items], size[items], found.amount[k], allowed[k], walk)
    return place


def _assigned(place: Int32, size: Int64, amount: Int64, allowed: Mask, walk: Int64) -> Int32:
    """Return the cores of the items of one kind, with about the given amount on each core.

    place, size : of the items, ordered so that the items of a core are consecutive
    walk : all cores, in the order in which items that must move fill them
    """
    if not place.size or not allowed.any():
        return place
    place = place.copy()
    ends = np.cumsum(size)
    first = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    before = np.repeat((ends - size)[first], np.diff(np.r_[first, place.size]))
    stays = allowed[place] & (ends - before <= amount[place])
    left = amount.copy()
    np.subtract.at(left, place[stays], size[stays])
    targets = walk[allowed[walk]]
    bounds = np.cumsum(left[targets])
    moving = np.flatnonzero(~stays)
    at = np.searchsorted(bounds, np.cumsum(size[moving]))
    over = at >= targets.size
    at[over] = np.arange(np.count_nonzero(over)) % targets.size
    place[moving] = targets[at]
    return place


def _chosen(
    kinds: Kinds, allowed: Mask, wanted: Int64, room: Int64, order: Int64, used: Mask, most: int
) -> Mask:
    """Return a mask of `most` cores, of the used ones as far as constraints allow."""
    chosen = used.copy()
    spare = np.extract(~chosen[order] & (allowed.sum(axis=0) > 0)[order], order)
    chosen[spare[: max(0, most - np.count_nonzero(chosen))]] = True
    weight = (wanted.sum(axis=1) / np.maximum(allowed @ room, 1))[:, None] * allowed
    for _ in range(chosen.size):
        found: Allocation = allocate(wanted, room, allowed & chosen, order)
        if not found.short.any():
            break
        k = int(found.short.argmax())
        others = np.extract(allowed[k, order] & ~chosen[order], order)
        given_up = np.flatnonzero(chosen & ~allowed[k])
        if others.size and not given_up.size:  # a larger core for the smallest one
            others = others[np.argsort(-room[others], kind="stable")]
            smallest = np.flatnonzero(chosen & (room < room[others[0]]))
            given_up = smallest[room[smallest] == room[smallest].min(initial=0)]
        if not others.size or not given_up.size:
            break
        chosen[others[0]] = True
        chosen[given_up[weight[:, given_up].max(axis=0).argmin()]] = False
    return chosen
