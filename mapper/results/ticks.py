"""Ticks that `mapper simulate` ran, for people: the part `ticks` of report.json in rows."""

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
    "packets_per_tick_max": "packets per tick, of the busiest core",
    "events_per_tick": "synaptic events per tick",
    "events_per_tick_max": "events per tick, of the busiest core",
    "link_flits_per_tick_max": "flits per tick, of the busiest link",
}


def tick_rows(found: dict[str, Any], expected: float | None) -> list[tuple[str, float]]:
    """What was found, in words and numbers; expected : `tick_cycles` of the metrics.

    Ticks of spikes alone, on chips whose cycles are not known, have no cycles.
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
