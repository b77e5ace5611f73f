"""Analytical estimate of the mean packet latency: hops and waiting, without simulation.

An output with flits from several inputs is a discrete-time queue with a constant service time of s
cycles. With L its utilisation and p_i the part of input i in it, a flit waits

    W = (L - sum p_i^2 / L + L (s - 1)) / (2 (1 - L))

cycles for earlier flits (Geo/D/1; Meisling 1958). The second term accounts for flits of one input,
which never arrive in the same cycle. All flits of a buffer wait for its head, whichever output they
request (head-of-line blocking). If heads for output o arrive at rate p_o and wait W_o, the first
flit that arrives while one waits loses W_o, and the mean over all is p_o W_o (1 + W_o). The input
is busy for 1 + W_o cycles per flit, so a queue there extends this by 1 / (1 - sum p_o (1 + W_o)).

Cores of a tile take turns on one port: the same queue, with the cores as its inputs.

Waiting along the routes is summed over the outputs of all routers, flow by flow. Compared with the
flit simulator, mean latencies are within 1 % on average where the busiest link has a flit in 60 %
of the cycles, and within 3 % at worst (`docs/simulator.md`). Beyond that, queues depend on the
depth of the buffers: simulate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.machines import link_times
from chipsim.traffic.turns import LOCAL, entering, legs_of, of_routers

HIGHEST = 0.6
"""Largest utilisation of a link or core port for which waiting is estimated."""
FREE = 0.1
"""Smallest share of time without a head that every input must have for the estimate."""
ROUNDING = 1e-9
"""Tolerance of these limits for rounding, which depends on the order of summation."""
SIMULATE = "simulate"
BAND = 1 << 16
"""Routers that are processed at a time."""


@dataclass(frozen=True, slots=True)
class PacketLatency:
    """Mean latency of packets between cores, in cycles of the mesh.

    load_max : utilisation of the busiest link or core port
    unloaded : mean without waiting
    mean : mean with waiting; None if load_max is above `HIGHEST`, or an input is hardly ever free
    """

    load_max: float
    unloaded: float
    mean: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the metrics; without `mean` they advise to simulate."""
        found: dict[str, Any] = {"load_max": self.load_max, "unloaded": self.unloaded}
        return found | ({"advice": SIMULATE} if self.mean is None else {"mean": self.mean})


class RouterTraffic(NamedTuple):
    """Traffic through the routers, each ndarray[int64].

    links, turns : in the forms of `chipsim.traffic.links` and `chipsim.traffic.turns`
    entered : shape (cores,), packets that leave each core for others
    ends : for trees, the same arrays with one packet per destination core
    """

    links: Int64Array
    turns: Int64Array
    entered: Int64Array
    ends: tuple[Int64Array, Int64Array, Int64Array] | None = None


def router_traffic(chip: Chip, traffic: Traffic) -> RouterTraffic | None:
    """Return the packets between cores that a chip sends.

    None for trees on chips whose cores share routers: the number of destination cores per tile is
    unknown.
    """
    if chip.delivery == "tree" and chip.routers != (chip.width, chip.height):
        return None
    if chip.delivery == "synapse":
        return RouterTraffic(traffic.unicast_links, traffic.unicast_turns, traffic.profile.outgoing)
    casts = traffic.core_links, traffic.core_turns, traffic.activity.sent
    if chip.delivery == "tree":
        spikes = traffic.activity.spikes
        return RouterTraffic(traffic.multicast_links, traffic.multicast_turns, spikes, casts)
    return RouterTraffic(*casts)


def mapped_latency(
    chip: Chip, traffic: Traffic, time: ChipTime, cycles: float
) -> PacketLatency | None:
    """Return the latency of a chip's packets if they spread evenly over ticks of `cycles` cycles.

    None if `router_traffic` returns None.
    """
    sent = router_traffic(chip, traffic)
    unit = traffic.weight_unit if chip.delivery == "synapse" else traffic.rate_unit
    return None if sent is None else latency(chip, sent, unit * time.tick / cycles)


def latency(chip: Chip, sent: RouterTraffic, per_cycle: float) -> PacketLatency:
    """Return the mean latency of packets that arrive at random, evenly in time.

    Parameters
    ----------
    chip : for trees, with one core per router
    sent : traffic per unit of time
    per_cycle : flits per cycle of a traffic of 1
    """
    ends = (sent.links, sent.turns, sent.entered) if sent.ends is None else sent.ends
    packets = int(ends[2].sum())
    entered, begun = (of_routers(chip, one) for one in (sent.entered, ends[2]))
    service: FloatArray = np.ones((5, *entered.shape))
    ways, service[:LOCAL] = link_times(chip)
    came, ended = (entering(links) for links in (sent.links, ends[0]))
    step = max(1, BAND // entered.shape[1])
    highest, waiting, full = float(entered.max()) * per_cycle, 0.0, False
    for first in range(0, len(entered), step):
        band = slice(first, first + step)
        reached = legs_of(ends[0][:, band], ends[1][:, band], ended[:, band], begun[band])
        legs = reached
        if sent.ends is not None:
            legs = legs_of(sent.links[:, band], sent.turns[:, band], came[:, band], entered[band])
            legs[:, LOCAL] = reached[:, LOCAL]
        into = np.concatenate([came[:, band], entered[None, band]])
        parts: FloatArray = legs * np.float64(per_cycle)
        load: FloatArray = parts.sum(axis=0) * service[:, band]
        highest = max(highest, float(load.max()))
        if highest <= HIGHEST + ROUNDING:
            waits, free = _waits(parts, load, service[:, band], into * per_cycle)
            full = full or free < FREE - ROUNDING
            waiting += float((reached * waits).sum())
    if not packets:
        return PacketLatency(0.0, 0.0, 0.0)
    if chip.cores > entered.size and highest <= HIGHEST + ROUNDING:
        each = sent.entered * np.float64(per_cycle)
        shared = _queues(of_routers(chip, each), of_routers(chip, each**2), np.ones(entered.shape))
        waiting += float((begun * shared).sum())
    unloaded = 1.0 + int((ends[0] * ways).sum()) / packets
    known = highest <= HIGHEST + ROUNDING and not full
    return PacketLatency(highest, unloaded, unloaded + waiting / packets if known else None)


def _waits(
    parts: FloatArray, load: FloatArray, service: FloatArray, came: FloatArray
) -> tuple[FloatArray, float]:
    """Return waiting by input and output, shape (5, 5, rows, columns), and the least free share.

    The free share of an input is its share of time without a head.

    parts : flits per cycle, of the same shape
    load, service : of outputs, (5, rows, columns)
    came : flits per cycle of inputs, (5, rows, columns)
    """
    output = _queues(load, ((parts * service) ** 2).sum(axis=0), service)
    free = 1 - came - (parts * output).sum(axis=1)
    behind = parts * (output * (1 + output)) / np.maximum(free, FREE)[:, None]
    return output + behind.sum(axis=1)[:, None] - behind, float(free.min())


def _queues(load: FloatArray, squares: FloatArray, service: FloatArray) -> FloatArray:
    """Return the mean waiting in queues of constant service, each argument of the same shape.

    load : utilisations
    squares : sums of the squares of the inputs' parts in them
    """
    same = np.divide(squares, load, out=np.zeros_like(load), where=load > 0)
    found: FloatArray = (load - same + load * (service - 1)) / (2 * (1 - load))
    return found
