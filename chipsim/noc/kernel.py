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

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.protocols import FloatArray, Int32Array, Int64Array

NORTH, EAST, SOUTH, WEST, LOCAL = range(5)
NEVER = 2**62
"""Time of a packet that does not come."""
WHEEL = 1 << 10
"""Slots of the timing wheel: a power of two."""

CYCLE, ACTIVE, PENDING, BEHIND, DRAWN, ARRIVED, LATENCY = range(7)
SCALARS = 7

_OPPOSITE = np.array([SOUTH, WEST, NORTH, EAST])
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


class Routers(NamedTuple):
    """State of all routers. Input p of node v is FIFO 5 * v + p.

    column : ndarray[int32], shape (nodes,), x of each
    level, first : ndarray[int32], shape (5 * nodes,), flits in a FIFO, place of its head
    target : ndarray[int32], shape (5 * nodes * depth,), destination node of each flit
    tag : ndarray[int64], likewise, what a flit carries: cycle of creation, or index of the packet
    request : ndarray[int32], shape (nodes,), bit 5 * output + input
    pointer : ndarray[int8], shape (5 * nodes,), of every output
    active : ndarray[int32], shape (nodes,), routers with a flit come first
    listed : ndarray[bool], shape (nodes,), whether a router is among them
    moves : ndarray[int64], shape (5 * nodes,), scratch: (node * 5 + output) * 5 + input
    """

    column: Int32Array
    level: Int32Array
    first: Int32Array
    target: Int32Array
    tag: Int64Array
    request: Int32Array
    pointer: np.ndarray[tuple[int], np.dtype[np.int8]]
    active: Int32Array
    listed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    moves: Int64Array


class Sources(NamedTuple):
    """The packet at the front of each source queue, and when to look at which.

    time : ndarray[int64], shape (nodes,), cycle of creation, or NEVER
    target : ndarray[int32], shape (nodes,); tag : ndarray[int64], shape (nodes,)
    pending : ndarray[int32], shape (nodes,), nodes whose packet is due come first
    entering : ndarray[int32], shape (nodes,), scratch
    bucket : ndarray[int32], shape (WHEEL,), first node that sleeps in a slot, or -1
    after : ndarray[int32], shape (nodes,), the next one in the same slot, or -1
    """

    time: Int64Array
    target: Int32Array
    tag: Int64Array
    pending: Int32Array
    entering: Int32Array
    bucket: Int32Array
    after: Int32Array


class Feed(NamedTuple):
    """Where packets come from: a list of them, or chance; the other half is empty.

    at, stop : ndarray[int64], shape (nodes,), range in `order` of the packets still to come
    order : ndarray[int64], shape (packets,), packets grouped by node, by time within a node
    created : ndarray[int64], shape (packets,); wanted : ndarray[int32], shape (packets,), target

    random : ndarray[uint64], shape (nodes,), generators, none 0; no shape of nodes means a list
    miss : ndarray[float64], shape (nodes,), log(1 - chance of a packet in a cycle)
    spread : ndarray[float64], shape (1,), share of packets to nodes drawn from all alike
    indptr : ndarray[int64], shape (nodes + 1,), entries of each node in the next two
    choice : ndarray[int32], target; below : ndarray[int64], sum of the weights up to it
    """

    at: Int64Array
    stop: Int64Array
    order: Int64Array
    created: Int64Array
    wanted: Int32Array
    random: np.ndarray[tuple[int], np.dtype[np.uint64]]
    miss: FloatArray
    spread: FloatArray
    indptr: Int64Array
    choice: Int32Array
    below: Int64Array


class Tally(NamedTuple):
    """What is counted, of the cycles and of the packets of the window.

    flits : ndarray[int64], shape (5 * nodes,), that left through an output; output o at 5 * v + o
    offered, entered : ndarray[int64], shape (nodes,), packets created, and accepted by the mesh
    histogram : ndarray[int64], shape (latencies,), packets by latency; too short is an error
    delivered : ndarray[int64], shape (packets,), cycles of delivery, of a list of packets
    """

    flits: Int64Array
    offered: Int64Array
    entered: Int64Array
    histogram: Int64Array
    delivered: Int64Array


