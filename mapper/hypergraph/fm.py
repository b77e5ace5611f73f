"""K-way refinement of connectivity: localised FM with a gain table.

A vertex v that moves from part s to part t gains the weight of its nets without another pin in s,
and loses the weight of its nets without a pin in t. The pin counts of each net per part, and for
every vertex and part the weight of its nets that reach the part, are kept up to date, so that gains
are table lookups (the gain table of Gottesbueren, Heuer, Sanders and Schlag, ALENEX 2021). Searches
start from a few boundary vertices, repeatedly apply the best move, even at a loss, and roll back to
the best state (Sanders and Schulz, ESA 2011; Akhremtsev, Sanders and Schulz,
"High-quality shared-memory graph partitioning", 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from mapper.graph.heap import remove, sift_down, sift_up
from mapper.hypergraph.gains import new_queue, new_state
from mapper.hypergraph.hypergraph import Hypergraph
from storage.arrays import Int32, Int64

SETTLED = 1000  # passes end when one gains less than 1/SETTLED of the connectivity
GAIN_BYTES = 8  # bytes per vertex and part in the gain table
EVERYWHERE = 1 << 40  # seeds of a search: the whole boundary
LONG = 300  # patience of such a search
ENOUGH = 1 << 60  # a budget without limit
WIDE = 512  # nets with more pins do not add their vertices to a search


@njit(cache=True, nogil=True)
def _clear(q):
    """Unlock all vertices and empty the queue."""
    for v in range(q.place.size):
        q.locked[v] = 0
        q.place[v] = -1
        q.target[v] = -1


@njit(cache=True, nogil=True)
def _best_target(s, v):
    """Return a vertex's best part with slack, -1 if there is none, and the cost of the move."""
    best = -1
    most = np.int64(-1)
    own = s.part[v]
    row = s.reach[v]
    for k in range(row.size):
        r = row[k]
        if k == own or r < most or (r == 0 and s.alone[v] < s.strength[v]):
            continue
        if s.block_weights[k] + s.sizes[v] > s.capacities[k]:
            continue
        if r > most or s.block_weights[k] < s.block_weights[best]:
            best = k
            most = r
    return best, s.strength[v] - s.alone[v] - most


@njit(cache=True, nogil=True)
def _queue(q, u, target, cost, length):
    """Insert or update a vertex in the queue, or remove it if it has no target.

    Returns the length of the queue.
    """
    if target < 0:
        if q.place[u] >= 0:
            length = remove(q.heap, q.place, q.cost, u, length)
        return length
    q.target[u] = target
    q.cost[u] = cost
    if q.place[u] < 0:
        q.heap[length] = u
        q.place[u] = length
        length += 1
        sift_up(q.heap, q.place, q.cost, length - 1)
    else:
        sift_up(q.heap, q.place, q.cost, q.place[u])
        sift_down(q.heap, q.place, q.cost, q.place[u], length)
    return length


@njit(cache=True, nogil=True)
def _update(s, q, u, length):
    """Queue a vertex with its best move to a part that its nets reach; return the length."""
    target, cost = _best_target(s, u)
    return _queue(q, u, target, cost, length)


@njit(cache=True, nogil=True)
def _update_touched(s, q, own, to, count, length):
    """Queue the vertices whose gains a move from part `own` to `to` changed; return the length.

    Unless a vertex's best part was `own`, only `to`, or `own` with new slack, can have become
    better; whether a part is full is checked again at the time of a move.
    """
    for i in range(count):
        u = q.touched[i]
        q.marked[u] = 0
        best = q.target[u]
        if q.place[u] < 0 or best == own:
            length = _update(s, q, u, length)
            continue
        for turn in range(2):
            k = to if turn else own
            better = k != s.part[u] and s.reach[u, k] > s.reach[u, best]
            if better and s.block_weights[k] + s.sizes[u] <= s.capacities[k]:
                best = k
        cost = s.strength[u] - s.alone[u] - s.reach[u, best]
        if best != q.target[u] or cost != q.cost[u]:
            length = _queue(q, u, best, cost, length)
    return length


