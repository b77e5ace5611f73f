"""Moves of items between parts, with exact counts of the use of all limits.

The effect of a move is counted in a table of (source, part) pairs, exactly for the parts in it:
axons of the two parts, and outgoing axons of every part that holds a source of the item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from storage.arrays import Int32, Int64, Mask
from storage.hashing import scrambled

LEAST = 5  # row of the least sizes of parts


class Net(NamedTuple):
    """Items and their synapses.

    item : item of every neuron
    first_member, members : the neurons of each item
    sizes, fan_in, bits : of the items; bits are of a memory that neurons and synapses share
    start, end : range of the sources of each item in `rows`, sorted
    fixed : items that never move
    kind, domain : kind of every item, and the parts that each kind may be in: (kinds, parts)
    """

    item: Int32
    first_member: Int64
    members: Int32
    sizes: Int64
    fan_in: Int64
    bits: Int64
    start: Int64
    end: Int64
    rows: Int32
    fixed: Mask
    kind: Int32
    domain: Mask


class ExchangeSearch(NamedTuple):
    """The parts of all items and their use; everything but limits and weights changes.

    part : part of every item
    reach : number of parts that each neuron has axons to
    use : shape (5, parts); with a sixth row, of least sizes: see `mapper.limits.least_fill`
    limits, weight : limits, and weights of an excess, shape (rows of `use`,)
    keys, counts : hash table of (source, part) pairs
    used : [slots in use, most allowed]
    copies : axons_out counts neurons and their copies, see `Chip.single_target`
    """

    part: Int32
    reach: Int32
    use: Int64
    limits: Int64
    weight: Int64
    keys: Int64
    counts: Int32
    used: Int64
    copies: bool


@njit(cache=True, nogil=True)
def _slot(keys, key):
    """Return the slot of a key in the hash table, or the empty slot where it belongs."""
    h = scrambled(np.uint64(key))
    at = np.int64(((h >> np.uint64(32)) * np.uint64(keys.size)) >> np.uint64(32))
    while keys[at] >= 0 and keys[at] != key:
        at += 1
        if at == keys.size:
            at = np.int64(0)
    return at


@njit(cache=True, nogil=True)
def _count(keys, counts, key):
    """Return the number of synapses of a (source, part) pair."""
    at = _slot(keys, key)
    return np.int64(counts[at]) if keys[at] == key else np.int64(0)


@njit(cache=True, nogil=True)
def _fill_table(items, start, end, rows, part, parts, keys, counts):
    """Insert the pairs of all rows into an empty table; return the number of slots used."""
    used = 0
    for v in items:
        for e in range(start[v], end[v]):
            key = np.int64(rows[e]) * parts + part[v]
            at = _slot(keys, key)
            if keys[at] < 0:
                keys[at] = key
                used += 1
            counts[at] += 1
    return used


@njit(cache=True, nogil=True)
def _over(use, limits, weight, k):
    """Return the weighted excess of a part."""
    total = np.int64(0)
    for r in range(limits.size):
        total += weight[r] * max(0, use[r, k] - limits[r])
    return total


@njit(cache=True, nogil=True)
def _bump(use, limits, weight, r, k, change):
    """Change a part's use of a limit; return the change of its excess."""
    before = max(0, use[r, k] - limits[r])
    use[r, k] += change
    return weight[r] * (max(0, use[r, k] - limits[r]) - before)


@njit(cache=True, nogil=True)
def _axons(u, k, reach, keys, counts, parts, copies):
    """Return the axons of a neuron in part k: other parts that it reaches, or all its copies."""
    if copies:
        return np.int64(max(1, reach[u]))
    return np.int64(reach[u]) - (1 if _count(keys, counts, u * parts + k) > 0 else 0)


