"""The kernel of the flit-level simulator: many cycles in one call.

Only what holds flits is looked at. Routers with a flit are on a list; a source whose next packet is
not due yet sleeps in a timing wheel. Each cycle decides on the state before it and then changes it,
so the order of the lists does not matter.

A router keeps, for each output, a mask of the inputs whose head wants it: 5 x 5 bits in one number.
An output that offered a flit and could not pass it on must offer the same one again. Its pointer
is set to that input, which is then the first one that asks: no lock is needed.

Source queues take no room, however long they grow. Only the packet at the front of each is known;
the next one is drawn, or looked up, when that has entered the mesh.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NORTH, EAST, SOUTH, WEST, LOCAL = range(5)
NEVER = 2**62
"""Time of a packet that does not come."""
WHEEL = 1 << 10
"""Slots of the timing wheel: a power of two."""

CYCLE, ACTIVE, PENDING, BEHIND, DRAWN, ARRIVED, LATENCY = range(7)
SCALARS = 7

_INPUTS = 31  # five bits


def _grants() -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """First input at or after a pointer, by pointer and mask of the inputs that ask."""
    table = np.full((5, 32), -1, dtype=np.int8)
    for pointer in range(5):
        for mask in range(1, 32):
            asking = [(pointer + step) % 5 for step in range(5)]
            table[pointer, mask] = next(port for port in asking if mask >> port & 1)
    return table


_GRANT = _grants()

# The output by the signs of the way to go, 3 * east + south + 4.
_ROUTE = np.array([WEST, WEST, WEST, NORTH, LOCAL, SOUTH, EAST, EAST, EAST], dtype=np.int8)

# Which output a single bit of a request is of, by its remainder modulo 37: all 25 differ.
_OUTPUT = np.zeros(37, dtype=np.int8)
for _bit in range(25):
    _OUTPUT[(1 << _bit) % 37] = _bit // 5


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
    random, miss, spread = feed.random, feed.miss, feed.spread[0]
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
                target = min(np.int64(_uniform(x) * len(time)), len(time) - 1)
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
def route(column, v, target):
    """The output that a flit takes at node v: its row first."""
    # Looked up, as branches that cannot be foreseen would take more time than all the rest.
    across = np.int64(column[target]) - np.int64(column[v])
    down = np.int64(target) - np.int64(v)
    return np.int64(_ROUTE[3 * np.sign(across) + np.sign(down) + 4])


@njit(cache=True, nogil=True)
def _wake(time, pending, bucket, after, waiting, t):
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
def decide_moves(level, request, pointer, active, listed, moves, working, depth, ahead):
    """Which flits move in this cycle; how many do, and how many routers stay on the list."""
    count = 0
    kept = 0
    nodes = len(request)
    all_nodes = working > nodes // 4  # the memory likes to be read in order
    for i in range(nodes if all_nodes else working):
        v = np.int64(i if all_nodes else active[i])
        asking = np.int64(request[v])
        if asking == 0:
            listed[v] = False
            continue
        active[kept] = v
        kept += 1
        while asking != 0:
            output = np.int64(_OUTPUT[(asking & -asking) % 37])
            mask = (asking >> (5 * output)) & _INPUTS
            asking ^= mask << (5 * output)
            port = _GRANT[pointer[5 * v + output], mask]
            if output == LOCAL or level[5 * v + ahead[output]] < depth:
                moves[count] = (5 * v + output) * 5 + port
                count += 1
            else:
                pointer[5 * v + output] = port
    return count, kept


@njit(cache=True, nogil=True)
def _advance(routers, sources, feed, tally, scalars, layout, times):
    """Run from cycle scalars[CYCLE] to the pause, or until all is delivered; says whether it is.

    layout, times : a `Layout` and `Times` of the run
    """
    width, depth, bits = layout.width, layout.depth, layout.bits
    pause, last, begin = times.pause, times.last, times.begin
    end, earliest = times.end, times.earliest
    column, level, first, request = routers.column, routers.level, routers.first, routers.request
    flits, pointer = routers.flits, routers.pointer
    active, listed, moves = routers.active, routers.listed, routers.moves
    time, flit, bucket, after = sources.time, sources.flit, sources.bucket, sources.after
    pending, entering = sources.pending, sources.entering
    passed, entered = tally.passed, tally.entered
    histogram, delivered = tally.histogram, tally.delivered
    # From FIFO 0 of a node to the FIFO that an output of the node leads to.
    ahead = np.array([SOUTH - 5 * width, WEST + 5, NORTH + 5 * width, EAST - 5, 0])
    is_list = len(feed.random) == 0
    node_mask = (1 << bits) - 1
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
        waiting = _wake(time, pending, bucket, after, waiting, t)
        entries, waiting = _decide_entries(level, pending, entering, waiting, depth)
        count, working = decide_moves(
            level, request, pointer, active, listed, moves, working, depth, ahead
        )
        # Everything is decided; from here on it happens. First flits move, then packets enter.
        for i in range(count + entries):
            if i < count:
                leaving = moves[i] // 5
                port = moves[i] - 5 * leaving
                v = leaving // 5
                output = leaving - 5 * v
                fifo = 5 * v + port
                head = first[fifo]
                moving = flits[fifo * depth + head]
                head += 1
                if head == depth:
                    head = 0
                first[fifo] = head
                left = level[fifo] - 1
                level[fifo] = left
                asking = request[v] & ~(1 << (5 * output + port))
                if left > 0:
                    following = route(column, v, flits[fifo * depth + head] & node_mask)
                    asking |= 1 << (5 * following + port)
                request[v] = asking
                pointer[leaving] = port + 1 if port < LOCAL else 0
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
                fifo = 5 * v + ahead[output]
            else:
                v = np.int64(entering[i - count])
                fifo = 5 * v + LOCAL
                moving = flit[v]
                entered[v] += counting
            # Either way a flit comes in.
            held = level[fifo]
            level[fifo] = held + 1
            place = first[fifo] + held
            if place >= depth:
                place -= depth
            flits[fifo * depth + place] = moving
            if held == 0:
                v = fifo // 5
                if not listed[v]:
                    listed[v] = True
                    active[working] = v
                    working += 1
                request[v] |= 1 << (5 * route(column, v, moving & node_mask) + fifo - 5 * v)
        t += 1
        if entries > 0:
            more, fewer = _refill(sources, feed, tally, entering, entries, bits, begin, end, t)
            drawn += more
            behind -= fewer
        idle = idle + 1 if count + entries + working == 0 else 0
        if idle > WHEEL and idle > len(time):  # nothing comes for long: skip to what does
            coming = max(t, min(last, time.min()))
            t = min(coming, earliest) if t < earliest else coming
            idle = 0
    scalars[CYCLE], scalars[ACTIVE], scalars[PENDING] = t, working, waiting
    scalars[BEHIND], scalars[DRAWN] = behind, drawn
    scalars[ARRIVED], scalars[LATENCY] = arrived, latency
    return done
