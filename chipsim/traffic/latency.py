"""How long packets are on their way on average, without a simulation: hops and waiting.

An output with flits from several inputs is a queue in discrete time with a constant service of s
cycles. With L the share of time that it is busy and p_i the part of input i in it, a flit waits

    W = (L - sum p_i^2 / L + L (s - 1)) / (2 (1 - L))

for those before it (Geo/D/1; Meisling 1958): flits of one input never come in the same cycle, which
the second term takes off. Behind a head that waits all others of its buffer wait, whatever output
they are for. Where heads for output o come with rate p_o and wait W_o, of those that come while
one waits the first loses W_o, and the mean over all is p_o W_o (1 + W_o); the input is busy for a
share 1 + W_o of the flits, so that a queue before it lengthens this by 1 / (1 - sum p_o (1 + W_o)).

Cores of a tile send through one port in turns: before it stands the same queue, with the cores as
its inputs.

Waiting along the routes is added up flow by flow, as sums over the outputs of all routers. Against
the simulator of flits, mean latencies are within 1 % on average where the busiest link has a flit
in 60 % of the cycles, and within 3 % at worst (`docs/simulator.md`). Beyond, queues depend on the
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
"""Busy share of the busiest link, or port of a core, up to which waiting is computed."""
FREE = 0.1
"""Share of time that every input must have no head, for the same."""
ROUNDING = 1e-9
"""What sums in another order may be beyond these limits and still be at them."""
SIMULATE = "simulate"
BAND = 1 << 16
"""Routers that are looked at together."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Of packets between cores, in cycles of the mesh.

    load_max : busy share of the busiest link, or port of a core
    unloaded : mean without waiting
    mean : with it; None where load_max is above `HIGHEST`, or an input is hardly ever free
    """

    load_max: float
    unloaded: float
    mean: float | None

    def to_json(self) -> dict[str, Any]:
        """As metrics: without `mean` they say what to do."""
        found: dict[str, Any] = {"load_max": self.load_max, "unloaded": self.unloaded}
        return found | ({"advice": SIMULATE} if self.mean is None else {"mean": self.mean})


class Sent(NamedTuple):
    """What goes through the routers, each ndarray[int64].

    links, turns : in the forms of `chipsim.traffic.links` and `chipsim.traffic.turns`
    entered : shape (cores,), packets that leave each core for others
    ends : the same of a packet to each core, where the others are those of trees
    """

    links: Int64Array
    turns: Int64Array
    entered: Int64Array
    ends: tuple[Int64Array, Int64Array, Int64Array] | None = None


def mapped_latency(chip: Chip, traffic: Traffic, time: ChipTime, cycles: float) -> Latency | None:
    """Latency of what a chip sends, if it comes evenly over ticks of so many cycles.

    None for trees where cores share routers: how many of its cores a tile takes a tree for is not
    known.
    """
    if chip.delivery == "tree" and chip.routers != (chip.width, chip.height):
        return None
    unit = traffic.rate_unit
    if chip.delivery == "synapse":
        unit = traffic.weight_unit
        sent = Sent(traffic.unicast_links, traffic.unicast_turns, traffic.profile.outgoing)
    else:
        casts = traffic.core_links, traffic.core_turns, traffic.activity.sent
        sent = Sent(*casts)
        if chip.delivery == "tree":
            spikes = traffic.activity.spikes
            sent = Sent(traffic.multicast_links, traffic.multicast_turns, spikes, casts)
    return latency(chip, sent, unit * time.tick / cycles)


def latency(chip: Chip, sent: Sent, per_cycle: float) -> Latency:
    """The mean latency of packets that come at random, evenly in time.

    Parameters
    ----------
    chip : trees only where its cores have a router each
    sent : per unit of time
    per_cycle : flits in a cycle that 1 is
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
        return Latency(0.0, 0.0, 0.0)
    if chip.cores > entered.size and highest <= HIGHEST + ROUNDING:
        each = sent.entered * np.float64(per_cycle)
        shared = _queues(of_routers(chip, each), of_routers(chip, each**2), np.ones(entered.shape))
        waiting += float((begun * shared).sum())
    unloaded = 1.0 + int((ends[0] * ways).sum()) / packets
    known = highest <= HIGHEST + ROUNDING and not full
    return Latency(highest, unloaded, unloaded + waiting / packets if known else None)


def _waits(
    parts: FloatArray, load: FloatArray, service: FloatArray, came: FloatArray
) -> tuple[FloatArray, float]:
    """Mean waiting of a flit by input and output, shape (5, 5, rows, columns), and the least share
    of time that an input has no head.

    parts : flits in a cycle, of the same shape; load, service : of outputs, (5, rows, columns)
    came : flits in a cycle of inputs, (5, rows, columns)
    """
    output = _queues(load, ((parts * service) ** 2).sum(axis=0), service)
    free = 1 - came - (parts * output).sum(axis=1)
    behind = parts * (output * (1 + output)) / np.maximum(free, FREE)[:, None]
    return output + behind.sum(axis=1)[:, None] - behind, float(free.min())


def _queues(load: FloatArray, squares: FloatArray, service: FloatArray) -> FloatArray:
    """Mean waiting of a flit in queues of constant service, each argument of the same shape.

    load : busy shares; squares : sums of the squares of what inputs have of these
    """
    same = np.divide(squares, load, out=np.zeros_like(load), where=load > 0)
    found: FloatArray = (load - same + load * (service - 1)) / (2 * (1 - load))
    return found
