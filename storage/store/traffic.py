"""Source of a network's traffic: the meaning of its weights and rates.

A network file stores the traffic of each synapse, and optionally its signed weight in a second
column. Traffic is the synapse's weight in the source of the network (`weights`), the firing rate of
its source neuron (`rates`), or a rate of 1 for each neuron if firing rates are unknown (`uniform`).
The provenance of the network records it as `traffic`, unless it is `weights` and there are no
rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storage.quantise import Rounding
from storage.store.meta import NetworkMeta, SynapticMeta
from storage.store.network import RATE

TRAFFIC: Final = "traffic"  # key of the provenance
WEIGHTS, RATES, UNIFORM = "weights", "rates", "uniform"
SOURCES = (WEIGHTS, RATES, UNIFORM)
LARGEST_WEIGHT: Final = "largest weight"
WEIGHTS_ROUNDED: Final = "weights_rounded"
"""Key of the provenance: number of synapses whose traffic is not a whole number of its unit."""
WEIGHTS_ERROR: Final = "weights_error"
"""Largest relative error of the traffic of a synapse, for the same reason."""
RATES_ROUNDED: Final = "rates_rounded"
RATES_ERROR: Final = "rates_error"
"""The same counts for the rates of neurons."""
ROUNDED: Final = (WEIGHTS_ROUNDED, WEIGHTS_ERROR, RATES_ROUNDED, RATES_ERROR)

RATE_WEIGHTS, SYNAPSE_WEIGHTS, BOTH_WEIGHTS = "rate", "synapse", "both"
"""Meaning of the single number that a file has per synapse: its traffic, its weight, or both."""


def from_rates(file: str | None = None) -> dict[str, Any]:
    """Return the provenance of a network whose synapses carry the rates of their sources.

    file : name of the rates file, None if there is none
    """
    return {TRAFFIC: {"source": RATES} | ({} if file is None else {"file": file})}


def uniform() -> dict[str, Any]:
    """Return the provenance of a network in which each neuron has the rate 1."""
    return {TRAFFIC: {"source": UNIFORM}}


def from_weights() -> dict[str, Any]:
    """Return the provenance of a network whose weights are used as traffic."""
    return {TRAFFIC: {"source": WEIGHTS}}


def rounded_facts(weights: Rounding, rates: Rounding) -> dict[str, Any]:
    """Return the provenance of traffic and of rates that were rounded.

    weights : errors of the traffic of synapses, each at both of its ends
    rates : errors of the rates of neurons
    """
    found: dict[str, Any] = {}
    if weights.rounded:
        found |= {WEIGHTS_ROUNDED: weights.rounded // 2, WEIGHTS_ERROR: weights.error}
    if rates.rounded:
        found |= {RATES_ROUNDED: rates.rounded, RATES_ERROR: rates.error}
    return found


def sum_error(meta: NetworkMeta) -> float:
    """Return the largest error of a sum of traffic over synapses, such as the cut, in real units.

    Rounding to the nearest unit costs at most half a unit; raising to one unit less than one.
    """
    rounded = int(meta.provenance.get(WEIGHTS_ROUNDED, 0))
    return (rounded + meta.weights_clamped) / 2 * meta.weight_unit


def traffic_of(meta: NetworkMeta) -> dict[str, str]:
    """Return the source of a network's traffic, for `network.traffic` of report.json.

    source : one of `SOURCES`
    file : for `rates`, the name of the rates file, if any
    multicast : rate of a neuron in multicast metrics: "rates", or "largest weight" of its synapses

    For files of versions without this record it is inferred from their content.
    """
    rated = RATE in meta.attributes
    noted = meta.provenance.get(TRAFFIC)
    found: dict[str, str] = {}
    if isinstance(noted, dict) and noted.get("source") in SOURCES:
        found = {name: str(noted[name]) for name in ("source", "file") if name in noted}
    elif rated and meta.weights_are_rates:
        found = {"source": RATES}
        if isinstance(meta.provenance.get("rates"), str):
            found["file"] = meta.provenance["rates"]
    else:
        found = {"source": WEIGHTS}
    return {**found, "multicast": "rates" if rated else LARGEST_WEIGHT}


def describe(traffic: Mapping[str, Any] | None) -> str:
    """Describe the source for tables and pages; `traffic` of `traffic_of`, None if unknown."""
    source = None if traffic is None else traffic.get("source")
    if source == UNIFORM:
        return "every neuron at rate 1"
    if source == RATES:
        file = traffic.get("file") if traffic else None
        return f"firing rates from {file}" if file else "firing rates"
    if source == WEIGHTS:
        return "synapse weights"
    return "not recorded"


def describe_weights(about: SynapticMeta | None) -> str:
    """Describe the synaptic weights of a network; about : None for a network without them."""
    if about is None:
        return "none, only traffic"
    signs = f"{about.negative:,} negative, {about.zeros:,} zero"
    return f"{about.least:g} to {about.largest:g}, {signs}, {about.self_loops:,} self-loops"
