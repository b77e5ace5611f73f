"""Arrays of the tick kernel, grouped in named tuples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipsim.protocols import FloatArray, Int64Array

NONE = -1


class Routes(NamedTuple):
    """Packets of the neurons of all cores. A slot is a neuron, numbered core by core.

    first : ndarray[int64], shape (cores + 1,), core c has the slots first[c] .. first[c+1] - 1,
        updated in this order
    indptr : ndarray[int64], shape (slots + 1,), packets of a slot in `flit` and `events`
    flit : ndarray[int64], shape (packets,), destination router; with trees, the root place
    core, events : ndarray[int64], shape (ends,), destination core of a packet, or the number of
        cores for the host, and its synaptic events there; without trees, parallel to `flit`

    With trees a packet is copied on its way; a place of a tree is a router on the tree:

    mask : ndarray[int8], shape (places,), bit o: the tree leaves by output o; empty without trees
    child : ndarray[int64], shape (places, 5), the place after an output
    heard : ndarray[int64], shape (places + 1,), ends of a place, all of which receive in one cycle
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

    next : float64, cycle in which the next spiking neuron is updated, LATER without one
    at, stop : int64, that neuron and the core's end, as indices into the spikes of the tick
    queued : int64, spikes before `at` that wait for their lookup
    looked, known : int64, slots whose lists of packets were looked up but not started, or NONE;
        `known` starts first
    row, left : int64, the next packet of the current list, and the number of remaining packets
    read : int64, the packet last read from the list, or NONE
    offered : int64, the packet at the output, or NONE
    offer : float64, cycle from which it is offered, or of the last one
    behind : int64, the packet that waits after `offered`, or NONE
    free : float64, cycle from which the receiver accepts the next packet
    begins, before : float64, start cycle of the events of the last packet, and of the previous one
    ends : float64, cycle in which the list of the last packet has been read to its end
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
    """Spikes of consecutive ticks.

    spikes : ndarray[int64], shape (spikes,): slots, tick by tick, sorted within each
    ends : ndarray[int64], shape (ticks + 1,): tick k has spikes[ends[k]:ends[k + 1]]
    host, host_ends : slots in the same form, whose packets the host sends before each tick, in this
        order
    """

    spikes: Int64Array
    ends: Int64Array
    host: Int64Array
    host_ends: Int64Array


class TickCounters(NamedTuple):
    """Counters of the simulated ticks.

    cycles : int64, shape (ticks,)
    swept, received : float64, shape (ticks,), cycle in which the last neuron was updated, the last
        event added
    sent, events : int64, shape (cores,), packets sent by a core, synaptic events in it
    taken : int64, shape (cores + 1,), packets received by a core, and by the host
    passed : int64, shape (5 * routers,), flits through output o of router v at 5 * v + o
    """

    cycles: Int64Array
    swept: FloatArray
    received: FloatArray
    sent: Int64Array
    taken: Int64Array
    events: Int64Array
    passed: Int64Array


class CycleCosts(NamedTuple):
    """Cycle costs, as in `chipsim.chip.time.ChipTime`, and mesh parameters.

    tail : cycles from the end of a packet's list until its last event is in its sum
    depth : flits per input buffer
    bits : number of bits of a flit that name its destination router, without trees
    """

    neuron: float
    event: float
    packet_out: float
    packet_in: float
    barrier: float
    tail: float
    depth: int
    bits: int