@njit(cache=True, nogil=True)
def _move(s, q, v, to, length, follow):
    """Move a vertex; update all gains and the queue; return the length of the queue.

    follow : add vertices whose gains change to the queue
    """
    own = s.part[v]
    late = q.work[1] > 0
    count = 0
    s.part[v] = to
    s.block_weights[own] -= s.sizes[v]
    s.block_weights[to] += s.sizes[v]
    for i in range(s.vertex_start[v], s.vertex_start[v + 1]):
        e = s.nets[i]
        w = s.weights[e]
        low, high = s.start[e], s.start[e + 1]
        first = s.slot_start[e]
        last = first + s.used[e]
        at = first
        while s.slot_part[at] != own:
            at += 1
        s.slot_count[at] -= 1
        left = s.slot_count[at]
        if left == 0:
            last -= 1
            s.slot_part[at] = s.slot_part[last]
            s.slot_count[at] = s.slot_count[last]
            s.used[e] -= 1
            s.alone[v] -= w
        at = first
        while at < last and s.slot_part[at] != to:
            at += 1
        if at == last:
            s.slot_part[at] = to
            s.slot_count[at] = 0
            s.used[e] += 1
            s.alone[v] += w
        s.slot_count[at] += 1
        came = s.slot_count[at]
        if left > 1 and came > 2:
            continue
        q.work[0] += high - low
        joins = follow and high - low <= WIDE
        for p in range(low, high):
            u = s.pins[p]
            k = s.part[u]
            changed = False
            if left == 0:
                s.reach[u, own] -= w
                changed = q.target[u] == own
            elif left == 1 and k == own:
                s.alone[u] += w
                changed = True
            if came == 1:
                s.reach[u, to] += w
                changed = changed or k != to
            elif came == 2 and k == to and u != v:
                s.alone[u] -= w
                changed = True
            if not changed or q.locked[u] or u == v or (q.place[u] < 0 and not joins):
                continue
            if not late:
                length = _update(s, q, u, length)
            elif not q.marked[u]:
                q.marked[u] = 1
                q.touched[count] = u
                count += 1
    return _update_touched(s, q, own, to, count, length)


@njit(cache=True, nogil=True)
def _search(s, q, order, seeds, patience, budget):
    """Run one pass of searches, each from some boundary vertices; return the gain.

    order : start vertices
    seeds : number of start vertices per search
    patience : moves without a new best state that end a search
    budget : pins to visit, after which no search starts
    Moved vertices are locked for the pass, except those that were rolled back: locking these as
    well makes the connectivity of ibm01 in 64 parts 6 % higher.
    """
    won = np.int64(0)
    q.work[0] = 0
    _clear(q)
    begin = 0
    while begin < order.size and q.work[0] < budget:
        length = 0
        while begin < order.size and length < seeds:
            v = order[begin]
            begin += 1
            if not q.locked[v]:
                border = False
                for i in range(s.vertex_start[v], s.vertex_start[v + 1]):
                    if s.used[s.nets[i]] > 1:
                        border = True
                        break
                if border:
                    length = _update(s, q, v, length)
        done = 0
        best_done = 0
        gain = np.int64(0)
        best_gain = np.int64(0)
        while length > 0 and done - best_done < patience:
            v = q.heap[0]
            to = q.target[v]
            if s.block_weights[to] + s.sizes[v] > s.capacities[to]:
                length = _update(s, q, v, length)
                continue
            length = remove(q.heap, q.place, q.cost, v, length)
            q.locked[v] = 1
            gain -= q.cost[v]
            q.moves[done] = v
            q.origin[done] = s.part[v]
            done += 1
            length = _move(s, q, v, to, length, True)
            if gain > best_gain:
                best_gain = gain
                best_done = done
        while length > 0:
            length -= 1
            q.place[q.heap[length]] = -1
        for i in range(done - 1, best_done - 1, -1):
            v = q.moves[i]
            _move(s, q, v, q.origin[i], 0, False)
            q.locked[v] = 0
        won += best_gain
    return won


