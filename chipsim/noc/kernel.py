"""Kernel of the flit-level simulator: many cycles per call.

Only routers with flits are processed; they are on a list. A source whose next packet is not due yet
sleeps in a timing wheel. Each cycle decides on the state before it and then changes the state
(`chipsim.noc.moves`), so the order of the lists does not matter.

Source queues need no memory, however long they grow: only the packet at the front is stored. The
next one is drawn, or looked up, when that packet has entered the mesh.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.moves import LOCAL, WHEEL, cross, decide, next_fifo, put, take, wake
from chipsim.noc.tiles import offer, router_of, sends

NEVER = 2**62
"""Time of a packet that never comes."""

CYCLE, ACTIVE, PENDING, BEHIND, DRAWN, ARRIVED, LATENCY = range(7)
SCALARS = 7


@njit(cache=True, nogil=True)
def _next(x):
    """xorshift64* (Vigna, 2016): return the state that follows x."""
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    return x


@njit(cache=True, nogil=True)
def _uniform(x):
    """Return the random number of a state, in [0, 1)."""
    return np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _bin(weight, total, bins):
    """Return the bin, of `bins` of equal width, of a number in [0, total)."""
    return min(np.int64(np.float64(weight) / np.float64(total) * bins), bins - 1)


@njit(cache=True, nogil=True)
def _guide(indptr, below):
    """Return, for each node, the first entry that a number in each bin may select.

    A node has one bin per entry. Returns ndarray[int32], shape (entries,): offsets from the node's
    first entry. The selected entry is this one or, on average, one further.
    """
    guide = np.zeros(len(below), dtype=np.int32)
    for v in range(len(indptr) - 1):
        low = indptr[v]
        degree = indptr[v + 1] - low
        filled = 0
        for k in range(degree):
            # Bin of the last number that selects entry k: bins up to it start no later.
            last = _bin(below[low + k] - 1, below[low + degree - 1], degree)
            while filled <= last:
                guide[low + filled] = k
                filled += 1
    return guide


@njit(cache=True, nogil=True)
def _refill(sources, feed, tally, nodes, count, bits, begin, end, t):
    """Put the next packets of some nodes at the front of their queues, asleep until due.

    nodes : ndarray[int32], of which the first `count` are processed
    t : the next cycle

    Returns the number of packets in the window and the number of nodes that have passed its end.
    Passing an array to a function costs as much as moving a flit, so one call processes all nodes
    of a cycle.
    """
    time, flit, bucket, after = sources.time, sources.flit, sources.bucket, sources.after
    at, stop, order, created, wanted = feed.at, feed.stop, feed.order, feed.created, feed.wanted
    random, miss, spread, targets = feed.random, feed.miss, feed.spread[0], feed.spread[1]
    indptr, choice, below, guide = feed.indptr, feed.choice, feed.below, feed.guide
    offered = tally.offered
    drawn = 0
    passed = 0
    for i in range(count):
        v = nodes[i]
        before = time[v]
        coming = NEVER
        if len(random) == 0:
            k = at[v]
            if k < stop[v]:
                at[v] = k + 1
                packet = order[k]
                coming = created[packet]
                flit[v] = (packet << bits) | wanted[packet]
        elif miss[v] != 0.0:
            # Equal probability in each cycle: the gaps between packets are geometric.
            x = _next(random[v])
            gap = np.floor(np.log(1.0 - _uniform(x)) / miss[v])
            if gap < NEVER - 1.0 - before:
                coming = before + 1 + np.int64(gap)
            spreads = spread >= 1.0
            if 0.0 < spread < 1.0:
                x = _next(x)
                spreads = _uniform(x) < spread
            x = _next(x)
            if spreads:
                target = min(np.int64(_uniform(x) * targets), np.int64(targets) - 1)
            else:
                low = indptr[v]
                degree = indptr[v + 1] - low
                total = below[low + degree - 1]
                weight = min(np.int64(_uniform(x) * total), total - 1)
                entry = low + guide[low + _bin(weight, total, degree)]
                while below[entry] <= weight:  # first entry whose sum exceeds the drawn number
                    entry += 1
                target = np.int64(choice[entry])
            random[v] = x
            flit[v] = (coming << bits) | target
        time[v] = coming
        if coming >= end:
            passed += before < end
        elif coming >= begin:
            drawn += 1
            offered[v] += 1
        if coming < NEVER:
            slot = max(coming, t) % WHEEL
            after[v] = bucket[slot]
            bucket[slot] = v
    return drawn, passed


@njit(cache=True, nogil=True)
def _start(sources, feed, tally, scalars, bits, begin, end):
    """Fill the front of every queue, giving the state before cycle 0."""
    nodes = np.arange(len(sources.time)).astype(np.int32)
    sources.time[:] = -1
    drawn, passed = _refill(sources, feed, tally, nodes, len(nodes), bits, begin, end, 0)
    scalars[DRAWN] = drawn
    scalars[BEHIND] = len(nodes) - passed


@njit(cache=True, nogil=True)
def _count_rest(sources, feed, tally, scalars, bits, begin, end):
    """Count the packets of the window that still wait in the queues; this destroys the queues."""
    nodes = np.flatnonzero(sources.time < end).astype(np.int32)
    while len(nodes) > 0:
        drawn, _ = _refill(sources, feed, tally, nodes, len(nodes), bits, begin, end, 0)
        scalars[DRAWN] += drawn
        nodes = nodes[sources.time[nodes] < end]


@njit(cache=True, nogil=True)
def _wake_sources(time, pending, bucket, after, waiting, t):
    """Append the sources whose packet is due in cycle t to the `waiting` pending ones.

    Returns the new number of pending sources.
    """
    slot = t % WHEEL
    v = bucket[slot]
    bucket[slot] = -1
    while v >= 0:
        following = after[v]
        if time[v] <= t:
            pending[waiting] = v
            waiting += 1
        else:  # due in a later turn of the wheel
            after[v] = bucket[slot]
            bucket[slot] = v
        v = following
    return waiting


@njit(cache=True, nogil=True)
def _decide_entries(level, pending, entering, waiting, depth):
    """Choose the pending packets that enter in this cycle; return the counts that do and do not."""
    entries = 0
    kept = 0
    for i in range(waiting):
        v = pending[i]
        if level[5 * v + LOCAL] < depth:
            entering[entries] = v
            entries += 1
        else:
            pending[kept] = v
            kept += 1
    return entries, kept


@njit(cache=True, nogil=True)
def _decide_shared(tiles, level, pending, entering, waiting, depth):
    """Like `_decide_entries`, for cores that share routers: one core of each tile enters."""
    for i in range(waiting):
        offer(tiles, pending[i])
    entries = 0
    kept = 0
    for i in range(waiting):
        core = pending[i]
        if sends(tiles, core, level[5 * router_of(tiles, core) + LOCAL] < depth):
            entering[entries] = core
            entries += 1
        else:
            pending[kept] = core
            kept += 1
    return entries, kept


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
def _advance(routers, sources, tiles, feed, tally, scalars, layout, times):
    """Run from cycle scalars[CYCLE] to the pause or until all is delivered; return True if it is.

    layout, times : a `Layout` and `Times` of the run
    """
    depth, bits = layout.depth, layout.bits
    pause, last, begin = times.pause, times.last, times.begin
    end, earliest = times.end, times.earliest
    level = routers.level
    stride = len(routers.flits) // len(level)
    time, flit, bucket, after = sources.time, sources.flit, sources.bucket, sources.after
    pending, entering = sources.pending, sources.entering
    passed, entered = tally.passed, tally.entered
    histogram, delivered = tally.histogram, tally.delivered
    is_list = len(feed.random) == 0
    t, working, waiting = scalars[CYCLE], scalars[ACTIVE], scalars[PENDING]
    behind, drawn = scalars[BEHIND], scalars[DRAWN]
    arrived, latency = scalars[ARRIVED], scalars[LATENCY]
    idle = 0
    done = False
    while True:
        done = t >= earliest and behind == 0 and drawn == arrived
        if done or t >= pause:
            break
        counting = np.int64(begin <= t < end)
        waiting = _wake_sources(time, pending, bucket, after, waiting, t)
        if len(tiles.router) == 0:
            entries, waiting = _decide_entries(level, pending, entering, waiting, depth)
        else:
            entries, waiting = _decide_shared(tiles, level, pending, entering, waiting, depth)
        working = wake(routers, bits, working, t)
        count, working = decide(routers, working, depth, t)
        # All decisions are made. First flits move, then packets enter.
        for i in range(count + entries):
            if i < count:
                leaving = routers.moves[i] // 5
                port = routers.moves[i] - 5 * leaving
                v = leaving // 5
                output = leaving - 5 * v
                moving = take(routers, bits, stride, leaving, port, t)
                passed[leaving] += counting
                if output == LOCAL:
                    what = moving >> bits
                    if is_list:
                        delivered[what] = t
                        arrived += 1
                    elif begin <= what < end:
                        histogram[t - what] += 1
                        latency += t - what
                        arrived += 1
                    continue
                fifo = next_fifo(routers, v, output)
                due = cross(routers, leaving, t)
            else:
                core = entering[i - count]
                fifo = 5 * router_of(tiles, core) + LOCAL
                moving = flit[core]
                entered[core] += counting
                due = t + 1
            working = put(routers, bits, stride, working, fifo, moving, due, t)
        t += 1
        if entries > 0:
            more, fewer = _refill(sources, feed, tally, entering, entries, bits, begin, end, t)
            drawn += more
            behind -= fewer
        idle = idle + 1 if count + entries + working == 0 else 0
        if idle > WHEEL and idle > len(time):  # nothing is due soon: skip to the next event
            coming = last
            for v in range(len(time)):
                coming = min(coming, time[v])
            coming = max(t, coming)
            t = min(coming, earliest) if t < earliest else coming
            idle = 0
    scalars[CYCLE], scalars[ACTIVE], scalars[PENDING] = t, working, waiting
    scalars[BEHIND], scalars[DRAWN] = behind, drawn
    scalars[ARRIVED], scalars[LATENCY] = arrived, latency
    return done
