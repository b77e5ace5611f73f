"""The arrays that the kernel of ticks works on, in tuples of what belongs together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipsim.protocols import FloatArray, Int64Array

NONE = -1


class Routes(NamedTuple):
    """What the neurons of all cores send. A slot is a neuron, numbered core by core.

    first : ndarray[int64], shape (cores + 1,), core c has the slots first[c] .. first[c+1] - 1,
        which it updates in this order
    indptr : ndarray[int64], shape (slots + 1,), packets of a slot in `flit` and `events`
    flit : ndarray[int64], shape (packets,): the router that it goes to; with trees, its root there
    core, events : ndarray[int64], shape (ends,): the core that a packet ends in, and the synaptic
        events that it makes there; of packets to cores, entry by entry those of `flit`

    With trees a packet is copied on its way; a place of a tree is a router that it passes:

    mask : ndarray[int8], shape (places,), bit o: it leaves by output o; empty without trees
    child : ndarray[int64], shape (places, 5), the place behind an output
    heard : ndarray[int64], shape (places + 1,), ends of a place, all of which take it in one cycle
    """

    first: Int64Array
    indptr: Int64Array
    flit: Int64Array
    core: Int64Array
    events: Int64Array
    mask: np.ndarray[tuple[int], np.dtype[np.int8]]
    child: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    heard: Int64Array


class Cores(NamedTuple):
    """State of the cores, each array of shape (cores,).

    next : float64, cycle in which the next neuron that spikes is updated, NEVER without one
    at, stop : int64, that neuron and the end of the core's, among the spikes of the tick
    queued : int64, spikes before `at` that wait to be looked up
    looked, known : int64, slots whose lists of packets were looked up and not begun, or NONE; that
        of `known` is begun first
    row, left : int64, the next packet of the list that was begun, and how many remain
    read : int64, the packet that was read of it, or NONE
    offered : int64, the packet at the output, or NONE; offer : float64, cycle from which it is, or
        of the last one; behind : int64, the packet that waits behind it, or NONE
    free : float64, cycle from which the receiver takes the next packet
    begins, before : float64, cycle in which it begins with the events of the last packet, and of
        the one before
    ends : float64, cycle in which the events of the last packet have been taken from its list
    """

    next: FloatArray
    at: Int64Array
    stop: Int64Array
    queued: Int64Array
    looked: Int64Array
    known: Int64Array
    row: Int64Array
    left: Int64Array
    read: Int64Array
    offered: Int64Array
    offer: FloatArray
    behind: Int64Array
    free: FloatArray
    begins: FloatArray
    before: FloatArray
    ends: FloatArray


class Spiking(NamedTuple):
    """What spikes in each of some ticks.

    spikes : ndarray[int64], shape (spikes,): slots, tick by tick, sorted within each
    ends : ndarray[int64], shape (ticks + 1,): tick k has spikes[ends[k]:ends[k + 1]]
    host, host_ends : slots, alike, whose packets the host sends before each tick, in this order
    """

    spikes: Int64Array
    ends: Int64Array
    host: Int64Array
    host_ends: Int64Array


class Ticks(NamedTuple):
    """What is counted.

    cycles : int64, shape (ticks,)
    swept, received : float64, shape (ticks,): cycle in which the last neuron was updated, the last
        event added
    sent, taken, events : int64, shape (cores,), packets that a core sent, took, events of these
    passed : int64, shape (5 * routers,), flits through output o of router v at 5 * v + o
    """

    cycles: Int64Array
    swept: FloatArray
    received: FloatArray
    sent: Int64Array
    taken: Int64Array
    events: Int64Array
    passed: Int64Array


class Costs(NamedTuple):
    """Cycles of the parts, as in `chipsim.chip.time.ChipTime`; and of the mesh.

    tail : from the end of a packet's list until its last event is in its sum
    depth : flits in the buffer of an input
    bits : of a flit that name the router that it goes to, without trees
    """

    neuron: float
    event: float
    packet_out: float
    packet_in: float
    barrier: float
    tail: float
    depth: int
    bits: int
