"""Estimated cycles of a tick on a chip with a barrier, and its bottleneck.

Each core and link has a bound that is affine in its work (the ``[time]`` table of the chip): a core
updates its neurons, sends packets, and receives packets and adds their synaptic events, all three
in parallel; a link carries flits. A tick takes at least as long as the slowest of them. Such
max-affine bounds explain measurements on Loihi 2 (arXiv 2601.10035, arXiv 2511.21549). Packets that
wait for each other take longer: `chipsim.traffic.queues`.

Rates are the rates of the network; ``ChipTime.tick`` converts them to spikes per tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from chipsim.chip.limits import Usage
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.activity import Activity
from chipsim.traffic.machines import hop_cycles, link_tables
from chipsim.traffic.profile import Profile

_STEPS = 32  # steps of the integral over the time of the last spike


@dataclass(frozen=True, slots=True)
class TickBounds:
    """Cycles that every core and link needs in a tick with the mean activity.

    Attributes
    ----------
    neurons, packets_out, events : ndarray[float64], shape (cores,): cycles to update the neurons,
        to send the packets, and to receive packets and add their events; 0 without any
    links : ndarray[float64], shape (4, rows, columns of routers), in the form of
        `chipsim.traffic.links`
    after : cycles from the end of the fullest core's sweep until the last spikes are added to the
        sums; 0 if nothing spikes
    queues : cycles until all input buffers are empty, an estimate; 0 if it is unknown
    """

    neurons: FloatArray
    packets_out: FloatArray
    events: FloatArray
    links: FloatArray
    after: float
    queues: float = 0.0

    @property
    def bound(self) -> str:
        """The entry of `most` with the most cycles: the busiest kind of core or link."""
        most = self.most()
        return max(most, key=lambda name: most[name])

    @property
    def cycles(self) -> float:
        """Mean cycles of a tick; at least one."""
        return max(1.0, self.queues, *self.most().values())

    def to_json(self) -> dict[str, Any]:
        """Return the metrics."""
        bounds = self.most() | {"queues": self.queues}
        return {"tick_cycles": self.cycles, "tick_bound": self.bound, "tick_bounds": bounds}

    def most(self) -> dict[str, float]:
        """Return the largest cycles of each bound over all cores or links."""
        return {
            "neurons": float(self.neurons.max()) + self.after,
            "packets_out": float(self.packets_out.max()),
            "events": float(self.events.max()),
            "links": float(self.links.max()),
        }

    @property
    def cores(self) -> FloatArray:
        """The largest bound of every core, shape (cores,)."""
        return np.maximum(np.maximum(self.neurons, self.packets_out), self.events)


class Measured(Protocol):
    """The part of `chipsim.traffic.arrays.Traffic` that the bounds need."""

    @property
    def weight_unit(self) -> float: ...
    @property
    def rate_unit(self) -> float: ...
    @property
    def unicast_links(self) -> Int64Array: ...
    @property
    def core_links(self) -> Int64Array: ...
    @property
    def multicast_links(self) -> Int64Array: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def activity(self) -> Activity: ...
    @property
    def profile(self) -> Profile: ...


class TickWork(NamedTuple):
    """Mean work of a tick, each ndarray[float64].

    spikes, sent, taken, events : shape (cores,), spikes, packets sent and received, and synaptic
        events of each core
    loads : flits of each link, in the form of `chipsim.traffic.links`
    """

    spikes: FloatArray
    sent: FloatArray
    taken: FloatArray
    events: FloatArray
    loads: FloatArray


def tick_work(chip: Chip, traffic: Measured, time: ChipTime) -> TickWork:
    """Return the work of cores and links for the chip's kind of packets.

    Packets to the own core count as on the chip: they pass the local port of its router. With one
    packet per synapse, a core's packets are the sums of the weights, as in the unicast metrics.
    """
    unit = traffic.rate_unit * time.tick
    activity, profile = traffic.activity, traffic.profile
    # Neurons with synapses both in their core and in others are in both counts.
    spikes = _times(np.maximum(activity.spikes, activity.local), unit)
    events = _times(activity.events, unit)
    taken = _times(activity.received + activity.local, unit)
    if chip.delivery == "synapse":
        weight = traffic.weight_unit * time.tick
        sent, taken = _times(profile.outgoing + profile.within, weight), events
        loads = _times(traffic.unicast_links, weight)
    elif chip.delivery == "core":
        sent = _times(activity.sent + activity.local, unit)
        loads = _times(traffic.core_links, unit)
    else:
        sent, loads = spikes, _times(traffic.multicast_links, unit)
    return TickWork(spikes, sent, taken, events, loads)


def tick_bounds(chip: Chip, traffic: Measured, time: ChipTime) -> TickBounds:
    """Return the bounds of a mapping, without the queues."""
    work = tick_work(chip, traffic, time)
    neurons = _times(traffic.usage.neurons, time.neuron)
    begin = time.barrier + time.spike
    received = work.taken * time.packet_in + work.events * time.event
    return TickBounds(
        neurons=np.where(traffic.usage.neurons > 0, time.barrier + neurons, 0.0),
        packets_out=_after(begin, work.sent * time.packet_out, work.sent),
        events=_after(begin, received, work.taken),
        links=_after(begin, work.loads / _bandwidth(chip) * time.link, work.loads),
        after=_tail(
            time,
            neurons,
            work.spikes,
            _way(time, (*work[:4], work.loads * hop_cycles(chip, time.hop))),
        ),
    )


def _bandwidth(chip: Chip) -> FloatArray | float:
    """Return the bandwidth of each link relative to a link within a chip."""
    return 1.0 if chip.machine is None else link_tables(chip.machine)[2]


def _times(values: Int64Array, unit: float) -> FloatArray:
    found: FloatArray = values * np.float64(unit)
    return found


def _after(begin: float, cycles: FloatArray, what: FloatArray) -> FloatArray:
    """Return begin + cycles where there is any work, else 0."""
    found: FloatArray = np.where(what > 0, begin + cycles, 0.0)
    return found


def _way(time: ChipTime, sums: tuple[FloatArray, ...]) -> float:
    """Return the mean cycles from the update of a neuron until all its spikes are added to sums.

    This is the arrival of the last of its packets, and the last of its events.
    """
    spikes, sent, taken, events, ways = (float(values.sum()) for values in sums)
    if not (spikes and sent and taken):
        return 0.0
    more = (sent / spikes - 1) * time.packet_out + (events / taken - 1) * time.event
    return time.spike + ways / sent + max(0.0, more)


def _tail(time: ChipTime, neurons: FloatArray, spikes: FloatArray, way: float) -> float:
    """Return the mean cycles of a tick after the fullest core has updated its last neuron.

    Spikes of a core are spread over its sweep as a Poisson process, so no spike is later than x
    cycles with probability exp(-G(x)), where G(x) is the expected number of later spikes.

    neurons : cycles of the sweep of each core
    spikes : spikes of each core per tick
    """
    last = float(neurons.max())
    if not (way and last):
        return 0.0
    at = np.linspace(0.0, way, _STEPS + 1)
    begins = (last - way + at)[:, None]
    used = neurons > 0
    share = np.clip(1.0 - np.maximum(begins, 0.0) / neurons[used], 0.0, 1.0)
    missed = np.exp(-(share * spikes[used]).sum(axis=1))
    return float(np.trapezoid(1.0 - missed, at))
