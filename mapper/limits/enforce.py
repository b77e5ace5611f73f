"""Repair of a partition with parts above a limit, in bounded memory.

Each pass gathers the incoming synapses of the parts above a limit and of as many other parts as fit
in memory, and lets `mapper.limits.relief` move vertices between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.concurrency.threads import ThreadTeam
from mapper.graph.by_label import by_label, sums_by_label
from mapper.limits.domains import Domains
from mapper.limits.exchange import LEAST, ExchangeSearch, Net, _fill_table
from mapper.limits.relief import LinkedLists, Targets, _link, _relieve
from mapper.limits.use import (
    AXONS_IN,
    NEURONS,
    NO_BITS,
    SYNAPSES,
    BitCosts,
    Use,
    count_use,
    excess,
    weight_of_excess,
)
from storage.arrays import Int32, Int64, Mask
from storage.graph import Graph

PASSES = 40
ROUNDS = 12  # visits to the parts above a limit per pass
PAIR_BYTES = 24  # bytes per (source, part) pair: key, count and as much slack
ROW_BYTES = 4
STALL = 0.99  # a pass that leaves more than this share of the excess counts as stalled
STALLED_PASSES = 6  # stalled passes in a row that end a repair
CHAINS, MORE_CHAINS = 48, 1 << 14  # chains tried per part; total over the last few parts
WORK = 100  # maximum visits per gathered source in a pass
LEAST_WORK = 50_000_000  # source visits that are always allowed
IN_ALL = 2  # such passes, over all synapses, in all repairs that share an `RepairBudget`


@njit(cache=True, nogil=True)
def _collect(first, indptr, ids, incoming, undirected, item, cursor, rows):
    """Append the sources of the neurons of a block to the rows of their items.

    cursor : position for the next source of each item, -1 for items that are not gathered
    """
    for i in range(indptr.size - 1):
        v = item[first + i]
        if cursor[v] < 0:
            continue
        at = cursor[v]
        for e in range(indptr[i], indptr[i + 1]):
            if undirected or incoming[e] > 0:
                rows[at] = ids[e]
                at += 1
        cursor[v] = at


@dataclass(frozen=True, slots=True)
class Items:
    """Units of movement: single neurons, or neurons that are kept together.

    item : ndarray[int32], shape (neurons,), item of every neuron, 0 .. count-1
    fixed : ndarray[bool], shape (count,), items that do not move
    domains : of the items; None if they may be everywhere
    """

    item: Int32
    fixed: Mask
    domains: Domains | None = None

    @classmethod
    def single(cls, neurons: int) -> Items:
        """Return items of one neuron each, all free to move."""
        return cls(np.arange(neurons, dtype=np.int32), np.zeros(neurons, np.bool_))

    @property
    def count(self) -> int:
        return self.fixed.size

    def total(self, values: Int64) -> Int64:
        """Return sums over the neurons of each item, shape (count,)."""
        if self.count == self.item.size:  # items are the neurons
            return values
        return sums_by_label(self.item, values, self.count)

    def members(self) -> tuple[Int64, Int32]:
        """Return the start of each item in the list of neurons, and that list."""
        members, start, _ = by_label(self.item, self.count)
        return start, members


@dataclass(frozen=True, slots=True)
class Load:
    """A network and the limits of a core.

    sizes, fan_in : ndarray[int64], shape (neurons,)
    limits : ndarray[int64], shape (5,), or (6,) with least sizes, see `mapper.limits.least_fill`
    copies : neurons have a single target core, and copies for further ones
    bits : of a memory that neurons and synapses share
    reserved : ndarray[int64], shape (limits, parts), counted as use of each part; None for nothing
    """

    graph: Graph
    sizes: Int64
    fan_in: Int64
    limits: Int64
    copies: bool = False
    bits: BitCosts = NO_BITS
    reserved: Int64 | None = None

    def count(self, part: Int32, parts: int, team: ThreadTeam) -> Use:
        """Return the use of all parts, with the reserved room in them."""
        use = count_use(
            self.graph, part, parts, self.sizes, self.fan_in, team, self.copies, self.bits
        )
        if self.limits.size > LEAST:
            use = Use(np.vstack([use.table, -use.table[NEURONS]]), use.reach)
        if self.reserved is not None:
            use.table[:] += self.reserved
        return use


@dataclass(slots=True)
class RepairBudget:
    """Remaining work budget of repairs, in visited sources; the same on every machine.

    stopped : a repair ended because the budget was used up or the rest was out of reach
    """

    left: int
    stopped: bool = False

    @classmethod
    def of(cls, load: Load) -> RepairBudget:
        return cls(IN_ALL * (WORK * int(load.fan_in.sum()) + LEAST_WORK))


def repair(
    load: Load,
    items: Items,
    place: Int32,
    parts: int,
    allowed: Mask,
    memory: int,
    seed: int,
    team: ThreadTeam,
    effort: RepairBudget | None = None,
) -> Use:
    """Move items until no part is above a limit, no move helps, or the work budget is used up.

    place : ndarray[int32], shape (items,), part of every item; changed in place
    allowed : ndarray[bool], shape (parts,), parts that may receive items
    memory : bytes for the synapses and sources of the active parts
    effort : budget shared with other repairs; None: a new one

    Returns the recounted use of all parts. The result does not depend on the number of threads.
    """
    limits = load.limits
    rng = np.random.default_rng([seed, 31])
    use = load.count(place[items.item], parts, team)
    left = int(excess(use.table, limits).sum())
    stalled = 0
    effort = effort or RepairBudget.of(load)
    for number in range(PASSES):
        if left == 0:
            break
        if effort.left <= 0:
            effort.stopped = True
            break
        active = _choose(use, limits, allowed, memory, rng)
        _exchange(load, items, place, use, active, allowed, rng, team, effort)
        use = load.count(place[items.item], parts, team)
        before, left = left, int(excess(use.table, limits).sum())
        stalled = stalled + 1 if left > STALL * before or _hopeless(before, left, number) else 0
        if stalled == STALLED_PASSES:
            effort.stopped = True
            break
    return use


def _hopeless(before: int, left: int, number: int) -> bool:
    """Return whether the remaining passes, at the present rate, cannot remove the excess.

    Later passes usually remove less than earlier ones.
    """
    return left > (before - left) * (PASSES - 1 - number)


def _choose(use: Use, limits: Int64, allowed: Mask, memory: int, rng: np.random.Generator) -> Mask:
    """Choose active parts: above a limit in half of the memory, with slack in the rest."""
    over = excess(use.table, limits)
    cost = PAIR_BYTES * use.table[AXONS_IN] + ROW_BYTES * use.table[SYNAPSES]
    filled = (use.table / limits[:, None])[:LEAST].max(axis=0) + 0.1 * rng.random(cost.size)
    first = np.flatnonzero(over)
    first = first[np.argsort(-over[first], kind="stable")]
    taken = first[: max(1, int(np.searchsorted(np.cumsum(cost[first]), memory // 2)))]
    rest = memory - int(cost[taken].sum())
    others = np.flatnonzero((over == 0) & allowed)
    others = others[np.argsort(filled[others], kind="stable")]
    fits = others[: int(np.searchsorted(np.cumsum(cost[others]), rest, side="right"))]
    active = np.zeros(cost.size, np.bool_)
    active[taken] = active[fits] = True
    return active


def _exchange(
    load: Load,
    items: Items,
    place: Int32,
    use: Use,
    active: Mask,
    allowed: Mask,
    rng: np.random.Generator,
    team: ThreadTeam,
    effort: RepairBudget,
) -> None:
    """Run one pass: gather and move; `place` changes in place, `use` becomes stale."""
    graph, limits, weight = load.graph, load.limits, weight_of_excess(load.limits)
    parts = active.size
    inside = np.flatnonzero(active[place]).astype(np.int64)
    fan_in, sizes = items.total(load.fan_in), items.total(load.sizes)
    start = np.full(items.count, -1, np.int64)
    start[inside] = np.r_[0, np.cumsum(fan_in[inside])[:-1]] if inside.size else 0
    cursor = start.copy()
    rows = np.empty(int(fan_in[inside].sum()), np.int32)
    for block in graph.blocks(threads=team.threads):
        _collect(
            block.first, block.indptr, block.ids, block.incoming, graph.undirected, items.item,
            cursor, rows,
        )  # fmt: skip
    end = cursor
    first_member, members = items.members()
    for v in np.flatnonzero(np.diff(first_member) > 1):  # sort sources of several neurons
        rows[start[v] : end[v]].sort()

    pairs = int(use.table[AXONS_IN, active].sum())
    if load.reserved is not None:
        pairs -= int(load.reserved[AXONS_IN, active].sum())
    most_pairs = pairs + pairs // 2 + 4 * int(fan_in.max(initial=0)) + 64
    keys, counts = (
        np.full(most_pairs + most_pairs // 4, -1, np.int64),
        np.zeros(most_pairs + most_pairs // 4, np.int32),
    )
    used = np.array([_fill_table(inside, start, end, rows, place, parts, keys, counts), most_pairs])
    bits = load.bits.of(sizes, fan_in)
    domains = items.domains or Domains.of_fixed(items.fixed, parts)
    net = Net(
        items.item, first_member, members, sizes, fan_in, bits, start, end, rows, items.fixed,
        domains.kind, domains.table,
    )  # fmt: skip
    search = ExchangeSearch(
        place, use.reach, use.table, limits, weight, keys, counts, used, load.copies
    )
    lists = LinkedLists(np.full(parts, -1, np.int64), *np.full((2, items.count), -1, np.int64))
    _link(inside, place, lists)
    targets = np.flatnonzero(active & allowed)
    state = rng.integers(1, 2**63, 1, dtype=np.uint64)
    allotted = min(WORK * rows.size + LEAST_WORK, effort.left)
    work = np.array([allotted], np.int64)
    for _ in range(ROUNDS):
        over = excess(use.table, limits)
        queue = np.flatnonzero((over > 0) & active)
        if not queue.size or work[0] < 0:
            break
        scaled = (use.table / limits[:, None])[:LEAST].max(axis=0)
        roomy = targets[np.argsort(scaled[targets], kind="stable")]
        roomy = roomy[over[roomy] == 0]
        empty = targets[lists.head[targets] < 0]
        goals = Targets(active & allowed, targets, roomy[: max(64, roomy.size // 4)], empty)
        chains = max(CHAINS, MORE_CHAINS // queue.size)
        moved, _ = _relieve(rng.permutation(queue), goals, lists, net, search, work, chains, state)
        if not moved:
            break
    effort.left -= allotted - int(work[0])
