"""Energy of a mapping by part: network, synaptic events, updates of neurons.

Energies are per unit of time of the rates. A part of unknown energy is left out, and the sum names
it. Energies in different units are never added: if there are core energies, these are used.
"""

from __future__ import annotations

from typing import Any

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.model import Chip
from chipsim.protocols import Int64Array
from chipsim.traffic.arrays import Traffic
from chipsim.traffic.costs import links_cost

PARTS = ("network", "events", "neurons")


def energy_parts(chip: Chip, traffic: Traffic) -> dict[str, Any]:
    """Return the metrics ``energy_parts``; empty for chips without energies in real units.

    network : energy of the packets in routers and on links, and of packets at the cores
    events, neurons : energy of synaptic events, and of updates of neurons, one per tick
    sum, lacks : sum of the known parts, and the names of the others
    unit : unit of all of them
    """
    known = chip.energy
    if known is None and chip.energy_unit == "relative":
        return {}
    cores = known or ChipEnergy(event=0.0, unit=chip.energy_unit)
    found: dict[str, float] = {}
    if cores.unit == chip.energy_unit:
        found["network"] = _network(chip, traffic, cores)
    if known is not None and known.event is not None:
        found["events"] = int(traffic.activity.events.sum()) * traffic.rate_unit * known.event
    if known is not None and known.neuron is not None:
        tick = 1.0 if chip.time is None else chip.time.tick
        found["neurons"] = int(traffic.usage.neurons.sum()) / tick * known.neuron
    lacks = [part for part in PARTS if part not in found]
    return {
        "energy_parts": {
            **found,
            "sum": sum(found.values()),
            "lacks": ", ".join(lacks),
            "unit": cores.unit,
        }
    }


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
