"""Energy of a mapping by part: network, synaptic events, updates of neurons.

Energies are per unit of time of the rates. A part of unknown energy is left out, and the sum names
it. Energies in different units are never added: if there are core energies, these are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.model import Chip
from chipsim.protocols import Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.costs import links_cost

PARTS = ("network", "events", "neurons")


class CountedWork(NamedTuple):
    """Work of all cores and of the mesh, counted in a simulation.

    events, updates : synaptic events, and updates of neurons
    sent, taken : packets that cores sent and received, including packets of the host; None if
        packets were not simulated
    heard : packets that the host received
    links : flits by link, ndarray[int64], shape (4, height, width), in the form of
        `chipsim.traffic.links`
    """

    events: int
    updates: int
    sent: int | None = None
    taken: int = 0
    heard: int = 0
    links: Int64Array | None = None


def energy_parts(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return the metrics ``energy_parts``; empty for chips without energies in real units.

    network : energy of the packets in routers and on links, and of packets at the cores
    events, neurons : energy of synaptic events, and of updates of neurons, one per tick
    sum, lacks : sum of the known parts, and the names of the others
    unit : unit of all of them
    """
    tick = 1.0 if chip.time is None else chip.time.tick
    found = _parts(
        chip,
        lambda cores: _network(chip, traffic, cores),
        int(traffic.activity.events.sum()) * traffic.rate_unit,
        int(traffic.usage.neurons.sum()) / tick,
    )
    return {"energy_parts": found} if found else {}


def energy_of_run(chip: Chip, work: CountedWork) -> dict[str, Any]:
    """Return the energy of a simulation by part, as `energy_parts`; empty without energies."""

    def network(cores: ChipEnergy) -> float | None:
        if work.sent is None or work.links is None:
            return None
        at_cores = work.sent * (cores.packet_out or 0.0) + work.taken * (cores.packet_in or 0.0)
        torus = chip.machine is not None and chip.machine.torus
        leaving = work.sent if torus else work.sent - work.heard  # by a link, not at a router
        return _on_the_way(chip, work.links, leaving) + at_cores

    return _parts(chip, network, work.events, work.updates)


def _parts(
    chip: Chip, network: Callable[[ChipEnergy], float | None], events: float, updates: float
) -> dict[str, Any]:
    """Return the energies of the parts that are known in one unit, and their sum."""
    known = chip.energy
    if known is None and chip.energy_unit == "relative":
        return {}
    cores = known or ChipEnergy(event=0.0, unit=chip.energy_unit)
    found: dict[str, float] = {}
    if cores.unit == chip.energy_unit and (way := network(cores)) is not None:
        found["network"] = way
    if known is not None and known.event is not None:
        found["events"] = events * known.event
    if known is not None and known.neuron is not None:
        found["neurons"] = updates * known.neuron
    lacks = ", ".join(part for part in PARTS if part not in found)
    return {**found, "sum": sum(found.values()), "lacks": lacks, "unit": cores.unit}


def _network(chip: Chip, traffic: Traffic, cores: ChipEnergy) -> float:
    """Return the energy of the packets that the chip sends, from core to core."""
    activity, unit = traffic.activity, traffic.rate_unit
    taken = int(activity.received.sum() + activity.local.sum())
    if chip.delivery == "synapse":
        unit = traffic.weight_unit
        links, leaving = traffic.unicast_links, traffic.totals.cut
        sent = taken = traffic.totals.weight
    elif chip.delivery == "core":
        links, leaving = traffic.core_links, traffic.connectivity
        sent = taken
    else:
        links, leaving = traffic.multicast_links, int(activity.spikes.sum())
        sent = leaving
    at_cores = sent * (cores.packet_out or 0.0) + taken * (cores.packet_in or 0.0)
    return (_on_the_way(chip, links, leaving) + at_cores) * unit


def _on_the_way(chip: Chip, links: Int64Array, leaving: int) -> float:
    """Return the energy of routers and links; a packet passes one more router than links."""
    routers = (int(links.sum()) + leaving) * chip.energy_router
    return routers + links_cost(links, chip.link_energies)