@njit(cache=True, nogil=True)
def _unload(s, q, order):
    """Move vertices out of overfull parts, at least cost; return the number of moves."""
    moved = 0
    _clear(q)
    length = 0
    for v in order:
        if s.block_weights[s.part[v]] > s.capacities[s.part[v]] and s.sizes[v] > 0:
            length = _update_any(s, q, v, length)
    while length > 0:
        v = q.heap[0]
        own, to = s.part[v], q.target[v]
        if s.block_weights[own] <= s.capacities[own]:
            length = remove(q.heap, q.place, q.cost, v, length)
            continue
        if s.block_weights[to] + s.sizes[v] > s.capacities[to]:
            length = _update_any(s, q, v, length)
            continue
        length = remove(q.heap, q.place, q.cost, v, length)
        q.locked[v] = 1
        length = _move(s, q, v, to, length, False)
        moved += 1
    return moved


@njit(cache=True, nogil=True)
def _update_any(s, q, v, length):
    """Queue a vertex with its best move, also to parts that none of its nets reaches."""
    best = -1
    most = np.int64(-1)
    for k in range(s.reach.shape[1]):
        if k == s.part[v] or s.block_weights[k] + s.sizes[v] > s.capacities[k]:
            continue
        if s.reach[v, k] > most or (
            s.reach[v, k] == most and s.block_weights[k] < s.block_weights[best]
        ):
            best = k
            most = s.reach[v, k]
    return _queue(q, v, best, s.strength[v] - s.alone[v] - most, length)


@njit(cache=True, nogil=True)
def _grow(s, q, first, wanted):
    """Grow part 0 from a vertex by best moves, with all other vertices in part 1.

    wanted : target size of part 0. Ends when it is reached or no connected vertex fits.
    """
    _clear(q)
    q.locked[first] = 1
    length = _move(s, q, first, 0, 0, True)
    while length > 0 and s.block_weights[0] < wanted:
        v = q.heap[0]
        length = remove(q.heap, q.place, q.cost, v, length)
        if s.block_weights[0] + s.sizes[v] > s.capacities[0]:
            continue
        q.locked[v] = 1
        length = _move(s, q, v, 0, length, True)


@dataclass(frozen=True, slots=True)
class FmSearch:
    """Parameters of refinement; the first pass is one search from the whole boundary.

    passes : passes over all vertices
    seeds : number of start vertices per search
    patience : moves without improvement that end a search
    budget : pins that all passes may visit
    memory : bytes for the gain table; without enough memory there is no refinement
    late : see `new_queue`
    """

    passes: int
    seeds: int
    patience: int
    budget: int = ENOUGH
    memory: int = 1 << 40
    late: bool = False


def refine(
    graph: Hypergraph, part: Int32, capacities: Int64, effort: FmSearch, rng: np.random.Generator
) -> int:
    """Unload overfull parts, then refine; `part` is changed in place.

    Returns the decrease of the connectivity in the searches. Passes end when one gains less than
    a thousandth of it.
    """
    if GAIN_BYTES * graph.vertices * capacities.size > effort.memory:
        return 0
    state, queue = new_state(graph, part, capacities), new_queue(graph.vertices, effort.late)
    if np.any(state.block_weights > capacities):
        _unload(state, queue, rng.permutation(graph.vertices))
    won = 0
    budget = effort.budget
    for index in range(effort.passes):
        if budget <= 0:
            break
        seeds, patience = effort.seeds, effort.patience
        if index == 0:  # one search from everywhere gains most per time
            seeds, patience = EVERYWHERE, max(patience, LONG)
        order = rng.permutation(graph.vertices)
        gained = int(_search(state, queue, order, seeds, patience, budget))
        won += gained
        budget -= int(queue.work[0])
        if gained * SETTLED <= int((state.weights * (state.used - 1)).sum()):
            break
    return won
