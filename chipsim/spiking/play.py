"""Spiking cores tick by tick, bit by bit as the hardware computes them, without cycles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from chipsim.protocols import Int32Array, Int64Array
from chipsim.spiking.events import SynapseLists, add_events
from chipsim.spiking.neurons import (
    BLOCK,
    FIRES,
    NARROW_BITS,
    PARAMETERS,
    SATURATES,
    STATES,
    NeuronWidths,
    charge_block,
    fields_of,
    update_block,
)  # fmt: skip


class SpikingCores(NamedTuple):
    """The cores of a chip, loaded for a run.

    lists : routes, axons and synapses
    parameters, states : of the slots, from `blocks_of`, with the fields `PARAMETERS` and `STATES`;
        states before the first tick
    widths : of the numbers
    slots : number of slots
    delay_slots : sums per neuron, a power of two
    """

    lists: SynapseLists
    parameters: Int32Array
    states: Int32Array
    widths: NeuronWidths
    slots: int
    delay_slots: int


class SpikingMemory(NamedTuple):
    """Contents of the cores' memories that change.

    states : from `blocks_of`, with the fields `STATES`
    sums : ndarray[int64], shape (delay slots, slots), sums of weights; tick t reads row t
    moving : ndarray[uint8], shape (blocks,), 0 for blocks in which an update without sums changes
        nothing and nothing fires or saturates
    saturated : ndarray[int64], shape (slots,), ticks in which a value of the neuron was clipped:
        its current, its potential outside refractory ticks, or the rest after a spike
    narrow, whole, outcomes : ndarray[int32], ndarray[int64] and ndarray[int32], shape (BLOCK,),
        for the update of a block; charges are 0 between updates
    """

    states: Int32Array
    sums: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    moving: np.ndarray[tuple[int], np.dtype[np.uint8]]
    saturated: Int64Array
    narrow: Int32Array
    whole: Int64Array
    outcomes: Int32Array


class HostSpikes(NamedTuple):
    """Spikes that the host sends: sender[ends[k]] to sender[ends[k + 1] - 1] before tick k.

    sender : ndarray[int64], shape (spikes,), as in `SynapseLists`; repeats allowed
    ends : ndarray[int64], shape (ticks + 1,)
    """

    sender: Int64Array
    ends: Int64Array


class TickLog(NamedTuple):
    """Results of consecutive ticks.

    slot : ndarray[int32], shape (spikes,), slots that fire, tick by tick, ascending in each
    ends : ndarray[int64], shape (ticks + 1,): tick k has slot[ends[k]:ends[k + 1]]
    watched : ndarray[int64], shape (watched,), slots whose potentials are recorded
    potential : ndarray[int32], shape (ticks, watched), after each tick
    """

    slot: Int32Array
    ends: Int64Array
    watched: Int64Array
    potential: np.ndarray[tuple[int, int], np.dtype[np.int32]]


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # counts no references
def _update_all(parameters, memory, totals, charges, widths, slot, count):
    """Update all neurons; write the slots that fire to slot[count:] and return the new count.

    charges : ndarray[int32] or ndarray[int64], shape (BLOCK,), 0 before and after
    """
    outcomes = memory.outcomes
    wide, deep = len(PARAMETERS) * BLOCK, len(STATES) * BLOCK
    for b in range(len(memory.moving)):
        first = b * BLOCK
        some = totals[first : first + BLOCK]
        pending = np.int64(0)
        for i in range(len(some)):
            pending |= some[i]
        if pending == 0 and memory.moving[b] == 0:
            continue
        own = parameters[b * wide : (b + 1) * wide]
        states = memory.states[b * deep : (b + 1) * deep]
        if pending:
            charge_block(own, some, charges, widths)
        found, moved = update_block(own, states, charges[: len(some)], outcomes, widths)
        if pending:
            charges[:] = 0
        memory.moving[b] = moved != 0 or pending != 0
        if found:
            for i in range(len(some)):
                if outcomes[i] & FIRES:
                    slot[count] = first + i
                    count += 1
                if outcomes[i] & SATURATES:
                    memory.saturated[first + i] += 1
    return count


@njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # counts no references
def play_ticks(lists, parameters, widths, memory, host, log, start, tick):
    """Run ticks until the last one of the log, or until the log is full.

    host : a `HostSpikes` of the ticks of the log
    start : number of the log's first tick
    tick : ticks of the log that have been run

    Returns the number of ticks of the log that have been run, and the number of synaptic events: of
    spikes of these ticks, counted in the tick of the spike.
    """
    events = 0
    depth, slots = memory.sums.shape
    while tick < len(log.ends) - 1 and log.ends[tick] + slots <= len(log.slot):
        now = start + tick
        for i in range(host.ends[tick], host.ends[tick + 1]):
            events += add_events(lists, host.sender[i], memory.sums, now)
        totals = memory.sums[now & (depth - 1)]
        begin = log.ends[tick]
        if widths.state_bits <= NARROW_BITS:
            end = _update_all(parameters, memory, totals, memory.narrow, widths, log.slot, begin)
        else:
            end = _update_all(parameters, memory, totals, memory.whole, widths, log.slot, begin)
        for i in range(begin, end):
            events += add_events(lists, np.int64(log.slot[i]), memory.sums, now + 1)
        for i in range(len(log.watched)):
            block, place = divmod(log.watched[i], BLOCK)
            at = (block * len(STATES) + 1) * BLOCK + place
            log.potential[tick, i] = memory.states[at]
        tick += 1
        log.ends[tick] = end
    return tick, events


class SpikingRun:
    """A run of spiking cores from their states before the first tick; ticks continue.

    events : number of synaptic events so far
    saturated : ndarray[int64], shape (slots,), as in `SpikingMemory`
    """

    def __init__(self, cores: SpikingCores) -> None:
        self._cores = cores
        self._memory = SpikingMemory(
            cores.states.copy(),
            np.zeros((cores.delay_slots, cores.slots), np.int64),
            np.ones(-(-cores.slots // BLOCK), np.uint8),
            np.zeros(cores.slots, np.int64),
            np.zeros(BLOCK, np.int32),
            np.zeros(BLOCK, np.int64),
            np.zeros(BLOCK, np.int32),
        )
        self._spikes = np.empty(4 * cores.slots, np.int32)
        self._tick = 0
        self.events = 0

    def restart(self) -> None:
        """Return to the states before the first tick."""
        self._memory.states[:] = self._cores.states
        self._memory.sums[:] = 0
        self._memory.moving[:] = 1
        self._memory.saturated[:] = 0
        self._tick = self.events = 0

    @property
    def saturated(self) -> Int64Array:
        return self._memory.saturated

    @property
    def states(self) -> Int64Array:
        """States of all slots, shape (slots, 3), with the fields `STATES`."""
        return fields_of(self._memory.states, self._cores.slots, len(STATES))

    def run(self, host: HostSpikes, watched: Int64Array) -> TickLog:
        """Run the ticks of the host's spikes; watched : slots whose potentials are recorded."""
        cores, ticks = self._cores, len(host.ends) - 1
        ends, done = np.zeros(ticks + 1, np.int64), 0
        potential = np.zeros((ticks, watched.size), np.int32)
        while True:
            log = TickLog(self._spikes, ends, watched, potential)
            done, events = play_ticks(
                cores.lists, cores.parameters, cores.widths, self._memory, host, log, self._tick,
                done,
            )  # fmt: skip
            self.events += int(events)
            if done == ticks:
                break
            self._spikes = np.r_[self._spikes, np.empty_like(self._spikes)]
        self._tick += ticks
        return log._replace(slot=self._spikes[: ends[-1]].copy())
