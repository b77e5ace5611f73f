"""What the traffic of a report is, and whether its unicast and multicast metrics can be compared.

Unicast metrics sum the weights of the synapses, multicast metrics the rates of the neurons. Where
synapses carry the rate of their source both describe the same activity. Where weights are taken as
traffic, the rate of a neuron is the largest of its weights, and they do not: then they stand apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage.store.traffic import LARGEST, RATES, UNIFORM, WEIGHTS, describe

Metrics = Mapping[str, Any]
Traffic = Mapping[str, Any] | None
"""`network.traffic` of report.json; None in reports of versions that did not note it."""


def traffic_in(report: Mapping[str, Any]) -> Traffic:
    """The traffic that a report notes."""
    found = report["network"].get("traffic")
    return found if isinstance(found, dict) else None


def are_spikes(traffic: Traffic) -> bool:
    """Whether the numbers of the traffic count spikes; weights of synapses do not."""
    return traffic is not None and traffic.get("source") in (RATES, UNIFORM)


def energy_line(traffic: Traffic, unit: str) -> str:
    """What the parts of the energy are in; of weights no number is called pJ."""
    if not are_spikes(traffic):
        return "energy x weight, parts"
    return "energy per unit of time" + ("" if unit == "relative" else f", {unit}")


def same_activity(metrics: Metrics, traffic: Traffic) -> bool:
    """Whether unicast and multicast metrics describe the same activity."""
    if are_spikes(traffic):
        return True
    packets = metrics["multicast"].get("unicast_hops_total")
    return bool(packets is not None and packets == metrics["hops_total"])


def traffic_line(traffic: Traffic) -> str:
    """What the traffic is."""
    return f"traffic: {describe(traffic)}"


PACKETS = {
    "synapse": "one packet per synapse",
    "core": "one packet per neuron and core",
    "tree": "one packet per neuron, which branches",
}
"""What a chip sends for a spike, by its delivery."""


def unicast_line(traffic: Traffic, between: str = ", ") -> str:
    """What the unicast metrics count."""
    return f"unicast: {PACKETS['synapse']}{between}{traffic_line(traffic)}"


def rate_line(traffic: Traffic) -> str:
    """What the rate of a neuron is in multicast metrics."""
    rate = {WEIGHTS: "firing rates", UNIFORM: "1", RATES: "firing rates"}.get(
        str((traffic or {}).get("source")), "not recorded"
    )
    if traffic is not None and traffic.get("multicast") == LARGEST:
        rate = "largest weight of the neuron"
    return f"rate: {rate}"


def multicast_line(traffic: Traffic, between: str = ", ") -> str:
    """What the multicast metrics count."""
    return f"multicast: {PACKETS['tree']}{between}{rate_line(traffic)}"


def core_cast_line(traffic: Traffic, between: str = ", ") -> str:
    """What the core-cast metrics count."""
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
