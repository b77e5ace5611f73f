"""The key figures of a run: shown in the table of many runs, and used to choose the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from mapper.settings import HOPS
from storage.typed import Amount, Whole

WAYS = {"unicast": "synapse", "core": "core", "multicast": "tree"}


Number = Whole | Amount


class Figures(Struct):
    """The key figures of a run.

    cost : cost of the mapping by the objective of the run
    hops : total hops of the packets that the chip sends
    """

    cost: Number
    hops: Number
    cut_weight: Number
    cut_fraction: Number
    link_load_max: Number
    energy: Number
    cores_used: Number
    seconds: Number
    peak_anon_bytes: Whole
    tick_cycles: Number | UnsetType = UNSET


def figures_of(report: Mapping[str, Any]) -> Figures:
    """Return the figures of a report.json."""
    metrics, resources = report["metrics"], report["resources"]
    delivery = report["chip"]["delivery"]
    objective = report["settings"]["objective"]
    if objective == "hops":
        classic = report["settings"]["method"] == "classic"
        objective = "unicast" if classic else HOPS[delivery]
    sent = _cast(metrics, delivery)
    return Figures(
        _cost(metrics, objective),
        sent["hops_total"],
        metrics["cut_weight"],
        metrics["cut_fraction"],
        sent["link_load_max"],
        metrics["energy"],
        metrics["cores_used"],
        resources["seconds"],
        resources["peak_anon_bytes"],
        metrics.get("tick_cycles", UNSET),
    )


def _cast(metrics: Mapping[str, Any], delivery: str) -> Mapping[str, Any]:
    """Return the metrics of one kind of delivery."""
    way: Mapping[str, Any] = {
        "synapse": metrics, "core": metrics.get("core"), "tree": metrics["multicast"],
    }[delivery]  # fmt: skip
    return way


def _cost(metrics: Mapping[str, Any], objective: str) -> float:
    if objective == "cut":
        return float(metrics["cut_weight"])
    if objective == "time":
        return float(metrics["tick_cycles"])
    return float(_cast(metrics, WAYS[objective])["hops_total"])
