"""Independent computation of the parts of the energy, from counts of single synapses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.evaluation.verify_ticks import Activity


class Packets(NamedTuple):
    """Weight between cores, total weight, and pairs of a spike and another core that it reaches."""

    cut: int
    weight: int
    casts: int


def link_costs(chip: Mapping[str, Any], kind: str) -> tuple[float, float]:
    """Return the cost of an east-west and of a north-south link."""
    cost = chip[f"{kind}_link"]
    return (cost[0], cost[1]) if isinstance(cost, list) else (cost, cost)


def energies(
    chip: Mapping[str, Any], did: Activity, neurons: NDArray[np.int64],
    links: Mapping[str, NDArray[np.int64]], packets: Packets, units: tuple[float, float],
) -> dict[str, float | str]:  # fmt: skip
    """Return the metrics of the parts of the energy; empty for chips without real units.

    neurons : total size of the neurons of every core
    links : by delivery, shape (4, rows, columns): right, left, down, up
    units : of weights, and of rates
    """
    table, network_unit = chip.get("energy"), chip.get("energy_unit", "relative")
    if table is None and network_unit == "relative":
        return {}
    each = table or {"unit": network_unit}
    way, (weight, rate) = chip.get("delivery", "synapse"), units
    found: dict[str, float | str] = {}
    lacks = []
    if each["unit"] == network_unit:
        reached = int((did.received + did.local).sum())
        leaving, sent, taken = {
            "synapse": (packets.cut, packets.weight, packets.weight),
            "core": (packets.casts, reached, reached),
            "tree": (int(did.spikes.sum()), int(did.spikes.sum()), reached),
        }[way]
        across, down = int(links[way][:2].sum()), int(links[way][2:].sum())
        east, north = link_costs(chip, "energy")
        spent = across * east + down * north + (across + down + leaving) * chip["energy_router"]
        spent += sent * each.get("packet_out", 0.0) + taken * each.get("packet_in", 0.0)
        found["network"] = spent * (weight if way == "synapse" else rate)
    else:
        lacks.append("network")
    if "event" in each:
        found["events"] = int(did.events.sum()) * rate * each["event"]
    else:
        lacks.append("events")
    if "neuron" in each:
        tick = (chip.get("time") or {"tick": 1.0})["tick"]
        found["neurons"] = int(neurons.sum()) * each["neuron"] / tick
    else:
        lacks.append("neurons")
    total = sum(value for value in found.values() if not isinstance(value, str))
    found |= {"sum": total, "lacks": ", ".join(lacks), "unit": each["unit"]}
    return {f"energy_parts.{name}": value for name, value in found.items()}
