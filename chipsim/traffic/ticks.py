"""How many cycles a tick takes on a chip with a barrier, and what keeps it from ending sooner.

Each core and link has a bound, affine in what it has to do (the ``[time]`` of the chip): a core
updates its neurons, sends packets, and takes packets and adds their synaptic events, all three at
once; a link passes flits. A tick takes at least as long as the slowest of them. Such max-affine
bounds explain what was measured on Loihi 2 (arXiv 2601.10035, arXiv 2511.21549).

Rates are those of the network; ``ChipTime.tick`` makes spikes per tick of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from chipsim.chip.limits import Usage
from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.activity import Activity
from chipsim.traffic.machines import hop_cycles, link_tables
from chipsim.traffic.profile import Profile

_STEPS = 32  # of the integral over when the last neuron spikes


@dataclass(frozen=True, slots=True)
class TickBounds:
    """Cycles that every core and link needs in a tick with the mean activity.

    Attributes
    ----------
    neurons, packets_out, events : ndarray[float64], shape (cores,): to update the neurons; to send
        the packets; to take those that arrive and to add their events; 0 where there are none
    links : ndarray[float64], shape (4, rows, columns of routers), in the form of
        `chipsim.traffic.links`
    after : cycles from the update of the last neuron until its spikes are in the sums, beyond those
        of the fullest core: 0 if nothing spikes
    """

    neurons: FloatArray
    packets_out: FloatArray
    events: FloatArray
    links: FloatArray
    after: float

    @property
    def bound(self) -> str:
        """Which of `most` takes longest."""
        most = self.most()
        return max(most, key=lambda name: most[name])

    @property
    def cycles(self) -> float:
        """Of a tick, on average; at least one."""
        return max(1.0, *self.most().values())

    def to_json(self) -> dict[str, Any]:
        """The metrics of them."""
        return {"tick_cycles": self.cycles, "tick_bound": self.bound, "tick_bounds": self.most()}

    def most(self) -> dict[str, float]:
        """The most cycles of what may bound a tick, over all cores or links."""
        return {
            "neurons": float(self.neurons.max()) + self.after,
            "packets_out": float(self.packets_out.max()),
            "events": float(self.events.max()),
            "links": float(self.links.max()),
        }

    @property
    def cores(self) -> FloatArray:
        """The largest of its bounds for every core, shape (cores,)."""
        return np.maximum(np.maximum(self.neurons, self.packets_out), self.events)


class Measured(Protocol):
    """What is asked of traffic: a `chipsim.traffic.arrays.Traffic`, or as much of one."""

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


def tick_bounds(chip: Chip, traffic: Measured, time: ChipTime) -> TickBounds:
    """The bounds of a mapping, with what the chip sends for a spike.

    Packets to the own core count as they do on the chip: they pass the local port of its router.
    With a packet for each synapse those of a core are the sums of the weights, as in the unicast
    metrics.
    """
    unit = traffic.rate_unit * time.tick
    activity, profile = traffic.activity, traffic.profile
    # Neurons with synapses in their core and in others are in both.
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
    neurons = _times(traffic.usage.neurons, time.neuron)
    begin = time.barrier + time.spike
    return TickBounds(
        neurons=np.where(traffic.usage.neurons > 0, time.barrier + neurons, 0.0),
        packets_out=_after(begin, sent * time.packet_out, sent),
        events=_after(begin, taken * time.packet_in + events * time.event, taken),
        links=_after(begin, loads / _bandwidth(chip) * time.link, loads),
        after=_tail(
            time,
            neurons,
            spikes,
            _way(time, (spikes, sent, taken, events, loads * hop_cycles(chip, time.hop))),
        ),
    )


def _bandwidth(chip: Chip) -> FloatArray | float:
    """Flits that each link takes in the time of one on a link within a chip."""
    return 1.0 if chip.machine is None else link_tables(chip.machine)[2]


def _times(values: Int64Array, unit: float) -> FloatArray:
    found: FloatArray = values * np.float64(unit)
    return found


def _after(begin: float, cycles: FloatArray, what: FloatArray) -> FloatArray:
    """From when the first neuron has spiked, where there is anything."""
    found: FloatArray = np.where(what > 0, begin + cycles, 0.0)
    return found


def _way(time: ChipTime, sums: tuple[FloatArray, ...]) -> float:
    """Cycles from the update of a neuron until all its spikes are in sums, on average: of the last
    of its packets, and the last of its events."""
    spikes, sent, taken, events, ways = (float(values.sum()) for values in sums)
    if not (spikes and sent and taken):
        return 0.0
    more = (sent / spikes - 1) * time.packet_out + (events / taken - 1) * time.event
    return time.spike + ways / sent + max(0.0, more)


def _tail(time: ChipTime, neurons: FloatArray, spikes: FloatArray, way: float) -> float:
    """Cycles that a tick goes on, on average, after the fullest core has updated its last neuron.

    Spikes of a core come at any time of its sweep, and as many as a Poisson process has: so
    the last of all that is later than x cycles is none with probability exp(-G(x)), with G(x) the
    spikes that are expected later.

    neurons : cycles of the sweep of each core; spikes : of each core in a tick
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
