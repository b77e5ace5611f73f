"""Allocation of the capacity of cores to kinds of items.

Without keep-apart constraints this is a transportation problem: each kind has a demand, each core a
capacity, and a kind uses some cores only. Kinds take capacity in order, the one with the least
slack first; if a kind comes short, it gets capacity along augmenting paths over kinds (Ford and
Fulkerson, Canadian Journal of Mathematics 8, 1956), so the result is exact for divisible demands.
Kinds that must be apart first divide the cores among themselves, by a greedy rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mapper.limits.kinds import Kinds
from storage.arrays import Float64, Int64, Mask

PATHS = 1000  # augmenting paths per kind, at most
TRADES = 48  # cores that change from one kind to another in a division, at most
ROUNDS = 16  # divisions of the cores that are tried, at most
WORK = 1 << 20  # kinds times cores of all divisions that are tried


@dataclass(frozen=True, slots=True)
class Allocation:
    """Capacity of cores that each kind uses.

    amount : ndarray[int64], shape (kinds, cores)
    short : ndarray[int64], shape (kinds,), demand without capacity
    """

    amount: Int64
    short: Int64


def allocate(wanted: Int64, room: Int64, allowed: Mask, order: Int64) -> Allocation:
    """Allocate the capacity of cores to kinds.

    wanted : ndarray[int64], shape (kinds, cores), present amounts, of which as much as possible
        stays; the sum of a row is the demand of a kind
    room : ndarray[int64], shape (cores,)
    allowed : ndarray[bool], shape (kinds, cores)
    order : all cores, in the order in which they are filled
    """
    demand = wanted.sum(axis=1)
    slack = allowed @ room - demand
    amount, short = np.zeros_like(wanted), np.zeros_like(demand)
    for k in np.argsort(slack, kind="stable"):
        free = np.where(allowed[k], room - amount.sum(axis=0), 0)
        stays = np.minimum(wanted[k], free)
        amount[k] = stays
        left = int(demand[k] - stays.sum())
        amount[k] += _first(free - stays, left, order)
        left = int(demand[k] - amount[k].sum())
        for _ in range(PATHS):
            if left == 0:
                break
            gained = _augment(int(k), left, amount, room, allowed)
            if gained == 0:
                break
            left -= gained
        short[k] = left
    return Allocation(amount, short)


def _first(free: Int64, total: int, order: Int64) -> Int64:
    """Return the capacity that a total uses on each core if it fills core after core."""
    ordered = free[order]
    taken = np.zeros_like(free)
    taken[order] = np.clip(total - (np.cumsum(ordered) - ordered), 0, ordered)
    return taken


def _augment(k: int, most: int, amount: Int64, room: Int64, allowed: Mask) -> int:
    """Give a kind more capacity, by moving other kinds along a shortest path; return the gain."""
    free = room - amount.sum(axis=0)
    before = {k: -1}
    queue = [k]
    for i in queue:
        spare = int(free[allowed[i]].sum())
        if spare > 0 and i != k:
            break
        reached = (allowed[i] & (amount > 0)).any(axis=1)
        for j in np.flatnonzero(reached).tolist():
            if j not in before:
                before[j] = i
                queue.append(j)
    else:
        return 0
    path = [i]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])  # from the kind with free cores to k
    gain = min(most, spare)
    for j, i in pairwise(path):
        gain = min(gain, int(amount[j, allowed[i]].sum()))
    cores = np.arange(room.size)
    target = _first(np.where(allowed[path[0]], free, 0), gain, cores)
    for j, i in pairwise(path):
        source = _first(np.where(allowed[i], amount[j], 0), gain, cores)
        amount[j] += target - source
        target = source
    amount[k] += target
    return gain


def divide_cores(kinds: Kinds, allowed: Mask, wanted: Int64, room: Int64, order: Int64) -> Mask:
    """Return allowed cores of which kinds that must be apart share none.

    Kinds that come short choose their cores earlier in the next round (Joslin and Clements,
    "Squeaky Wheel" Optimization, Journal of Artificial Intelligence Research 10, 1999).

    allowed : ndarray[bool], shape (kinds, cores)
    other parameters : see `allocate`
    """
    if not kinds.apart.any():
        return allowed.copy()
    best, least = allowed, -1
    urgency = np.ones(allowed.shape[0])
    for _ in range(max(1, min(ROUNDS, WORK // allowed.size))):
        table = _divided(kinds, allowed, wanted, room, order, urgency)
        table, short = _traded(kinds, allowed, table, wanted, room, order)
        total = int(short.sum())
        if least < 0 or total < least:
            best, least = table, total
        if total == 0:
            break
        urgency[short > 0] *= 2
    return best


def _divided(
    kinds: Kinds, allowed: Mask, wanted: Int64, room: Int64, order: Int64, urgency: Float64
) -> Mask:
    """Return a division of the cores; kinds choose in the order of their need times urgency."""
    involved = np.flatnonzero(kinds.apart.any(axis=1))
    table = allowed.copy()
    table[involved] = False
    demand = wanted.sum(axis=1)
    reach = np.maximum(allowed @ room, 1)
    pressure = allowed * (urgency * demand / reach)[:, None] * room
    queues = {}
    for k in involved.tolist():
        rivals = kinds.apart[k]
        score = wanted[k] - wanted[rivals].max(axis=0) - pressure[rivals].max(axis=0)
        ranked = order[np.argsort(-score[order], kind="stable")]
        queues[k] = iter(ranked[allowed[k, ranked]].tolist())
    granted = np.zeros_like(demand)
    tightness = reach / (np.maximum(demand, 1) * urgency)
    while queues:
        short = [k for k in queues if granted[k] < demand[k]]
        if short:
            k = min(short, key=lambda k: (tightness[k], k))
        else:
            k = min(queues, key=lambda k: (granted[k] / max(1, demand[k]), k))
        core = next((c for c in queues[k] if not table[kinds.apart[k], c].any()), None)
        if core is None:
            del queues[k]
            continue
        table[k, core] = True
        granted[k] += room[core]
    return table


def _traded(
    kinds: Kinds, allowed: Mask, table: Mask, wanted: Int64, room: Int64, order: Int64
) -> tuple[Mask, Int64]:
    """Trade divided cores: kinds that come short get cores of kinds with spare capacity.

    Returns the cores of each kind, and its demand without capacity.
    """
    table = table.copy()
    best, least = table.copy(), allocate(wanted, room, table, order).short
    demand = wanted.sum(axis=1)
    short = least
    for _ in range(TRADES):
        if not short.any():
            break
        k = int(short.argmax())
        rivals = kinds.apart[k]
        candidates = np.flatnonzero(allowed[k] & ~table[k])
        if not candidates.size or not rivals.any():
            break
        spare = table @ room - demand - room[candidates].max()
        cost = np.where(table[:, candidates], -spare[:, None], -(1 << 62))[rivals].max(axis=0)
        core = int(candidates[cost.argmin()])
        table[rivals, core] = False
        table[k, core] = True
        short = allocate(wanted, room, table, order).short
        if short.sum() < least.sum():
            best, least = table.copy(), short
    return best, least


def short_of_cores(kinds: Kinds, needed: Int64, room: Int64, name: str) -> str:
    """Return why kinds of items cannot fit on their cores, in one line; empty if they may fit.

    needed : ndarray[int64], shape (items,), use of a limit
    room : ndarray[int64], shape (cores,), limit of each core; name : of the limit
    """
    rows, cores = kinds.allowed.shape
    demand = np.zeros(rows, np.int64)
    np.add.at(demand, kinds.kind, needed)
    wanted = np.zeros((rows, cores), np.int64)
    wanted[np.arange(rows), kinds.allowed.argmax(axis=1)] = demand
    found = allocate(wanted, room, kinds.allowed, np.arange(cores))
    if found.short.any():
        tight = _closure(int(found.short.argmax()), found.amount, kinds.allowed)
        inside = kinds.allowed[tight].any(axis=0)
        total, capacity = int(demand[tight].sum()), int(room[inside].sum())
        names = kinds.shown(tight)
        return (
            f"{names}: needs {total:,} {name}; the {np.count_nonzero(inside):,} cores that these "
            f"neurons may use hold {capacity:,} ({total - capacity:,} short); give more cores or "
            "larger cores"
        )
    least = -(-demand // int(room.max()))
    for k in np.flatnonzero(kinds.apart.any(axis=1)):
        rivals = [int(k)]  # kinds that must all be apart from each other
        for j in np.flatnonzero(kinds.apart[k]):
            if kinds.apart[j][rivals].all():
                rivals.append(int(j))
        inside = kinds.allowed[rivals].any(axis=0)
        total, available = int(least[rivals].sum()), int(np.count_nonzero(inside))
        if total > available:
            names = kinds.shown(np.array(rivals))
            return (
                f"{names}: needs {total:,} cores for {name} of groups that are kept apart; these "
                f"neurons may use {available:,} ({total - available:,} short); give more cores or "
                "larger cores"
            )
    return ""


def _closure(k: int, amount: Int64, allowed: Mask) -> Int64:
    """Return a kind that comes short, and all kinds that its cores are full of."""
    found = [k]
    for i in found:
        for j in np.flatnonzero((allowed[i] & (amount > 0)).any(axis=1)).tolist():
            if j not in found:
                found.append(j)
    return np.sort(np.array(found))
