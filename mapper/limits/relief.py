"""Local search that brings parts within all of their limits.

It minimises the total excess over all limits, after the feasibility phases of local search for bin
packing with shared items: a part above a limit gives items to parts that already have most of
their sources, or exchanges them through a chain of two moves. A move that raises the excess is
undone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from mapper.limits.exchange import LEAST, _judge, _leaving, _move, _over, _relief
from mapper.random_numbers import draw_star
from storage.arrays import Int64, Mask

OF_SOURCES, SPREAD, ROOMY = 6, 12, 6  # candidates: parts of sources, random parts, parts with slack
SAMPLE = 64  # sources of a vertex whose parts are looked up
PULLS = 4  # ratio of items tried per part below its least size to chains
LINKS = 12  # second moves tried after each first move of a chain


class LinkedLists(NamedTuple):
    """Linked lists of the items of each active part, -1 at the ends."""

    head: Int64
    next_item: Int64
    previous_item: Int64


class Targets(NamedTuple):
    """Parts that items may move to.

    active, listed : parts whose pairs are in the table, as a mask and a list
    roomy : parts with slack, most first
    empty : parts without items
    """

    active: Mask
    listed: Int64
    roomy: Int64
    empty: Int64


class Tally(NamedTuple):
    """Counters and random numbers of a search, all changed.

    work : [sources that may still be visited]
    kept : [moves kept, change of the excess]
    turn : [first part with slack that is tried next, first empty part]
    state : of the random numbers
    """

    work: Int64
    kept: Int64
    turn: Int64
    state: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def _link(items, part, lists):
    """Link the items of each part into a list, in order."""
    head, next_item, previous_item = lists
    for j in range(items.size - 1, -1, -1):
        v = items[j]
        k = part[v]
        previous_item[v] = -1
        next_item[v] = head[k]
        if head[k] >= 0:
            previous_item[head[k]] = v
        head[k] = v


@njit(cache=True, nogil=True)
def _relink(v, own, to, lists):
    """Move an item from the list of one part to the front of another."""
    head, next_item, previous_item = lists.head, lists.next_item, lists.previous_item
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


@njit(cache=True, nogil=True)
def _candidates(v, part, net, targets, turn, state, out):
    """Write likely target parts of an item to `out`; return their number."""
    item, start, end, rows = net.item, net.start, net.end, net.rows
    active, active_list, roomy = targets.active, targets.listed, targets.roomy
    domain = net.domain[net.kind[v]]
    count = 0
    own = part[v]
    length = end[v] - start[v]
    step = max(1, length // SAMPLE)
    for e in range(start[v], end[v], step):
        if count == OF_SOURCES:
            break
        k = part[item[rows[e]]]
        known = k == own or not active[k] or not domain[k]
        for j in range(count):
            known |= out[j] == k
        if not known:
            out[count] = k
            count += 1
    for _ in range(SPREAD):
        k = active_list[draw_star(state, active_list.size)]
        if k != own and domain[k]:
            out[count] = k
            count += 1
    for j in range(min(ROOMY, roomy.size)):
        k = roomy[(turn + j) % roomy.size]
        if k != own and domain[k]:
            out[count] = k
            count += 1
    return count


@njit(cache=True, nogil=True)
def _best_target(v, leaving, targets, lists, net, search, tally):
    """Return the part where an item raises the excess least, -1 if there is none, and the change.

    Ties go to the part with the fewest new sources.
    """
    wanted = np.empty(OF_SOURCES + SPREAD + ROOMY + 2, np.int64)
    empty, turn = targets.empty, tally.turn
    count = _candidates(v, search.part, net, targets, turn[0], tally.state, wanted)
    turn[0] += ROOMY
    while turn[1] < empty.size and lists.head[empty[turn[1]]] >= 0:
        turn[1] += 1
    if turn[1] < empty.size and net.domain[net.kind[v], empty[turn[1]]]:
        wanted[count] = empty[turn[1]]
        count += 1
    best = np.int64(-1)
    least = np.int64(0)
    fewest = 0
    for j in range(count):
        change, new = _judge(v, wanted[j], leaving, net, search)
        if best < 0 or change < least or (change == least and new < fewest):
            best, least, fewest = wanted[j], change, new
    tally.work[0] -= count * (net.end[v] - net.start[v])
    return best, least


@njit(cache=True, nogil=True)
def _by_relief(c, lists, net, search, work, inside):
    """Write the movable items of a part to `inside`; return their order, largest relief first.

    Ties go to the item with the fewest sources.
    """
    value = np.empty(inside.size, np.float64)
    n = 0
    v = lists.head[c]
    while v >= 0:
        if not net.fixed[v]:
            inside[n] = v
            relief = _relief(v, c, _leaving(v, c, net, search), net, search)
            value[n] = 1e-3 * float(net.end[v] - net.start[v]) - float(relief)
            work[0] -= net.end[v] - net.start[v]
            n += 1
        v = lists.next_item[v]
    return np.argsort(value[:n], kind="mergesort")


@njit(cache=True, nogil=True)
def _move_out(c, items, targets, lists, net, search, tally):
    """Move items out of a part, in order, until it is within its limits."""
    _, _, use, limits, weight, _, _, used, _ = search
    for v in items:
        if _over(use, limits, weight, c) == 0 or tally.work[0] < 0:
            break
        leaving = _leaving(v, c, net, search)
        relief = _relief(v, c, leaving, net, search)
        if relief == 0:
            continue
        best, least = _best_target(v, leaving, targets, lists, net, search, tally)
        if best < 0 or least >= relief or used[0] + (net.end[v] - net.start[v]) >= used[1]:
            continue
        change = _move(v, best, net, search)
        if change >= 0:
            _move(v, c, net, search)
            continue
        tally.kept[0] += 1
        tally.kept[1] += change
        _relink(v, c, best, lists)


@njit(cache=True, nogil=True)
def _pull_in(c, tries, targets, lists, net, search, tally):
    """Move items of other parts into a part below its least size, if that lowers the excess.

    Candidates are the first items of random parts, mostly of parts with sources of its items.
    """
    item, start, end, rows = net.item, net.start, net.end, net.rows
    part, use, limits, used = search.part, search.use, search.limits, search.used
    active, listed, state = targets.active, targets.listed, tally.state
    for _ in range(tries):
        if use[LEAST, c] <= limits[LEAST] or tally.work[0] < 0:
            break
        k = listed[draw_star(state, listed.size)]
        u = lists.head[c]
        if u >= 0 and end[u] > start[u] and draw_star(state, 4) > 0:
            near = part[item[rows[start[u] + draw_star(state, end[u] - start[u])]]]
            k = near if active[near] else k
        v = lists.head[k]
        for _ in range(draw_star(state, 2 * LINKS)):
            if v >= 0 and lists.next_item[v] >= 0:
                v = lists.next_item[v]
        if v < 0 or k == c or net.fixed[v] or not net.domain[net.kind[v], c]:
            continue
        length = end[v] - start[v]
        if used[0] + 2 * length >= used[1]:
            break
        change = _move(v, c, net, search)
        tally.work[0] -= length + 1
        if change >= 0:
            _move(v, k, net, search)
            continue
        tally.kept[0] += 1
        tally.kept[1] += change
        _relink(v, k, c, lists)


@njit(cache=True, nogil=True)
def _second_move(c, to, change, targets, lists, net, search, tally):
    """After a move from part c, move an item of its target on or back; return that item, or -1.

    change : of the excess by the first move. The second move is kept if both lower the excess;
        sometimes a neutral chain is kept, to leave local minima.
    """
    used, state = search.used, tally.state
    u = lists.head[to]
    for _ in range(draw_star(state, 2 * LINKS)):  # random start in the list
        if u >= 0 and lists.next_item[u] >= 0:
            u = lists.next_item[u]
    for tried in range(LINKS):
        if u < 0:
            break
        following = lists.next_item[u]
        onward = c if tried % 2 == 0 else targets.listed[draw_star(state, targets.listed.size)]
        length = net.end[u] - net.start[u]
        movable = not net.fixed[u] and net.domain[net.kind[u], onward]
        if movable and onward != to and used[0] + 2 * length < used[1]:
            further = change + _move(u, onward, net, search)
            tally.work[0] -= 2 * length
            if further < 0 or (further == 0 and draw_star(state, 4) == 0):
                tally.kept[0] += 2
                tally.kept[1] += further
                return u
            _move(u, to, net, search)
        u = following
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _exchange_in_chains(c, inside, chains, targets, lists, net, search, tally):
    """Try chains: an item of part c moves to another part, and an item of that part on or back."""
    item, start, end, rows = net.item, net.start, net.end, net.rows
    part, _, use, limits, weight, _, _, used, _ = search
    active, listed, state = targets.active, targets.listed, tally.state
    for _ in range(chains):
        if _over(use, limits, weight, c) == 0 or tally.work[0] < 0:
            break
        v = inside[draw_star(state, inside.size)]
        to = listed[draw_star(state, listed.size)]
        length = end[v] - start[v]
        if length > 0 and draw_star(state, 4) > 0:  # mostly to a source's part
            near = part[item[rows[start[v] + draw_star(state, length)]]]
            to = near if active[near] else to
        if part[v] != c or to == c or used[0] + 2 * length >= used[1]:
            continue
        if not net.domain[net.kind[v], to]:
            continue
        change = _move(v, to, net, search)
        tally.work[0] -= 2 * length
        if change < 0:
            tally.kept[0] += 1
            tally.kept[1] += change
            _relink(v, c, to, lists)
            continue
        u = _second_move(c, to, change, targets, lists, net, search, tally)
        if u < 0:
            _move(v, c, net, search)
            continue
        onward = np.int64(part[u])
        _relink(v, c, to, lists)
        _relink(u, to, onward, lists)


@njit(cache=True, nogil=True)
def _relieve(queue, targets, lists, net, search, work, chains, state):
    """Visit parts above their limits once; return moves kept, and the change of the excess.

    queue : parts to visit
    work : [sources that may still be visited]
    chains : first moves of a chain tried per part
    """
    use, limits, weight = search.use, search.limits, search.weight
    tally = Tally(work, np.zeros(2, np.int64), np.zeros(2, np.int64), state)
    inside = np.empty(net.fixed.size, np.int64)
    for c in queue:
        if _over(use, limits, weight, c) == 0:
            continue
        if limits.size > LEAST and use[LEAST, c] > limits[LEAST]:
            _pull_in(c, PULLS * chains, targets, lists, net, search, tally)
        order = _by_relief(c, lists, net, search, work, inside)
        items = inside[: order.size]
        _move_out(c, items[order], targets, lists, net, search, tally)
        if targets.listed.size > 1 and items.size > 0:
            _exchange_in_chains(c, items, chains, targets, lists, net, search, tally)
    return tally.kept[0], tally.kept[1]
