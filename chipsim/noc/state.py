"""Arrays of the kernel, grouped in named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipsim.protocols import FloatArray, Int32Array, Int64Array


class Wires(NamedTuple):
    """Unequal links and the flits on them; all empty if every link takes one cycle.

    latency : ndarray[int64], shape (5 * nodes,), latency of the link after output 5 * v + o: cycles
        from leaving until the flit can be at the head of the next buffer
    cycles : ndarray[float64], shape (5 * nodes,), cycles that each flit occupies the link
    free : ndarray[float64], shape (5 * nodes,), cycle from which the link accepts the next flit
    room : ndarray[int32], shape (FIFOs,), capacity of a FIFO in flits, including its link
    due : ndarray[int64], shape (FIFOs * places,), cycle from which a flit can be at the head
    bucket : ndarray[int32], shape (WHEEL,), first FIFO whose head is due in a slot, or -1
    after : ndarray[int32], shape (FIFOs,), the next FIFO in the same slot, or -1
    """

    latency: Int64Array
    cycles: FloatArray
    free: FloatArray
    room: Int32Array
    due: Int64Array
    bucket: Int32Array
    after: Int32Array


class Rings(NamedTuple):
    """A torus, or routes around broken links; all empty if routes are the XY routes of a mesh.

    table : ndarray[uint16], shape (destinations * nodes,), outputs of flits by destination and node
        if links are broken: three bits for each input; else empty
    row : ndarray[int32], shape (nodes,), y of each node; not empty
    east, south : ndarray[int8], shape (columns, columns) and (rows, rows): sign of the way between
        two columns or rows
    leads : ndarray[int64], shape (5 * nodes,), the FIFO after an output
    enters : ndarray[int64], shape (5,), inputs whose flits enter a ring at an output, as bits
    """

    table: np.ndarray[tuple[int], np.dtype[np.uint16]]
    row: Int32Array
    east: np.ndarray[tuple[int, int], np.dtype[np.int8]]
    south: np.ndarray[tuple[int, int], np.dtype[np.int8]]
    leads: Int64Array
    enters: Int64Array


class Routers(NamedTuple):
    """State of all routers. Input p of node v is FIFO 5 * v + p.

    The node after the last is the host, whose FIFOs stay empty.

    column : ndarray[int32], shape (nodes + 1,), x of each node and of the host
    level, first : ndarray[int32], shape (FIFOs,), flits in a FIFO, place of its head
    flits : ndarray[int64], shape (FIFOs * places,), places is the capacity of the deepest FIFO
        Target node of each flit; the bits above hold its cycle of creation, or its packet's index.
    request : ndarray[int32], shape (nodes,), bit 5 * output + input
    pointer : ndarray[int8], shape (5 * nodes,), round-robin pointer of every output
    active : ndarray[int32], shape (nodes,), routers with a flit come first
    listed : ndarray[bool], shape (nodes,), True for routers in `active`
    moves : ndarray[int64], shape (5 * nodes,), scratch: (node * 5 + output) * 5 + input
    wires : unequal links
    trees : ndarray[int8], output bits of each place of a tree; empty if flits name their targets
    ahead : ndarray[int64], shape (5,), offset from FIFO 0 of a node to the FIFO after an output,
        except at the wrap-around of a torus
    rings : rings of a torus
    """

    column: Int32Array
    level: Int32Array
    first: Int32Array
    flits: Int64Array
    request: Int32Array
    pointer: np.ndarray[tuple[int], np.dtype[np.int8]]
    active: Int32Array
    listed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    moves: Int64Array
    wires: Wires
    trees: np.ndarray[tuple[int], np.dtype[np.int8]]
    ahead: Int64Array
    rings: Rings


class Tiles(NamedTuple):
    """Cores that share a router (`chipsim.noc.tiles`); all empty with one core per router.

    router, place : ndarray[int32], shape (cores,), router of each core, and its place in the tile
    turn : ndarray[int32], shape (routers,), place at which the next search for a packet starts
    first : ndarray[int32], shape (routers,), scratch: the core that sends in this cycle, or -1
    size : cores per tile
    """

    router: Int32Array
    place: Int32Array
    turn: Int32Array
    first: Int32Array
    size: int


class Sources(NamedTuple):
    """The packet at the front of each source queue, and the wake-up times of sources.

    A source is a core. Without tiles, sources are the nodes.

    time : ndarray[int64], shape (cores,), cycle of creation, or NEVER
    flit : ndarray[int64], shape (cores,), as in `Routers`
    pending : ndarray[int32], shape (cores,), cores whose packet is due come first
    entering : ndarray[int32], shape (cores,), scratch
    bucket : ndarray[int32], shape (WHEEL,), first core that sleeps in a slot, or -1
    after : ndarray[int32], shape (cores,), the next core in the same slot, or -1
    """

    time: Int64Array
    flit: Int64Array
    pending: Int32Array
    entering: Int32Array
    bucket: Int32Array
    after: Int32Array


class Feed(NamedTuple):
    """Source of packets: either a list or random generators; the fields of the other are empty.

    at, stop : ndarray[int64], shape (cores,), range in `order` of the packets still to come
    order : ndarray[int64], shape (packets,), packets grouped by core, by time within a core
    created : ndarray[int64], shape (packets,), cycle of creation
    wanted : ndarray[int32], shape (packets,), router of the target

    random : ndarray[uint64], shape (cores,), nonzero generator states; empty for a list of packets
    miss : ndarray[float64], shape (cores,), log(1 - probability of a packet per cycle)
    spread : ndarray[float64], shape (2,), share of packets to uniformly drawn nodes, and the number
        of these nodes
    indptr : ndarray[int64], shape (cores + 1,), entries of each core in the next three arrays
    choice : ndarray[int32], target node
    below : ndarray[int64], cumulative weight up to the entry
    guide : ndarray[int32], start of the search for a sum; see `kernel._guide`
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
    guide: Int32Array


class FifoLayout(NamedTuple):
    """Flits per FIFO, and number of target bits of a flit."""

    depth: int
    bits: int


class Times(NamedTuple):
    """Cycle limits of a kernel call and of its counters.

    pause : cycle before which the call ends
    last : end of the run; if nothing happens until after `pause`, the call may skip as far as this
    begin, end : the window; packets created in it must be delivered
    earliest : cycle from which the run may end because all is delivered
    """

    pause: int
    last: int
    begin: int
    end: int
    earliest: int


class Tally(NamedTuple):
    """Counters of the cycles and packets of the window.

    passed : ndarray[int64], shape (5 * nodes,), flits through output o of node v at 5 * v + o
    offered, entered : ndarray[int64], shape (cores,), packets created, and accepted by the mesh
    histogram : ndarray[int64], shape (latencies,), packets by latency; must be long enough
    delivered : ndarray[int64], shape (packets,), cycles of delivery, for a list of packets
    """

    passed: Int64Array
    offered: Int64Array
    entered: Int64Array
    histogram: Int64Array
    delivered: Int64Array
