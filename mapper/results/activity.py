"""The traffic of a report: its source, and whether unicast and multicast metrics are comparable.

Unicast metrics sum the weights of the synapses, multicast metrics the rates of the neurons. If
synapses carry the rate of their source, both describe the same activity. If weights serve as
traffic, the rate of a neuron is the largest of its weights; the two differ and are shown apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage.store.traffic import LARGEST_WEIGHT, RATES, UNIFORM, WEIGHTS, describe

Metrics = Mapping[str, Any]
Traffic = Mapping[str, Any] | None
"""`network.traffic` of report.json; None in reports of versions that did not record it."""


def traffic_in(report: Mapping[str, Any]) -> Traffic:
    """Return the traffic recorded in a report."""
    found = report["network"].get("traffic")
    return found if isinstance(found, dict) else None


def are_spikes(traffic: Traffic) -> bool:
    """Return whether the traffic counts spikes, rather than weights of synapses."""
    return traffic is not None and traffic.get("source") in (RATES, UNIFORM)


def energy_line(traffic: Traffic, unit: str) -> str:
    """Return the heading of the energy table; the unit pJ applies only if traffic counts spikes."""
    if not are_spikes(traffic):
        return "energy x weight, parts"
    return "energy per unit of time" + ("" if unit == "relative" else f", {unit}")


def same_activity(metrics: Metrics, traffic: Traffic) -> bool:
    """Return whether unicast and multicast metrics describe the same activity."""
    if are_spikes(traffic):
        return True
    packets = metrics["multicast"].get("unicast_hops_total")
    return bool(packets is not None and packets == metrics["hops_total"])


def traffic_line(traffic: Traffic) -> str:
    """Return a description of the traffic."""
    return f"traffic: {describe(traffic)}"


PACKETS = {
    "synapse": "one packet per synapse",
    "core": "one packet per neuron and core",
    "tree": "one packet per neuron, which branches",
}
"""The packets that a chip sends per spike, by its delivery."""


def unicast_line(traffic: Traffic, between: str = ", ") -> str:
    """Return a description of the unicast metrics."""
    return f"unicast: {PACKETS['synapse']}{between}{traffic_line(traffic)}"


def rate_line(traffic: Traffic) -> str:
    """Return a description of the rate of a neuron in multicast metrics."""
    rate = {WEIGHTS: "firing rates", UNIFORM: "1", RATES: "firing rates"}.get(
        str((traffic or {}).get("source")), "not recorded"
    )
    if traffic is not None and traffic.get("multicast") == LARGEST_WEIGHT:
        rate = "largest weight of the neuron"
    return f"rate: {rate}"


def multicast_line(traffic: Traffic, between: str = ", ") -> str:
    """Return a description of the multicast metrics."""
    return f"multicast: {PACKETS['tree']}{between}{rate_line(traffic)}"


def core_cast_line(traffic: Traffic, between: str = ", ") -> str:
    """Return a description of the core-cast metrics."""
    return f"core-cast: {PACKETS['core']}{between}{rate_line(traffic)}"


__all__ = [
    "PACKETS",
    "are_spikes",
    "core_cast_line",
    "multicast_line",
    "rate_line",
    "same_activity",
    "traffic_in",
    "traffic_line",
    "unicast_line",
]
