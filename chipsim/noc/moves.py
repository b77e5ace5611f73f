"""Flit moves: the steps of a cycle that all simulators of a mesh share.

A cycle decides on the state before it (`decide`), then changes it: heads leave their buffers
(`take`), flits enter buffers (`put`). Kernels inline these functions, as passing arrays in every
call would cost as much as moving a flit. They are compiled without reference counting (numba's
`_nrt=False`, for kernels that allocate no arrays), which would take ten times longer than the
moves.

A router keeps, for each output, a mask of the inputs whose head requests it: 5 x 5 bits in one
number. An output that offered a flit but could not pass it on must offer the same flit again. Its
pointer is set to that input, which is then the first to be granted: no lock is needed. With trees a
head may request several outputs: each grants independently, and the flit leaves with the last copy.

Links may differ (`chipsim.noc.mesh.LinkTiming`). A flit enters the buffer after a link when it
leaves, but cannot be at the head before it is due; until then the buffer sleeps in a timing wheel.
A link that needs several cycles per flit is busy meanwhile.

On a torus the flits of a ring could fill it and deadlock. So each ring keeps a bubble (Puente et
al., J. Parallel and Distributed Computing 61(9), 2001): a flit that enters a ring, from a core or
from its row, moves only if the next buffer has room for two flits; a flit already in the ring needs
room for one. An output does not offer flits that may not enter, so that these do not block the
ring. Columns never wait for rows, so trees drain as well: a copy that takes the last place of a
ring leaves its own place once its other copies have left.

If links are broken, flits follow tables (`chipsim.detours`), whose turns cannot deadlock: the links
that packets wait for form no circle, also on a torus, so no places are kept free.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from chipsim.protocols import Int64Array

NORTH, EAST, SOUTH, WEST, LOCAL = range(5)
WHEEL = 1 << 10
"""Slots of the timing wheels: a power of two."""

_INPUTS = 31  # five bits


def _grants() -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    """Return the first input at or after a pointer, by pointer and mask of requesting inputs."""
    table = np.full((5, 32), -1, dtype=np.int8)
    for pointer in range(5):
        for mask in range(1, 32):
            asking = [(pointer + step) % 5 for step in range(5)]
            table[pointer, mask] = next(port for port in asking if mask >> port & 1)
    return table


_GRANT = _grants()

# The output by the signs of the remaining way, 3 * east + south + 4.
_ROUTE = np.array([WEST, WEST, WEST, NORTH, LOCAL, SOUTH, EAST, EAST, EAST], dtype=np.int8)

# The output of a single request bit, by its remainder modulo 37: all 25 differ.
_OUTPUT = np.zeros(37, dtype=np.int8)
for _bit in range(25):
    _OUTPUT[(1 << _bit) % 37] = _bit // 5

# All requests of an input.
_PORTS = np.array([sum(1 << (5 * output + port) for output in range(5)) for port in range(5)])


def leads(width: int) -> Int64Array:
    """Return offsets from FIFO 0 of a node to the FIFO after each output, shape (5,)."""
    return np.array([SOUTH - 5 * width, WEST + 5, NORTH + 5 * width, EAST - 5, 0], dtype=np.int64)


@njit(cache=True, nogil=True, inline="always")
def route(column, v, target):
    """Return the output of a flit at node v under XY routing."""
    # Table lookup: unpredictable branches would dominate the run time.
    across = np.int64(column[target]) - np.int64(column[v])
    down = np.int64(target) - np.int64(v)
    return np.int64(_ROUTE[3 * np.sign(across) + np.sign(down) + 4])


@njit(cache=True, nogil=True, inline="always")
def table_route(routers, v, port, target):
    """Return the output of a flit of an input where links are broken."""
    place = np.int64(target) * len(routers.request) + v
    return np.int64(routers.rings.table[place]) >> (3 * port) & 7


@njit(cache=True, nogil=True, inline="always")
def round_route(routers, v, target):
    """Return the output on a torus, the shorter way round."""
    rings, column = routers.rings, routers.column
    across = np.int64(rings.east[column[v], column[target]])
    down = np.int64(rings.south[rings.row[v], rings.row[target]])
    return np.int64(_ROUTE[3 * across + down + 4])


@njit(cache=True, nogil=True, inline="always")
def next_fifo(routers, v, output):
    """Return the FIFO after an output of a node."""
    fifo = 5 * v + routers.ahead[output]
    if len(routers.rings.leads) > 0:
        fifo = routers.rings.leads[5 * v + output]
    return fifo


@njit(cache=True, nogil=True, inline="always")
def asks(routers, bits, v, port, flit):
    """Return the requests of a flit at the head of an input: bit 5 * output + input.

    With trees a flit is a place of a tree; else its low bits are its target.
    """
    trees = routers.trees
    if len(trees) == 0:
        target = flit & ((1 << bits) - 1)
        if len(routers.rings.row) == 0:
            output = route(routers.column, v, target)
        elif len(routers.rings.table) > 0:
            output = table_route(routers, v, port, target)
        else:
            output = round_route(routers, v, target)
        found = 1 << (5 * output + port)
    else:
        found = 0
        for output in range(5):
            found |= ((np.int64(trees[flit]) >> output) & 1) << (5 * output + port)
    return found


@njit(cache=True, nogil=True, inline="always")
def wake(routers, bits, working, t):
    """List the routers whose buffer heads are due in cycle t; return the number listed."""
    wires = routers.wires
    if len(wires.bucket) > 0:
        slot = t & (WHEEL - 1)
        fifo = np.int64(wires.bucket[slot])
        wires.bucket[slot] = -1
        while fifo >= 0:
            v = fifo // 5
            stride = len(wires.due) // len(routers.level)
            head = routers.flits[fifo * stride + routers.first[fifo]]
            if not routers.listed[v]:
                routers.listed[v] = True
                routers.active[working] = v
                working += 1
            routers.request[v] |= asks(routers, bits, v, fifo - 5 * v, head)
            fifo = np.int64(wires.after[fifo])
    return working


@njit(cache=True, nogil=True, inline="always")
def decide(routers, working, depth, t):
    """Choose the flits that move; return their number and the number of routers kept on the list.

    Fills ``routers.moves`` with (node * 5 + output) * 5 + input.
    """
    level, request, pointer = routers.level, routers.request, routers.pointer
    active, listed, moves = routers.active, routers.listed, routers.moves
    wires, rings = routers.wires, routers.rings
    uneven = len(wires.bucket) > 0
    ringed = len(rings.row) > 0
    count = 0
    kept = 0
    nodes = len(request)
    all_nodes = working > nodes // 4  # sequential memory access is faster
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
            there = next_fifo(routers, v, output)
            if ringed and rings.enters[output] != 0:
                room = np.int64(wires.room[there]) if uneven else np.int64(depth)
                if level[there] + 1 >= room:
                    mask &= ~rings.enters[output]
                    if mask == 0:
                        continue
            port = _GRANT[pointer[5 * v + output], mask]
            ready = output == LOCAL or level[there] < depth
            if uneven and output != LOCAL:
                ready = level[there] < wires.room[there] and wires.free[5 * v + output] <= t
            if ready:
                moves[count] = (5 * v + output) * 5 + port
                count += 1
            else:
                pointer[5 * v + output] = port
    return count, kept


@njit(cache=True, nogil=True, inline="always")
def take(routers, bits, stride, leaving, port, t):
    """Remove the head of an input, or a copy of it, through output 5 * node + output; return it."""
    v = leaving // 5
    output = leaving - 5 * v
    fifo = 5 * v + port
    head = routers.first[fifo]
    moving = routers.flits[fifo * stride + head]
    asking = routers.request[v] & ~(1 << (5 * output + port))
    if len(routers.trees) == 0 or asking & _PORTS[port] == 0:  # the last or only copy
        head += 1
        if head == stride:
            head = 0
        routers.first[fifo] = head
        left = routers.level[fifo] - 1
        routers.level[fifo] = left
        if left > 0:
            wires = routers.wires
            if len(wires.bucket) > 0 and wires.due[fifo * stride + head] > t + 1:
                sleep(wires, fifo, wires.due[fifo * stride + head])
            else:
                following = routers.flits[fifo * stride + head]
                asking |= asks(routers, bits, v, port, following)
    routers.request[v] = asking
    routers.pointer[leaving] = port + 1 if port < LOCAL else 0
    return moving


@njit(cache=True, nogil=True, inline="always")
def cross(routers, leaving, t):
    """Send a flit over the link of an output in cycle t.

    Returns the cycle from which it can be at the head of the buffer after the link.
    """
    wires = routers.wires
    due = t + 1
    if len(wires.bucket) > 0:
        since = wires.free[leaving]
        wires.free[leaving] = (since if since > t - 1.0 else np.float64(t)) + wires.cycles[leaving]
        due = t + wires.latency[leaving]
    return due


@njit(cache=True, nogil=True, inline="always")
def put(routers, bits, stride, working, fifo, moving, due, t):
    """Put a flit into a buffer in cycle t; return the number of listed routers."""
    held = routers.level[fifo]
    routers.level[fifo] = held + 1
    place = routers.first[fifo] + held
    if place >= stride:
        place -= stride
    routers.flits[fifo * stride + place] = moving
    wires = routers.wires
    if len(wires.bucket) > 0:
        wires.due[fifo * stride + place] = due
    if held == 0:
        if due > t + 1:
            sleep(wires, fifo, due)
        else:
            v = fifo // 5
            if not routers.listed[v]:
                routers.listed[v] = True
                routers.active[working] = v
                working += 1
            routers.request[v] |= asks(routers, bits, v, fifo - 5 * v, moving)
    return working


@njit(cache=True, nogil=True, inline="always")
def sleep(wires, fifo, due):
    """Schedule a buffer for `wake` in the cycle in which its head is due."""
    slot = due & (WHEEL - 1)
    wires.after[fifo] = wires.bucket[slot]
    wires.bucket[slot] = fifo


@njit(cache=True, nogil=True, inline="always")
def sleeping(routers):
    """Return True if any buffer sleeps."""
    found = False
    for slot in range(len(routers.wires.bucket)):
        found = found or routers.wires.bucket[slot] >= 0
    return found
