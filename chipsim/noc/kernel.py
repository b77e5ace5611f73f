"""The kernel of the flit-level simulator: many cycles in one call.

Only what holds flits is looked at. Routers with a flit are on a list; a source whose next packet is
not due yet sleeps in a timing wheel. Each cycle decides on the state before it and then changes it
(`chipsim.noc.moves`), so the order of the lists does not matter.

Source queues take no room, however long they grow. Only the packet at the front of each is known;
the next one is drawn, or looked up, when that has entered the mesh.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.moves import LOCAL, WHEEL, cross, decide, next_fifo, put, take, wake
from chipsim.noc.tiles import offer, router_of, sends

NEVER = 2**62
"""Time of a packet that does not come."""

CYCLE, ACTIVE, PENDING, BEHIND, DRAWN, ARRIVED, LATENCY = range(7)
SCALARS = 7


@njit(cache=True, nogil=True)
def _next(x):
    """xorshift64* (Vigna, 2016): the state that follows x."""
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    return x


@njit(cache=True, nogil=True)
def _uniform(x):
    """The random number of a state: from 0 up to and without 1."""
    return np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _bin(weight, total, bins):
    """Which of some bins of equal width a number from 0 up to and without `total` is in."""
    return min(np.int64(np.float64(weight) / np.float64(total) * bins), bins - 1)


@njit(cache=True, nogil=True)
def _guide(indptr, below):
    """For each node as many bins as it has entries: the first entry that a number may mean.

    Returns ndarray[int32], shape (entries,): places behind the node's first entry. What a number
    means is at that entry or, on average, one further.
    """
    guide = np.zeros(len(below), dtype=np.int32)
    for v in range(len(indptr) - 1):
        low = indptr[v]
        degree = indptr[v + 1] - low
        filled = 0
        for k in range(degree):
            # The last number that means entry k is in this bin; no bin up to it begins later.
            last = _bin(below[low + k] - 1, below[low + degree - 1], degree)
            while filled <= last:
                guide[low + filled] = k
                filled += 1
    return guide


@njit(cache=True, nogil=True)
def _refill(sources, feed, tally, nodes, count, bits, begin, end, t):
    """Put the next packets of some nodes at the front of their queues, and to sleep until due.

    nodes : ndarray[int32], of which the first `count` are meant; t : the cycle that comes next

    Returns how many of the packets belong to the window, and how many nodes have passed its end.
    Handing an array to a function costs as much as moving a flit, so all nodes of a cycle are done
    in one call.
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
            # A packet in each cycle with the same chance: the gaps between them are geometric.
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
                while below[entry] <= weight:  # the first whose sum is above what was drawn
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
    """Fill the front of every queue; the state is that before cycle 0."""
    nodes = np.arange(len(sources.time)).astype(np.int32)
    sources.time[:] = -1
    drawn, passed = _refill(sources, feed, tally, nodes, len(nodes), bits, begin, end, 0)
    scalars[DRAWN] = drawn
    scalars[BEHIND] = len(nodes) - passed


@njit(cache=True, nogil=True)
def _count_rest(sources, feed, tally, scalars, bits, begin, end):
    """Count the packets of the window that still wait in the queues; the queues are lost."""
    nodes = np.flatnonzero(sources.time < end).astype(np.int32)
    while len(nodes) > 0:
        drawn, _ = _refill(sources, feed, tally, nodes, len(nodes), bits, begin, end, 0)
        scalars[DRAWN] += drawn
        nodes = nodes[sources.time[nodes] < end]


@njit(cache=True, nogil=True)
def _wake_sources(time, pending, bucket, after, waiting, t):
    """Put the sources whose packet is due in cycle t behind the `waiting` ones that are pending.

    Returns how many are pending then.
    """
    slot = t % WHEEL
    v = bucket[slot]
    bucket[slot] = -1
    while v >= 0:
        following = after[v]
        if time[v] <= t:
            pending[waiting] = v
            waiting += 1
        else:  # in a later turn of the wheel
            after[v] = bucket[slot]
            bucket[slot] = v
        v = following
    return waiting


@njit(cache=True, nogil=True)
def _decide_entries(level, pending, entering, waiting, depth):
    """Which of the pending packets enter in this cycle; how many do, and how many do not."""
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
    """The same where cores share routers: one of each tile enters."""
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
    """Run from cycle scalars[CYCLE] to the pause, or until all is delivered; says whether it is.

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
        # Everything is decided; from here on it happens. First flits move, then packets enter.
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
        if idle > WHEEL and idle > len(time):  # nothing comes for long: skip to what does
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
