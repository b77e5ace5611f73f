"""Moves that bring parts within all of their limits at once, counted exactly.

A local search on the total excess over all limits, after the feasibility phases of local search
for bin packing with shared items: a part above a limit gives vertices to parts that have most of
their sources already, or exchanges them through a chain of two moves. What a move changes is
counted from a table of (source, part) pairs, for the parts in it exactly: axons of the two parts,
and the axons that leave every part with a source of the vertex. A move that raises the excess is
taken back.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from mapper.runtime.random import draw_star

NEAR, SPREAD, ROOMY = 6, 12, 6  # candidates: parts of sources, parts at random, parts with room
SAMPLE = 64  # sources of a vertex that are asked for their part
LINKS = 12  # second moves that are tried behind each


@njit(cache=True, nogil=True)
def _slot(keys, key):
    """Where a key is in the table, or the empty place where it belongs."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    at = np.int64(((h >> np.uint64(32)) * np.uint64(keys.size)) >> np.uint64(32))
    while keys[at] >= 0 and keys[at] != key:
        at += 1
        if at == keys.size:
            at = np.int64(0)
    return at


@njit(cache=True, nogil=True)
def _count(keys, counts, key):
    """Synapses of a (source, part) pair."""
    at = _slot(keys, key)
    return np.int64(counts[at]) if keys[at] == key else np.int64(0)


@njit(cache=True, nogil=True)
def _fill_table(items, start, end, rows, part, parts, keys, counts):
    """Put the pairs of all rows into an empty table; returns how many places it uses."""
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
    """Weighted excess of a part."""
    total = np.int64(0)
    for r in range(4):
        total += weight[r] * max(0, use[r, k] - limits[r])
    return total


@njit(cache=True, nogil=True)
def _bump(use, limits, weight, r, k, change):
    """Change what a part uses of a limit; returns the change of its excess."""
    before = max(0, use[r, k] - limits[r])
    use[r, k] += change
    return weight[r] * (max(0, use[r, k] - limits[r]) - before)


@njit(cache=True, nogil=True)
def _move(
    v, to, part, item, first_member, members, sizes, fan_in, start, end, rows, reach, use, limits,
    weight, keys, counts, used,
):  # fmt: skip
    """Move an item, all sums with it; used[0] counts places of the table. Returns the change of
    the total excess."""
    parts = use.shape[1]
    own = np.int64(part[v])
    change = _bump(use, limits, weight, 0, own, -sizes[v])
    change += _bump(use, limits, weight, 0, to, sizes[v])
    change += _bump(use, limits, weight, 1, own, -fan_in[v])
    change += _bump(use, limits, weight, 1, to, fan_in[v])
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
            if home != own:
                change += _bump(use, limits, weight, 3, home, -1)
        at = _slot(keys, s * parts + to)
        if keys[at] < 0:
            keys[at] = s * parts + to
            used[0] += 1
        if counts[at] == 0:
            change += _bump(use, limits, weight, 2, to, 1)
            reach[s] += 1
            if home != to:
                change += _bump(use, limits, weight, 3, home, 1)
        counts[at] += several
    for m in range(first_member[v], first_member[v + 1]):
        u = np.int64(members[m])
        here = reach[u] - (1 if _count(keys, counts, u * parts + own) > 0 else 0)
        there = reach[u] - (1 if _count(keys, counts, u * parts + to) > 0 else 0)
        change += _bump(use, limits, weight, 3, own, -here)
        change += _bump(use, limits, weight, 3, to, there)
    part[v] = to
    return change


@njit(cache=True, nogil=True)
def _judge(
    v, to, leaving, part, item, sizes, fan_in, start, end, rows, use, limits, weight, keys, counts
):  # fmt: skip
    """About how a move changes the excess of the part it leads to, and how many sources are new.

    leaving : axons of the item itself that leave its part now; `_move` counts exactly
    """
    parts = use.shape[1]
    change = weight[0] * (
        max(0, use[0, to] + sizes[v] - limits[0]) - max(0, use[0, to] - limits[0])
    )
    change += weight[1] * (
        max(0, use[1, to] + fan_in[v] - limits[1]) - max(0, use[1, to] - limits[1])
    )
    new = 0
    previous = np.int64(-1)
    for e in range(start[v], end[v]):
        s = np.int64(rows[e])
        if s != previous and _count(keys, counts, s * parts + to) == 0:
            new += 1
            home = part[item[s]]
            if home != to and use[3, home] >= limits[3]:
                change += weight[3]
        previous = s
    change += weight[2] * (max(0, use[2, to] + new - limits[2]) - max(0, use[2, to] - limits[2]))
    change += weight[3] * (
        max(0, use[3, to] + leaving - limits[3]) - max(0, use[3, to] - limits[3])
    )
    return change, new


