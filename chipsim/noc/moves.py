"""How flits move: what every simulator of a mesh does in a cycle, in one place.

A cycle decides on the state before it (`decide`), then changes it: heads leave their buffers
(`take`), flits come into buffers (`put`). Kernels inline these functions, as handing them arrays in
every call would cost as much as moving a flit; and they are compiled without reference counts
(numba's `_nrt=False`, of kernels that make no arrays), which take ten times longer than the moves.

A router keeps, for each output, a mask of the inputs whose head wants it: 5 x 5 bits in one
number. An output that offered a flit and could not pass it on must offer the same one again. Its
pointer is set to that input, which is then the first one that asks: no lock is needed. With trees a
head may ask for several outputs: each grants it in its own time, and it leaves with the last copy.

Links may differ (`chipsim.noc.mesh.Links`). A flit is in the buffer behind a link from when it
leaves, but cannot be at the head before it is due; until then the buffer sleeps in a timing wheel.
A link that takes several cycles for a flit is not free meanwhile.

On a torus the flits of a ring could fill it and wait for each other for ever. So each ring keeps a
bubble (Puente et al., J. Parallel and Distributed Computing 61(9), 2001): a flit that comes into a
ring, from a core or from its row, moves only if the buffer behind has room for two; one that is in
the ring needs room for one. An output does not offer flits that may not come in, so that these hold
up none of its ring. Columns wait for no row, so trees drain, too: a copy that takes the last place
of a ring leaves its own as soon as its other copies are gone.
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

# All requests of an input.
_PORTS = np.array([sum(1 << (5 * output + port) for output in range(5)) for port in range(5)])


def leads(width: int) -> Int64Array:
    """Where outputs lead: from FIFO 0 of a node to the FIFO of another, shape (5,)."""
    return np.array([SOUTH - 5 * width, WEST + 5, NORTH + 5 * width, EAST - 5, 0], dtype=np.int64)


@njit(cache=True, nogil=True, inline="always")
def route(column, v, target):
    """The output that a flit takes at node v: its row first."""
    # Looked up, as branches that cannot be foreseen would take more time than all the rest.
    across = np.int64(column[target]) - np.int64(column[v])
    down = np.int64(target) - np.int64(v)
    return np.int64(_ROUTE[3 * np.sign(across) + np.sign(down) + 4])


@njit(cache=True, nogil=True, inline="always")
def round_route(routers, v, target):
    """The same on a torus, the shorter way round."""
    rings, column = routers.rings, routers.column
    across = np.int64(rings.east[column[v], column[target]])
    down = np.int64(rings.south[rings.row[v], rings.row[target]])
    return np.int64(_ROUTE[3 * across + down + 4])


@njit(cache=True, nogil=True, inline="always")
def next_fifo(routers, v, output):
    """The FIFO that an output of a node leads to."""
    fifo = 5 * v + routers.ahead[output]
    if len(routers.rings.leads) > 0:
        fifo = routers.rings.leads[5 * v + output]
    return fifo


@njit(cache=True, nogil=True, inline="always")
def asks(routers, bits, v, port, flit):
    """The requests of a flit at the head of an input: bit 5 * output + input.

    Where there are trees a flit names a place of one; else its last bits are its target.
    """
    trees = routers.trees
    if len(trees) == 0:
        target = flit & ((1 << bits) - 1)
        if len(routers.rings.row) == 0:
            output = route(routers.column, v, target)
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
    """List the routers of the buffers whose head is due in cycle t; returns how many are listed."""
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
    """Which flits move in this cycle; how many do, and how many routers stay on the list.

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
    """Let the head of an input, or a copy of it, leave by 5 * node + output; returns it."""
    v = leaving // 5
    output = leaving - 5 * v
    fifo = 5 * v + port
    head = routers.first[fifo]
    moving = routers.flits[fifo * stride + head]
    asking = routers.request[v] & ~(1 << (5 * output + port))
    if len(routers.trees) == 0 or asking & _PORTS[port] == 0:  # the last copy, or the only one
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
    """Send a flit over the link of an output in cycle t; the cycle from which it can be at the head
    of the buffer behind it."""
    wires = routers.wires
    due = t + 1
    if len(wires.bucket) > 0:
        since = wires.free[leaving]
        wires.free[leaving] = (since if since > t - 1.0 else np.float64(t)) + wires.cycles[leaving]
        due = t + wires.latency[leaving]
    return due


@njit(cache=True, nogil=True, inline="always")
def put(routers, bits, stride, working, fifo, moving, due, t):
    """Put a flit into a buffer in cycle t; returns how many routers are listed then."""
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
    """Have `wake` find a buffer when its head is due."""
    slot = due & (WHEEL - 1)
    wires.after[fifo] = wires.bucket[slot]
    wires.bucket[slot] = fifo


@njit(cache=True, nogil=True, inline="always")
def sleeping(routers):
    """Whether any buffer sleeps."""
    found = False
    for slot in range(len(routers.wires.bucket)):
        found = found or routers.wires.bucket[slot] >= 0
    return found