@njit(cache=True, nogil=True)
def _move(v, to, net, search):
    """Move an item and update all sums; return the change of the total excess."""
    item, first_member, members, sizes, fan_in, bits, start, end, rows, _, _, _ = net
    part, reach, use, limits, weight, keys, counts, used, copies = search
    parts = use.shape[1]
    own = np.int64(part[v])
    change = _bump(use, limits, weight, 0, own, -sizes[v])
    change += _bump(use, limits, weight, 0, to, sizes[v])
    change += _bump(use, limits, weight, 1, own, -fan_in[v])
    change += _bump(use, limits, weight, 1, to, fan_in[v])
    change += _bump(use, limits, weight, 4, own, -bits[v])
    change += _bump(use, limits, weight, 4, to, bits[v])
    if limits.size > LEAST:
        change += _bump(use, limits, weight, LEAST, own, sizes[v])
        change += _bump(use, limits, weight, LEAST, to, -sizes[v])
    e = start[v]
    while e < end[v]:
        s = np.int64(rows[e])
        several = 1
        while e + several < end[v] and rows[e + several] == s:
            several += 1
        e += several
        home = part[item[s]]
        at = _slot(keys, s * parts + own)
        counts[at] -= several
        if counts[at] == 0:
            change += _bump(use, limits, weight, 2, own, -1)
            reach[s] -= 1
            if copies or home != own:
                change += _bump(use, limits, weight, 3, home, -1)
        at = _slot(keys, s * parts + to)
        if keys[at] < 0:
            keys[at] = s * parts + to
            used[0] += 1
        if counts[at] == 0:
            change += _bump(use, limits, weight, 2, to, 1)
            reach[s] += 1
            if copies or home != to:
                change += _bump(use, limits, weight, 3, home, 1)
        counts[at] += several
    for m in range(first_member[v], first_member[v + 1]):
        u = np.int64(members[m])
        here = _axons(u, own, reach, keys, counts, parts, copies)
        there = _axons(u, to, reach, keys, counts, parts, copies)
        change += _bump(use, limits, weight, 3, own, -here)
        change += _bump(use, limits, weight, 3, to, there)
    part[v] = to
    return change


@njit(cache=True, nogil=True)
def _judge(v, to, leaving, net, search):
    """Estimate the change of excess in the target part of a move, and count new sources.

    leaving : axons of the item that leave its part now; `_move` counts exactly
    """
    item, _, _, sizes, fan_in, bits, start, end, rows, _, _, _ = net
    part, _, use, limits, weight, keys, counts, _, copies = search
    parts = use.shape[1]
    change = weight[0] * (
        max(0, use[0, to] + sizes[v] - limits[0]) - max(0, use[0, to] - limits[0])
    )
    change += weight[1] * (
        max(0, use[1, to] + fan_in[v] - limits[1]) - max(0, use[1, to] - limits[1])
    )
    change += weight[4] * (
        max(0, use[4, to] + bits[v] - limits[4]) - max(0, use[4, to] - limits[4])
    )
    if limits.size > LEAST:
        change -= weight[LEAST] * min(sizes[v], max(0, use[LEAST, to] - limits[LEAST]))
    new = 0
    previous = np.int64(-1)
    for e in range(start[v], end[v]):
        s = np.int64(rows[e])
        if s != previous and _count(keys, counts, s * parts + to) == 0:
            new += 1
            home = part[item[s]]
            if (copies or home != to) and use[3, home] >= limits[3]:
                change += weight[3]
        previous = s
    change += weight[2] * (max(0, use[2, to] + new - limits[2]) - max(0, use[2, to] - limits[2]))
    change += weight[3] * (
        max(0, use[3, to] + leaving - limits[3]) - max(0, use[3, to] - limits[3])
    )
    return change, new


@njit(cache=True, nogil=True)
def _leaving(v, own, net, search):
    """Return the number of axons of an item that leave its part."""
    first_member, members, reach = net.first_member, net.members, search.reach
    keys, counts, parts = search.keys, search.counts, search.use.shape[1]
    total = np.int64(0)
    for m in range(first_member[v], first_member[v + 1]):
        u = np.int64(members[m])
        total += _axons(u, own, reach, keys, counts, parts, search.copies)
    return total


@njit(cache=True, nogil=True)
def _relief(v, own, leaving, net, search):
    """Estimate the decrease of the excess of a part when an item leaves it."""
    _, _, _, sizes, fan_in, bits, start, end, rows, _, _, _ = net
    _, _, use, limits, weight, keys, counts, _, _ = search
    parts = use.shape[1]
    gone = 0
    e = start[v]
    while e < end[v]:
        s = np.int64(rows[e])
        several = 1
        while e + several < end[v] and rows[e + several] == s:
            several += 1
        e += several
        gone += _count(keys, counts, s * parts + own) == several
    total = weight[0] * min(sizes[v], max(0, use[0, own] - limits[0]))
    total += weight[1] * min(fan_in[v], max(0, use[1, own] - limits[1]))
    total += weight[4] * min(bits[v], max(0, use[4, own] - limits[4]))
    total += weight[2] * min(gone, max(0, use[2, own] - limits[2]))
    return total + weight[3] * min(leaving, max(0, use[3, own] - limits[3]))