@njit(cache=True, nogil=True)
def _leaving(v, own, first_member, members, reach, parts, keys, counts):
    """Axons of an item that leave its part."""
    total = np.int64(0)
    for m in range(first_member[v], first_member[v + 1]):
        u = np.int64(members[m])
        total += reach[u] - (1 if _count(keys, counts, u * parts + own) > 0 else 0)
    return total


@njit(cache=True, nogil=True)
def _relief(v, own, leaving, sizes, fan_in, start, end, rows, use, limits, weight, keys, counts):
    """By about how much the excess of a part falls when an item leaves it."""
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
    total += weight[2] * min(gone, max(0, use[2, own] - limits[2]))
    return total + weight[3] * min(leaving, max(0, use[3, own] - limits[3]))


@njit(cache=True, nogil=True)
def _candidates(v, part, item, start, end, rows, active, active_list, roomy, turn, state, out):
    """Parts that an item might move to, the likely ones; returns how many."""
    count = 0
    own = part[v]
    length = end[v] - start[v]
    step = max(1, length // SAMPLE)
    for e in range(start[v], end[v], step):
        if count == NEAR:
            break
        k = part[item[rows[e]]]
        known = k == own or not active[k]
        for j in range(count):
            known |= out[j] == k
        if not known:
            out[count] = k
            count += 1
    for _ in range(SPREAD):
        k = active_list[draw_star(state, active_list.size)]
        if k != own:
            out[count] = k
            count += 1
    for j in range(min(ROOMY, roomy.size)):
        k = roomy[(turn + j) % roomy.size]
        if k != own:
            out[count] = k
            count += 1
    return count


@njit(cache=True, nogil=True)
def _relieve(
    queue, active, active_list, roomy, empty, items, next_item, previous_item, head, fixed, part,
    item, first_member, members, sizes, fan_in, start, end, rows, reach, use, limits, weight,
    keys, counts, used, work, chains, state,
):  # fmt: skip
    """Visit parts above their limits once; returns moves kept, and the change of the excess.

    queue : parts to visit; active, active_list : parts whose pairs are in the table
    roomy : parts with room, most first; empty : parts without items
    head, next_item, previous_item : items of each active part as lists, -1 at the ends
    fixed : items that never move; used : [places of the table in use, most allowed]
    work : [sources that may still be looked at]
    chains : first moves of a chain that are tried for a part
    """
    parts = use.shape[1]
    moved = 0
    total = np.int64(0)
    turn = 0
    next_empty = 0
    inside = np.empty(items.size, np.int64)
    value = np.empty(items.size, np.float64)
    wanted = np.empty(NEAR + SPREAD + ROOMY + 2, np.int64)
    for c in queue:
        if _over(use, limits, weight, c) == 0:
            continue
        n = 0
        v = head[c]
        while v >= 0:
            if not fixed[v]:
                inside[n] = v
                leaving = _leaving(v, c, first_member, members, reach, parts, keys, counts)
                relief = _relief(
                    v, c, leaving, sizes, fan_in, start, end, rows, use, limits, weight, keys,
                    counts,
                )  # fmt: skip
                # most relief first, light ones among equals
                value[n] = 1e-3 * float(end[v] - start[v]) - float(relief)
                work[0] -= end[v] - start[v]
                n += 1
            v = next_item[v]
        order = np.argsort(value[:n], kind="mergesort")
        for i in order:
            v = inside[i]
            if _over(use, limits, weight, c) == 0 or work[0] < 0:
                break
            leaving = _leaving(v, c, first_member, members, reach, parts, keys, counts)
            relief = _relief(
                v, c, leaving, sizes, fan_in, start, end, rows, use, limits, weight, keys, counts
            )
            if relief == 0:
                continue
            count = _candidates(
                v, part, item, start, end, rows, active, active_list, roomy, turn, state, wanted
            )
            turn += ROOMY
            while next_empty < empty.size and head[empty[next_empty]] >= 0:
                next_empty += 1
            if next_empty < empty.size:
                wanted[count] = empty[next_empty]
                count += 1
            best = np.int64(-1)
            least = np.int64(0)
            fewest = 0
            for j in range(count):
                change, new = _judge(
                    v, wanted[j], leaving, part, item, sizes, fan_in, start, end, rows, use,
                    limits, weight, keys, counts,
                )  # fmt: skip
                if best < 0 or change < least or (change == least and new < fewest):
                    best, least, fewest = wanted[j], change, new
            work[0] -= count * (end[v] - start[v])
            if best < 0 or least >= relief or used[0] + (end[v] - start[v]) >= used[1]:
                continue
            change = _move(
                v, best, part, item, first_member, members, sizes, fan_in, start, end, rows,
                reach, use, limits, weight, keys, counts, used,
            )  # fmt: skip
            if change >= 0:
                _move(
                    v, c, part, item, first_member, members, sizes, fan_in, start, end, rows,
                    reach, use, limits, weight, keys, counts, used,
                )  # fmt: skip
                continue
            total += change
            moved += 1
            _relink(v, c, best, head, next_item, previous_item)
        if _over(use, limits, weight, c) == 0 or active_list.size < 2:
            continue
        # A chain: one leaves for a part, another one of that part goes on, or comes back.
        for _ in range(chains):
            if _over(use, limits, weight, c) == 0 or work[0] < 0 or n == 0:
                break
            v = inside[draw_star(state, n)]
            to = active_list[draw_star(state, active_list.size)]
            length = end[v] - start[v]
            if length > 0 and draw_star(state, 4) > 0:  # mostly where a source is: fewer new ones
                near = part[item[rows[start[v] + draw_star(state, length)]]]
                to = near if active[near] else to
            if part[v] != c or to == c or used[0] + 2 * length >= used[1]:
                continue
            change = _move(
                v, to, part, item, first_member, members, sizes, fan_in, start, end, rows, reach,
                use, limits, weight, keys, counts, used,
            )  # fmt: skip
            work[0] -= 2 * length
            kept = change < 0
            if kept:
                total += change
                moved += 1
                _relink(v, c, to, head, next_item, previous_item)
                continue
            u = head[to]
            for _ in range(draw_star(state, 2 * LINKS)):  # not always the same ones
                if u >= 0 and next_item[u] >= 0:
                    u = next_item[u]
            for tried in range(LINKS):
                if u < 0:
                    break
                following = next_item[u]
                onward = c if tried % 2 == 0 else active_list[draw_star(state, active_list.size)]
                length = end[u] - start[u]
                if fixed[u] or onward == to or used[0] + 2 * length >= used[1]:
                    u = following
                    continue
                further = _move(
                    u, onward, part, item, first_member, members, sizes, fan_in, start, end, rows,
                    reach, use, limits, weight, keys, counts, used,
                )  # fmt: skip
                work[0] -= 2 * length
                # A step aside now and then leads out of a dead end.
                if change + further < 0 or (change + further == 0 and draw_star(state, 4) == 0):
                    total += change + further
                    moved += 2
                    kept = True
                    _relink(v, c, to, head, next_item, previous_item)
                    _relink(u, to, onward, head, next_item, previous_item)
                    break
                _move(
                    u, to, part, item, first_member, members, sizes, fan_in, start, end, rows,
                    reach, use, limits, weight, keys, counts, used,
                )  # fmt: skip
                u = following
            if not kept:
                _move(
                    v, c, part, item, first_member, members, sizes, fan_in, start, end, rows,
                    reach, use, limits, weight, keys, counts, used,
                )  # fmt: skip
    return moved, total


@njit(cache=True, nogil=True)
def _relink(v, own, to, head, next_item, previous_item):
    """Take an item out of the list of one part and put it in front of that of another."""
    before, after = previous_item[v], next_item[v]
    if before >= 0:
        next_item[before] = after
    else:
        head[own] = after
    if after >= 0:
        previous_item[after] = before
    previous_item[v] = -1
    next_item[v] = head[to]
    if head[to] >= 0:
        previous_item[head[to]] = v
    head[to] = v
