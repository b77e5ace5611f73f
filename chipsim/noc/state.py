"""The arrays that the kernel works on, in tuples of what belongs together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipsim.protocols import FloatArray, Int32Array, Int64Array


class Wires(NamedTuple):
    """Links that differ, and what is on them; all empty where all links take a cycle.

    latency : ndarray[int64], shape (5 * nodes,), of the link behind output 5 * v + o: cycles from
        when a flit leaves until it can be at the head of the buffer behind
    cycles : ndarray[float64], shape (5 * nodes,), cycles that each flit takes of the link
    free : ndarray[float64], shape (5 * nodes,), cycle from which the link takes the next one
    room : ndarray[int32], shape (5 * nodes,), flits that a FIFO holds, with those on its link
    due : ndarray[int64], shape (FIFOs * places,), cycle from which a flit can be at the head
    bucket : ndarray[int32], shape (WHEEL,), first FIFO whose head is due in a slot, or -1
    after : ndarray[int32], shape (5 * nodes,), the next one in the same slot, or -1
    """

    latency: Int64Array
    cycles: FloatArray
    free: FloatArray
    room: Int32Array
    due: Int64Array
    bucket: Int32Array
    after: Int32Array


class Rings(NamedTuple):
    """A torus; all empty where there is none.

    row : ndarray[int32], shape (nodes,), y of each
    east, south : ndarray[int8], shape (columns, columns) and (rows, rows): sign of the way from one
        to another
    leads : ndarray[int64], shape (5 * nodes,), the FIFO that an output leads to
    enters : ndarray[int64], shape (5,), inputs whose flits come into a ring by an output, as bits
    """

    row: Int32Array
    east: np.ndarray[tuple[int, int], np.dtype[np.int8]]
    south: np.ndarray[tuple[int, int], np.dtype[np.int8]]
    leads: Int64Array
    enters: Int64Array


class Routers(NamedTuple):
    """State of all routers. Input p of node v is FIFO 5 * v + p.

    column : ndarray[int32], shape (nodes,), x of each
    level, first : ndarray[int32], shape (5 * nodes,), flits in a FIFO, place of its head
    flits : ndarray[int64], shape (5 * nodes * places,), as many places as the deepest FIFO holds
        Target node of each, and above its bits the cycle of creation, or the index of the packet.
    request : ndarray[int32], shape (nodes,), bit 5 * output + input
    pointer : ndarray[int8], shape (5 * nodes,), of every output
    active : ndarray[int32], shape (nodes,), routers with a flit come first
    listed : ndarray[bool], shape (nodes,), whether a router is among them
    moves : ndarray[int64], shape (5 * nodes,), scratch: (node * 5 + output) * 5 + input
    wires : links that differ
    trees : ndarray[int8], by place of a tree, the bits of the outputs that it leaves by; empty
        where flits name their targets
    ahead : ndarray[int64], shape (5,), from FIFO 0 of a node to the FIFO that an output leads to,
        where that is not round a torus
    rings : of a torus
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
    """Cores that share a router (`chipsim.noc.tiles`); all empty where each has one of its own.

    router, place : ndarray[int32], shape (cores,), router of each core, and its place in the tile
    turn : ndarray[int32], shape (routers,), place at which the next search for a packet begins
    first : ndarray[int32], shape (routers,), scratch: the core that sends in this cycle, or -1
    size : cores of a tile
    """

    router: Int32Array
    place: Int32Array
    turn: Int32Array
    first: Int32Array
    size: int


class Sources(NamedTuple):
    """The packet at the front of each source queue, and when to look at which.

    A source is a core. Where cores have routers of their own they are the nodes.

    time : ndarray[int64], shape (cores,), cycle of creation, or NEVER
    flit : ndarray[int64], shape (cores,), as in `Routers`
    pending : ndarray[int32], shape (cores,), cores whose packet is due come first
    entering : ndarray[int32], shape (cores,), scratch
    bucket : ndarray[int32], shape (WHEEL,), first core that sleeps in a slot, or -1
    after : ndarray[int32], shape (cores,), the next one in the same slot, or -1
    """

    time: Int64Array
    flit: Int64Array
    pending: Int32Array
    entering: Int32Array
    bucket: Int32Array
    after: Int32Array


class Feed(NamedTuple):
    """Where packets come from: a list of them, or chance; the other half is empty.

    at, stop : ndarray[int64], shape (cores,), range in `order` of the packets still to come
    order : ndarray[int64], shape (packets,), packets grouped by core, by time within a core
    created : ndarray[int64], shape (packets,); wanted : ndarray[int32], shape (packets,), router
        of the target

    random : ndarray[uint64], shape (cores,), generators, none 0; no shape of cores means a list
    miss : ndarray[float64], shape (cores,), log(1 - chance of a packet in a cycle)
    spread : ndarray[float64], shape (2,), share of packets to nodes drawn from all alike, and how
        many these are
    indptr : ndarray[int64], shape (cores + 1,), entries of each core in the next two
    choice : ndarray[int32], target node; below : ndarray[int64], sum of the weights up to it
    guide : ndarray[int32], where to begin the search for a sum; see `kernel._guide`
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


class Layout(NamedTuple):
    """Flits that a FIFO holds, and bits of a flit that name its target."""

    depth: int
    bits: int


class Times(NamedTuple):
    """Cycles between which a call of the kernel runs and counts.

    pause : cycle before which the call ends
    last : cycle that is not run any more; where nothing happens until after `pause` the run may go
        on as far as this
    begin, end : the window; packets that are created in it are to be delivered
    earliest : cycle from which the run may end because all is delivered
    """

    pause: int
    last: int
    begin: int
    end: int
    earliest: int


class Tally(NamedTuple):
    """What is counted, of the cycles and of the packets of the window.

    passed : ndarray[int64], shape (5 * nodes,), flits through output o of node v at 5 * v + o
    offered, entered : ndarray[int64], shape (cores,), packets created, and accepted by the mesh
    histogram : ndarray[int64], shape (latencies,), packets by latency; too short is an error
    delivered : ndarray[int64], shape (packets,), cycles of delivery, of a list of packets
    """

    passed: Int64Array
    offered: Int64Array
    entered: Int64Array
    histogram: Int64Array
    delivered: Int64Array
