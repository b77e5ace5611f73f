"""Rows of a table for the ticks of `mapper simulate`: the part `ticks` of report.json."""

from __future__ import annotations

from typing import Any

CYCLES = {
    "mean": "cycles per tick, mean",
    "p50": "cycles per tick, 50th percentile",
    "p99": "cycles per tick, 99th percentile",
    "max": "cycles per tick, max",
}
OTHERS = {
    "ended_by_neurons": "ticks that end with the last neuron",
    "ended_by_spikes": "ticks that end with a spike",
    "packets_per_tick": "packets per tick",
    "packets_per_tick_max": "packets per tick, busiest core",
    "events_per_tick": "synaptic events per tick",
    "events_per_tick_max": "events per tick, busiest core",
    "link_flits_per_tick_max": "flits per tick, busiest link",
}


def tick_rows(found: dict[str, Any], expected: float | None) -> list[tuple[str, float]]:
    """Return the results as pairs of text and number; expected : `tick_cycles` of the metrics.

    Results without cycles (spikes only, on chips without timing) have no rows of cycles.
    """
    rows: list[tuple[str, float]] = [
        ("ticks", found["ticks"]),
        ("spikes per tick", found["spikes"] / found["ticks"]),
    ]
    if "given" in found:
        rows.append(("spikes given", found["given"]))
    cycles = found.get("cycles", {})
    rows += [(text, cycles[name]) for name, text in CYCLES.items() if name in cycles]
    if cycles and expected is not None:
        rows.append(("expected (tick_cycles)", expected))
    return rows + [(text, found[name]) for name, text in OTHERS.items() if name in found]
