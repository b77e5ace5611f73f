"""Cycles of a tick whose packets wait for each other: input buffers as queues that block.

The packets of a tick spread over its T cycles. The head of an input buffer leaves after one cycle
and its waiting time; the buffer is emptied in time if its flits times these cycles are at most T.
The smallest such T for all buffers is the estimate. Waiting of a head for an output has two parts:

* Room: the buffer after the output, busy for a share u of T, is full with probability u^k, as
  k = `PLACES` flits wait after its head (geometric queue lengths, as in an M/M/1 queue). Then the
  output passes one flit per head of that buffer instead of one per cycle.
* Turns: heads of other inputs that wait for the same output, and half of the flit in transfer.
  Their number is the flits of the input per cycle times their waiting (Little's law).

Room depends on the buffers after it alone, so XY routes are followed from their ends to their
starts, without iteration; if links are broken, in a topological order of the links. Cores are
buffers as well: packets that wait for the events of others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.detours.tables import detours_of
from chipsim.protocols import FloatArray
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.latency import RouterTraffic, router_traffic
from chipsim.traffic.machines import hop_cycles, link_times
from chipsim.traffic.ticks import TickWork, tick_work
from chipsim.traffic.turns import (
    EAST,
    LOCAL,
    NORTH,
    SOUTH,
    WEST,
    entering,
    legs_of,
    of_routers,
)

PLACES = 3
"""Flits that wait after the head of a buffer of four, and packets that wait in a core."""
STEPS = 34
"""Bisections of the cycles, to a relative error below 1e-10."""
_LEAST = 1e-9  # of the share of time in which an output is free


class TickQueues(NamedTuple):
    """Traffic through the routers in a tick; rows and columns are of routers.

    flits : ndarray[float64], shape (5, 5, rows, columns), by input and output, in the form of
        `chipsim.traffic.turns.legs_of`, including packets to the own core
    came : ndarray[float64], shape (5, rows, columns), flits that enter by each input
    cycles : ndarray[float64], shape (5, rows, columns), cycles per flit at an output
    taken, work : ndarray[float64], shape (cores,), packets that each core receives, and the cycles
        that it needs for them
    """

    flits: FloatArray
    came: FloatArray
    cycles: FloatArray
    taken: FloatArray
    work: FloatArray


def tick_queues(chip: Chip, traffic: Traffic, time: ChipTime, least: float) -> float:
    """Return the cycles of a tick until all input buffers are empty; 0 if nothing is sent.

    least : lower bound of the cycles of a tick

    It is also 0 for trees on chips whose cores share routers, as their ends are unknown.
    """
    sent, work = router_traffic(chip, traffic), tick_work(chip, traffic, time)
    if sent is None or not work.sent.any():
        return 0.0
    begin = time.barrier + time.spike
    queues = _queues(chip, sent, work, traffic, time)
    way = float((work.loads * hop_cycles(chip, time.hop)).sum() / work.sent.sum())
    return begin + way + queue_cycles(chip, queues, max(1.0, least - begin))


def _queues(
    chip: Chip, sent: RouterTraffic, work: TickWork, traffic: Traffic, time: ChipTime
) -> TickQueues:
    """Return the queues of the packets of a tick; work : for the same packets"""
    unit = (traffic.weight_unit if chip.delivery == "synapse" else traffic.rate_unit) * time.tick
    own = traffic.profile.within if chip.delivery == "synapse" else traffic.activity.local
    came = entering(sent.links)
    legs = legs_of(sent.links, sent.turns, came, of_routers(chip, sent.entered))
    if sent.ends is not None:
        links, turns, entered = sent.ends
        ends = legs_of(links, turns, entering(links), of_routers(chip, entered))
        legs[:, LOCAL] = ends[:, LOCAL]
    legs[LOCAL, LOCAL] += of_routers(chip, own)
    cycles: FloatArray = np.ones(came[:1].repeat(5, axis=0).shape)
    cycles[:LOCAL] = link_times(chip)[1]
    inputs = np.concatenate([came * np.float64(unit), of_routers(chip, work.sent)[None]])
    received = work.taken * time.packet_in + work.events * time.event
    return TickQueues(legs * np.float64(unit), inputs, cycles, work.taken, received)


def queue_cycles(chip: Chip, queues: TickQueues, least: float) -> float:
    """Return the cycles that the busiest input needs if packets spread over `least` cycles or more.

    These are the smallest in which all inputs are emptied, or fewer than `least` (above 0).
    """
    share = _share(chip, queues, least)
    if share <= 1:
        return share * least
    low, high = least, 2 * least
    while _share(chip, queues, high) > 1:
        low, high = high, 2 * high
    for _ in range(STEPS):  # bisection: the share rises steeply where full buffers block others
        middle = (low + high) / 2
        if _share(chip, queues, middle) > 1:
            low = middle
        else:
            high = middle
    return high


def _share(chip: Chip, queues: TickQueues, span: float) -> float:
    """Return the largest share of `span` cycles in which an input has a head; above 1, any."""
    work = np.maximum(queues.work, queues.taken)
    late = (work - queues.taken) * np.minimum(work / span, 1.0) ** PLACES
    late, taken = of_routers(chip, late), of_routers(chip, queues.taken)
    room = np.divide(late, taken, out=np.zeros_like(late), where=taken > 0)
    torus = chip.machine is not None and chip.machine.torus != ""
    detours = detours_of(chip)
    if detours is not None:
        ways = detours.after, detours.order
        return float(_busiest_of(queues.flits, queues.came, queues.cycles, room, span, *ways))
    return float(_busiest(queues.flits, queues.came, queues.cycles, room, span, 1 + torus))


@njit(cache=True, nogil=True)
def _busiest(flits, came, cycles, room, span, rounds):
    """Return the largest share of `span` cycles in which an input has a head; above 1, any.

    flits, came, cycles : of a `TickQueues`
    room : cycles until the cores of a router accept a packet, shape (rows, columns)
    rounds : 2 on a torus, where a line of routers is followed twice, else 1
    """
    rows, columns = room.shape
    busy = came / span
    waiting = np.zeros((max(rows, columns, 1), 5))
    for y in range(rows):
        for x in range(columns):
            _wait(flits, LOCAL, y, x, span, cycles[LOCAL, y, x], room[y, x], waiting[0])
            for i in range(5):
                busy[i, y, x] += waiting[0, i]
    for way in (SOUTH, NORTH, EAST, WEST):  # routes end in columns
        along_row = way in (EAST, WEST)
        length, lines = (columns, rows) if along_row else (rows, columns)
        ahead = 1 if way in (EAST, SOUTH) else -1
        for line in range(lines):
            before = (busy[way, line, :] if along_row else busy[way, :, line]).copy()
            at = length - 1 if ahead > 0 else 0
            for _ in range(rounds * length):
                after = (at + ahead) % length
                y, x = (line, at) if along_row else (at, line)
                below, right = (line, after) if along_row else (after, line)
                slot, full, head = cycles[way, y, x], 0.0, 1.0
                if came[way, below, right] > 0:
                    full = min(1.0, busy[way, below, right]) ** PLACES
                    head = busy[way, below, right] * span / came[way, below, right]
                late = max(0.0, head - slot) * full
                _wait(flits, way, y, x, span, slot, late, waiting[at])
                busy[way, y, x] = before[at] + waiting[at, way]
                at = (at - ahead) % length
            for at in range(length):
                y, x = (line, at) if along_row else (at, line)
                for i in range(5):
                    if i != way:
                        busy[i, y, x] += waiting[at, i]
        if busy.max() > 1:
            break
    return busy.max()


@njit(cache=True, nogil=True)
def _busiest_of(flits, came, cycles, room, span, after, order):
    """Return the same as `_busiest`, for routes around broken links.

    after, order : of `chipsim.detours.tables.Detours`
    """
    rows, columns = room.shape
    busy = came / span
    found = np.zeros(5)
    for y in range(rows):
        for x in range(columns):
            _wait(flits, LOCAL, y, x, span, cycles[LOCAL, y, x], room[y, x], found)
            for i in range(5):
                busy[i, y, x] += found[i]
    for link in order:
        router, way = link // 4, link % 4
        there = after[router, way]
        if there < 0:
            continue
        y, x = router // columns, router % columns
        below, right = there // columns, there % columns
        slot, full, head = cycles[way, y, x], 0.0, 1.0
        if came[way, below, right] > 0:
            full = min(1.0, busy[way, below, right]) ** PLACES
            head = busy[way, below, right] * span / came[way, below, right]
        _wait(flits, way, y, x, span, slot, max(0.0, head - slot) * full, found)
        for i in range(5):
            busy[i, y, x] += found[i]
            if busy[i, y, x] > 1:
                return busy[i, y, x]
    return busy.max()


@njit(cache=True, nogil=True)
def _wait(flits, output, y, x, span, cycles, room, found):
    """Write the share of time in which each input waits for an output of router (x, y).

    The waiting heads q of an input solve q = rate (wait + cycles / 2), where
    wait = own + slot (sum of q of the other inputs).

    cycles : of the output per flit; room : mean cycles until there is room after it
    """
    slot = cycles + room
    used, total = 0.0, 0.0
    for i in range(5):
        rate = flits[i, output, y, x] / span
        used += rate
        total += rate / (1 + rate * slot)
    own = room + (cycles - 1) * min(1.0, used * cycles)
    begun = own + cycles / 2
    heads = total * begun / max(1 - slot * total, _LEAST)
    for i in range(5):
        rate = flits[i, output, y, x] / span
        mine = rate / (1 + rate * slot) * (begun + slot * heads)
        found[i] = rate * (own + slot * (heads - mine))