@njit(cache=True, nogil=True)
def _uniform(random, v):
    """xorshift64* (Vigna, 2016): a number above 0, up to 1, of the generator of node v."""
    x = random[v]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[v] = x
    return (np.float64((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) + 1.0) * 2.0**-53


@njit(cache=True, nogil=True)
def _choose(feed, v):
    """Target of a new packet of node v."""
    nodes = len(feed.miss)
    spread = feed.spread[0]
    if spread > 0.0 and (spread >= 1.0 or _uniform(feed.random, v) <= spread):
        return min(np.int64((1.0 - _uniform(feed.random, v)) * nodes), nodes - 1)
    low = feed.indptr[v]
    high = feed.indptr[v + 1] - 1
    if low == high:
        return np.int64(feed.choice[low])
    drawn = np.int64((1.0 - _uniform(feed.random, v)) * feed.below[high])
    while low < high:  # the first entry whose sum is above what was drawn
        middle = (low + high) // 2
        if feed.below[middle] > drawn:
            high = middle
        else:
            low = middle + 1
    return np.int64(feed.choice[low])


@njit(cache=True, nogil=True)
def _refill(feed, sources, v):
    """Put the next packet of node v at the front of its queue; returns its time."""
    if len(feed.random) == 0:
        k = feed.at[v]
        if k >= feed.stop[v]:
            sources.time[v] = NEVER
            return NEVER
        packet = feed.order[k]
        feed.at[v] = k + 1
        sources.time[v] = feed.created[packet]
        sources.target[v] = feed.wanted[packet]
        sources.tag[v] = packet
        return sources.time[v]
    # A packet in each cycle with the same chance: the gaps are geometric.
    miss = feed.miss[v]
    if miss == 0.0:
        sources.time[v] = NEVER
        return NEVER
    gap = np.floor(np.log(_uniform(feed.random, v)) / miss)
    if not gap < 2.0**61 - sources.time[v]:
        sources.time[v] = NEVER
        return NEVER
    time = sources.time[v] + 1 + np.int64(gap)
    sources.time[v] = time
    sources.tag[v] = time
    sources.target[v] = _choose(feed, v)
    return time


@njit(cache=True, nogil=True)
def _start(sources, feed, tally, scalars, begin, end):
    """Fill the front of every queue; the state is that before cycle 0."""
    for v in range(len(sources.time)):
        sources.time[v] = -1
        time = _refill(feed, sources, v)
        if time < end:
            scalars[BEHIND] += 1
            if time >= begin:
                scalars[DRAWN] += 1
                tally.offered[v] += 1
        if time < NEVER:
            sources.after[v] = sources.bucket[time % WHEEL]
            sources.bucket[time % WHEEL] = v


@njit(cache=True, nogil=True)
def _count_rest(sources, feed, tally, scalars, begin, end):
    """Count the packets of the window that still wait in the queues; the queues are lost."""
    for v in range(len(sources.time)):
        while sources.time[v] < end:
            time = _refill(feed, sources, v)
            if begin <= time < end:
                scalars[DRAWN] += 1
                tally.offered[v] += 1


@njit(cache=True, nogil=True)
def _route(routers, v, target):
    """The output that a flit takes at node v: its row first."""
    x = routers.column[v]
    to_x = routers.column[target]
    if to_x > x:
        return EAST
    if to_x < x:
        return WEST
    if target > v:
        return SOUTH
    if target < v:
        return NORTH
    return LOCAL


@njit(cache=True, nogil=True)
def _push(routers, scalars, depth, v, port, target, tag):
    """Put a flit into an input of node v, which has room."""
    fifo = 5 * v + port
    level = routers.level[fifo]
    place = routers.first[fifo] + level
    if place >= depth:
        place -= depth
    routers.target[fifo * depth + place] = target
    routers.tag[fifo * depth + place] = tag
    routers.level[fifo] = level + 1
    if level == 0:
        if not routers.listed[v]:
            routers.listed[v] = True
            routers.active[scalars[ACTIVE]] = v
            scalars[ACTIVE] += 1
        routers.request[v] |= 1 << (5 * _route(routers, v, target) + port)


@njit(cache=True, nogil=True)
def _wake(sources, scalars, t):
    """Put the sources whose packet is due in cycle t on the list of pending ones."""
    slot = t % WHEEL
    v = sources.bucket[slot]
    sources.bucket[slot] = -1
    while v >= 0:
        following = sources.after[v]
        if sources.time[v] <= t:
            sources.pending[scalars[PENDING]] = v
            scalars[PENDING] += 1
        else:  # in a later turn of the wheel
            sources.after[v] = sources.bucket[slot]
            sources.bucket[slot] = v
        v = following


@njit(cache=True, nogil=True)
def _decide_entries(routers, sources, scalars, depth):
    """Packets that enter in this cycle are those of `entering`; returns how many."""
    entering = 0
    kept = 0
    for i in range(scalars[PENDING]):
        v = sources.pending[i]
        if routers.level[5 * v + LOCAL] < depth:
            sources.entering[entering] = v
            entering += 1
        else:
            sources.pending[kept] = v
            kept += 1
    scalars[PENDING] = kept
    return entering


@njit(cache=True, nogil=True)
def _decide_moves(routers, scalars, depth, ahead):
    """Flits that move in this cycle are those of `moves`; returns how many."""
    moves = 0
    kept = 0
    for i in range(scalars[ACTIVE]):
        v = np.int64(routers.active[i])
        asking = routers.request[v]
        if asking == 0:
            routers.listed[v] = False
            continue
        routers.active[kept] = v
        kept += 1
        for output in range(5):
            mask = (asking >> (5 * output)) & _INPUTS
            if mask == 0:
                continue
            port = _GRANT[routers.pointer[5 * v + output], mask]
            if (
                output == LOCAL
                or routers.level[5 * (v + ahead[output]) + _OPPOSITE[output]] < depth
            ):
                routers.moves[moves] = (5 * v + output) * 5 + port
                moves += 1
            else:
                routers.pointer[5 * v + output] = port
    scalars[ACTIVE] = kept
    return moves


@njit(cache=True, nogil=True)
def _move(routers, tally, scalars, depth, ahead, code, counting, t, begin, end, listed):
    """Take a flit from an input of a node to the next node, or deliver it."""
    leaving = code // 5
    port = code - 5 * leaving
    v = leaving // 5
    output = leaving - 5 * v
    fifo = 5 * v + port
    head = routers.first[fifo]
    target = routers.target[fifo * depth + head]
    tag = routers.tag[fifo * depth + head]
    head += 1
    if head == depth:
        head = 0
    routers.first[fifo] = head
    routers.level[fifo] -= 1
    routers.request[v] &= ~(1 << (5 * output + port))
    if routers.level[fifo] > 0:
        following = _route(routers, v, routers.target[fifo * depth + head])
        routers.request[v] |= 1 << (5 * following + port)
    routers.pointer[leaving] = port + 1 if port < LOCAL else 0
    tally.flits[leaving] += counting
    if output != LOCAL:
        _push(routers, scalars, depth, v + ahead[output], _OPPOSITE[output], target, tag)
    elif listed:
        tally.delivered[tag] = t
        scalars[ARRIVED] += 1
    elif begin <= tag < end:
        tally.histogram[t - tag] += 1
        scalars[LATENCY] += t - tag
        scalars[ARRIVED] += 1


@njit(cache=True, nogil=True)
def _enter(routers, sources, feed, tally, scalars, depth, v, counting, t, begin, end):
    """Move the packet at the front of a queue into the mesh, and the next one to the front."""
    _push(routers, scalars, depth, v, LOCAL, sources.target[v], sources.tag[v])
    tally.entered[v] += counting
    before = sources.time[v]
    time = _refill(feed, sources, v)
    if time >= end:
        scalars[BEHIND] -= before < end
    elif time >= begin:
        scalars[DRAWN] += 1
        tally.offered[v] += 1
    if time < NEVER:
        slot = max(time, t + 1) % WHEEL
        sources.after[v] = sources.bucket[slot]
        sources.bucket[slot] = v


@njit(cache=True, nogil=True)
def _advance(routers, sources, feed, tally, scalars, width, depth, until, begin, end, earliest):
    """Run from cycle scalars[CYCLE] to `until`, or until all is delivered; returns whether it is.

    begin, end : the window; packets that are created in it are to be delivered
    earliest : cycle from which the run may end before `until`
    """
    ahead = np.array([-width, 1, width, -1])
    listed = len(feed.random) == 0
    t = scalars[CYCLE]
    idle = 0
    done = False
    while True:
        done = t >= earliest and scalars[BEHIND] == 0 and scalars[DRAWN] == scalars[ARRIVED]
        if done or t >= until:
            break
        counting = np.int64(begin <= t < end)
        _wake(sources, scalars, t)
        entering = _decide_entries(routers, sources, scalars, depth)
        moves = _decide_moves(routers, scalars, depth, ahead)
        for i in range(moves):
            code = routers.moves[i]
            _move(routers, tally, scalars, depth, ahead, code, counting, t, begin, end, listed)
        for i in range(entering):
            v = np.int64(sources.entering[i])
            _enter(routers, sources, feed, tally, scalars, depth, v, counting, t, begin, end)
        t += 1
        idle = idle + 1 if moves + entering == 0 and scalars[ACTIVE] == 0 else 0
        if idle > WHEEL and idle > len(sources.time):  # nothing comes for long: skip to what does
            following = max(t, min(until, sources.time.min()))
            t = min(following, earliest) if t < earliest else following
            idle = 0
    scalars[CYCLE] = t
    return done
