"""Kernel of the tick simulator: cores and mesh, cycle by cycle, until nothing moves any more.

Each cycle first decides, from the state before it, which packets cores send and receive and which
flits move; then it updates the state. A core behaves like hw/core. It updates its neurons one by
one; a spiking neuron enters a queue of two before the sender. The sender processes one list of
packets and has looked up at most two more, so a sixth spike stalls the sweep. Two of its packets
wait for the mesh. The receiver accepts three packets while it adds the events of the one before.

A head flit requests one output or, in a tree, several. Each output grants independently, and the
flit leaves its buffer with the last copy. Such trees of XY routes cannot deadlock.

Cores of a tile take turns to send (`chipsim.noc.tiles`). Packets for them share one local port,
which a tree passes once, when all its destination cores of the tile are ready.

The host accepts a packet in the cycle in which it leaves the last router.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.noc.moves import LOCAL, cross, decide, next_fifo, put, sleeping, take, wake
from chipsim.noc.tiles import offer, router_of, sends
from chipsim.ticks.state import NONE

LATER = 1e18
"""Cycle of an event that never happens."""

_QUEUE = 2
"""Depth of the queue of spikes that wait for their lookup."""


@njit(cache=True, nogil=True)
def _begin(cores, routes, spikes, costs, begin, end):
    """Start a tick in cycle 0, in which the slots spikes[begin:end] spike.

    Returns the cycle in which the last neuron is updated if none stalls.
    """
    swept = 0.0
    at = begin
    for c in range(len(cores.next)):
        neurons = routes.first[c + 1] - routes.first[c]
        if neurons > 0:
            swept = max(swept, costs.barrier + neurons * costs.neuron)
        cores.at[c] = at
        while at < end and spikes[at] < routes.first[c + 1]:
            at += 1
        cores.stop[c] = at
        cores.next[c] = LATER
        if cores.at[c] < at:
            before = spikes[cores.at[c]] - routes.first[c]
            cores.next[c] = costs.barrier + before * costs.neuron
        cores.queued[c] = 0
        cores.offer[c] = -LATER
        cores.free[c] = 0.0
        cores.begins[c] = 0.0
        cores.before[c] = 0.0
        cores.ends[c] = 0.0
    return swept


@njit(cache=True, nogil=True)
def _work(cores, routes, spikes, costs, room, c, t):
    """Run one cycle of the sweep and the sender of a core.

    room : True if the router accepts a packet of this core

    Returns the packet that enters the mesh, or NONE; whether work is left; and the cycle until
    which sweep and sender are busy.
    """
    entering = NONE
    full = cores.behind[c] != NONE
    if room and cores.offered[c] != NONE and cores.offer[c] <= t:
        entering = cores.offered[c]
        cores.offered[c] = cores.behind[c]
        cores.behind[c] = NONE
        if cores.offer[c] <= t - 1.0:  # it had to wait
            cores.offer[c] = t
        if cores.offered[c] != NONE:
            cores.offer[c] += costs.packet_out
    if cores.read[c] != NONE and not full:
        if cores.offered[c] == NONE:
            cores.offered[c] = cores.read[c]
            cores.offer[c] = max(t + 1.0, cores.offer[c] + costs.packet_out)
        else:
            cores.behind[c] = cores.read[c]
        cores.read[c] = NONE
    busy = 0.0
    free = cores.read[c] == NONE
    known = cores.known[c]
    if known != NONE and cores.left[c] == 0 and free:
        cores.row[c] = routes.indptr[known]
        cores.left[c] = routes.indptr[known + 1] - cores.row[c]
        cores.known[c] = NONE
        busy = t + 1.0
    if cores.known[c] == NONE:
        cores.known[c] = cores.looked[c]
        cores.looked[c] = NONE
    if free and cores.left[c] > 0:
        cores.read[c] = cores.row[c]
        cores.row[c] += 1
        cores.left[c] -= 1
    queued = cores.queued[c]
    at = cores.at[c]
    if cores.looked[c] == NONE and queued > 0:
        cores.looked[c] = spikes[at - queued]
        cores.queued[c] = queued - 1
    if queued < _QUEUE and cores.next[c] <= t:
        slot = spikes[at]
        cores.queued[c] += 1
        cores.at[c] = at + 1
        moved = cores.next[c] if cores.next[c] > t - 1.0 else float(t)
        if at + 1 < cores.stop[c]:
            cores.next[c] = moved + (spikes[at + 1] - slot) * costs.neuron
        else:
            cores.next[c] = LATER
            busy = max(busy, moved + (routes.first[c + 1] - slot) * costs.neuron)
    more = cores.next[c] < LATER or cores.queued[c] > 0 or cores.looked[c] != NONE
    more = more or cores.known[c] != NONE or cores.read[c] != NONE or cores.offered[c] != NONE
    return entering, more, busy


@njit(cache=True, nogil=True, inline="always")
def _work_all(cores, routes, level, tiles, seen, spikes, entering, costs, t):
    """Run one cycle of the sweeps and senders of all cores.

    Returns the number of packets that enter the mesh, written to `entering`; whether work is left;
    and the last cycle until which a sweep or sender is busy.
    """
    entries, swept = 0, 0.0
    goes_on = False
    shared = len(tiles.router) > 0
    if shared:
        for c in range(len(cores.next)):
            if cores.offered[c] != NONE and cores.offer[c] <= t:
                offer(tiles, c)
    for c in range(len(cores.next)):
        idle = cores.looked[c] == NONE and cores.known[c] == NONE
        idle = idle and cores.read[c] == NONE
        if idle and cores.queued[c] == 0 and cores.next[c] > t and cores.offered[c] == NONE:
            goes_on = goes_on or cores.next[c] < LATER
            continue
        room = level[5 * router_of(tiles, c) + LOCAL] < costs.depth
        if shared:
            room = sends(tiles, c, room)
        enters, more, busy = _work(cores, routes, spikes, costs, room, c, t)
        goes_on = goes_on or more
        swept = max(swept, busy)
        if enters != NONE:
            entering[entries, 0], entering[entries, 1] = c, enters
            entries += 1
            seen.sent[c] += 1
    return entries, goes_on, swept


@njit(cache=True, nogil=True, inline="always")
def _ready(cores, routes, at, past, t):
    """Return whether all cores of the packets at:past can receive in cycle t."""
    ready = True
    for end in range(at, past):
        c = routes.core[end]
        ready = ready and (c == len(cores.free) or cores.free[c] <= t)
    return ready


@njit(cache=True, nogil=True, inline="always")
def _receive(cores, routes, seen, costs, at, past, t):
    """Pass the packets at:past to their cores, or to the host.

    Returns the last cycle in which one is busy.
    """
    received = 0.0
    for end in range(at, past):
        c, events = routes.core[end], routes.events[end]
        seen.taken[c] += 1
        if c == len(cores.free):
            received = max(received, t + 1.0)
            continue
        begins = max(t + 3.0, cores.ends[c])
        cores.free[c] = max(t + 1.0, cores.before[c])  # start of the previous packet's events
        cores.before[c] = cores.begins[c]
        cores.begins[c] = begins
        cores.ends[c] = begins + costs.packet_in + events * costs.event
        received = max(received, cores.ends[c] + costs.tail)
        seen.events[c] += events
    return received


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
def _phase(cores, routes, routers, tiles, seen, spikes, host, entering, costs):
    """Run from cycle 0 until nothing moves: a tick, or the packets of the host before it.

    spikes : slots that spike in the tick, as passed to `_begin`
    host : slots whose packets enter at core 0, one per cycle, while the cores are idle

    Returns the last busy cycle of senders and sweeps, and the last busy cycle of receivers.
    """
    bits, level = costs.bits, routers.level
    stride = len(routers.flits) // len(level)
    outside = len(level) - 5  # FIFOs of the host
    is_tree = len(routers.trees) > 0
    for link in range(len(routers.wires.free)):
        routers.wires.free[link] = 0.0
    swept, received = 0.0, 0.0
    working, t = 0, 0
    at = 0
    row = routes.indptr[host[0]] if len(host) > 0 else 0
    goes_on = True
    while goes_on:
        goes_on = False
        entries = 0
        if len(host) > 0:
            while at < len(host) and row == routes.indptr[host[at] + 1]:
                at += 1
                row = routes.indptr[host[at]] if at < len(host) else 0
            goes_on = at < len(host)
            if goes_on and level[LOCAL] < costs.depth:
                entering[0, 0], entering[0, 1] = 0, row
                entries, row = 1, row + 1
        else:
            entries, goes_on, busy = _work_all(
                cores, routes, level, tiles, seen, spikes, entering, costs, t
            )
            swept = max(swept, busy)
        working = wake(routers, bits, working, t)
        count, working = decide(routers, working, costs.depth, t)
        # All decisions are made: first flits move, then packets enter.
        for i in range(count + entries):
            if i < count:
                leaving = routers.moves[i] // 5
                port = routers.moves[i] - 5 * leaving
                v = leaving // 5
                output = leaving - 5 * v
                fifo = next_fifo(routers, v, output)
                arrives = output == LOCAL or fifo >= outside
                if arrives:
                    own = 5 * v + port
                    moving = routers.flits[own * stride + routers.first[own]]
                    if is_tree and output != LOCAL:
                        moving = routes.child[moving, output]
                    at_end = routes.heard[moving] if is_tree else moving >> bits
                    past = routes.heard[moving + 1] if is_tree else at_end + 1
                    if not _ready(cores, routes, at_end, past, t):
                        routers.pointer[leaving] = port
                        continue
                moving = take(routers, bits, stride, leaving, port, t)
                seen.passed[leaving] += 1
                if arrives:
                    busy = _receive(cores, routes, seen, costs, at_end, past, t)
                    received = max(received, busy)
                    continue
                if is_tree:
                    moving = routes.child[moving, output]
                due = cross(routers, leaving, t)
            else:
                fifo = 5 * router_of(tiles, entering[i - count, 0]) + LOCAL
                moving = entering[i - count, 1]
                moving = routes.flit[moving] if is_tree else moving << bits | routes.flit[moving]
                due = t + 1
            working = put(routers, bits, stride, working, fifo, moving, due, t)
        t += 1
        goes_on = goes_on or count + entries + working > 0 or sleeping(routers)
    return swept, received


@njit(cache=True, nogil=True)
def run_ticks(cores, routes, routers, tiles, seen, spiking, costs):
    """Run consecutive ticks.

    spiking : a `Spiking`
    """
    spikes, ends = spiking.spikes, spiking.ends
    host, host_ends = spiking.host, spiking.host_ends
    entering = np.zeros((len(cores.next), 2), dtype=np.int64)
    nobody = np.zeros(0, dtype=np.int64)
    for tick in range(len(ends) - 1):
        if host_ends[tick] < host_ends[tick + 1]:
            _begin(cores, routes, spikes, costs, 0, 0)
            sent = host[host_ends[tick] : host_ends[tick + 1]]
            _phase(cores, routes, routers, tiles, seen, spikes, sent, entering, costs)
        swept = _begin(cores, routes, spikes, costs, ends[tick], ends[tick + 1])
        late, received = _phase(
            cores, routes, routers, tiles, seen, spikes, nobody, entering, costs
        )
        seen.swept[tick] = max(swept, late)
        seen.received[tick] = received
        seen.cycles[tick] = max(1, np.int64(np.ceil(max(swept, late, received))))
