"""Results of simulators: cycles of ticks; latency, load, saturation and links of the mesh."""

from __future__ import annotations

from typing import Any, NamedTuple

from mapper.reporting.cells import Cell, Series, Table, lookup, percent, table
from mapper.reporting.view import View, by_series
from mapper.results.tables import tick_rows

NOTE = (
    "The mesh alone, flit by flit: routers, links, and packets between different cores, sent at "
    "random at constant mean rates. Cores and packets within a core are not simulated. Cycles "
    "are cycles of the mesh; a time step of the chip takes at least as many, plus core cycles."
)
TICKS_NOTE = (
    "Cores, mesh and barrier of the chip, cycle by cycle: a tick begins when the last spike of the "
    "previous tick has been added. Expected is the value of the metrics at mean rates."
)
PACKETS = {
    "synapse": "one packet per synapse",
    "core": "one packet per neuron and other core that it reaches",
}


class SimulationView(NamedTuple):
    series: Series | None
    said: str
    numbers: Table
    links: Table


def simulations(views: list[View]) -> list[SimulationView]:
    """Return the simulations of all simulated mappings."""
    parts = []
    for series, view in by_series(views):
        found = view.report.get("simulation")
        if isinstance(found, dict) and isinstance(found.get("latency"), dict):
            numbers = table("Latency and load", ("", "Value"), _numbers(found), hidden=True)
            parts.append(SimulationView(series, _said(found), numbers, _links(found.get("links"))))
    return parts


class TickView(NamedTuple):
    series: Series | None
    said: str
    numbers: Table


def simulated_ticks(views: list[View]) -> list[TickView]:
    """Return the tick simulations of all mappings that have one."""
    parts = []
    for series, view in by_series(views):
        found = view.report.get("ticks")
        if isinstance(found, dict) and lookup(found, "ticks"):
            rows = tick_rows(found, view.report["metrics"].get("tick_cycles"))
            said = f"Spikes: {found.get('model', {}).get('sources', 'not recorded')}."
            parts.append(TickView(series, said, table("Ticks", ("", "Value"), rows, hidden=True)))
    return parts


def _said(found: dict[str, Any]) -> str:
    """Describe the load of a simulation."""
    packets = PACKETS.get(str(found.get("packets_per")), "packets as requested")
    words = (
        f"{_plain(found, 'cycles')} cycles after a warm-up of {_plain(found, 'warmup')}, "
        f"{packets}, buffers of {_plain(found, 'depth')} flits."
    )
    if found.get("packets") == 0:
        words += " No packets were sent."
    if found.get("saturated") is True:
        words += (
            " This load is above saturation: queues and latency grew throughout the simulation."
        )
    if lookup(found, "undelivered"):
        words += f" Of {_plain(found, 'packets')} packets {_plain(found, 'undelivered')} had"
        words += " not arrived by the end; latency excludes them."
    return words


def _plain(found: dict[str, Any], name: str) -> str:
    value = lookup(found, name)
    return "some" if value is None else f"{value:,}"


def _numbers(found: dict[str, Any]) -> list[list[Any]]:
    delay = found["latency"]
    rows = [
        ["Latency in cycles, mean", delay.get("mean")],
        ["50th percentile", delay.get("p50")],
        ["99th percentile", delay.get("p99")],
        ["max", delay.get("max")],
        ["expected mean, without simulation", delay.get("expected")],
        ["Load scale", found.get("load_scale")],
        ["Mesh cycles per unit of time", found.get("tick_cycles")],
        ["Flits per unit of time", found.get("flits_per_tick")],
        ["Flits within a core (not simulated)", found.get("flits_per_tick_own_core")],
        ["Offered, flits per core per cycle", found.get("offered")],
        ["Delivered, flits per core per cycle", found.get("delivered")],
        ["Link load, mean, flits per cycle", found.get("link_load_mean")],
    ]
    knee = found.get("saturation")
    if isinstance(knee, dict):
        rows += [
            ["Saturation: largest sustained load scale", knee.get("load_scale")],
            ["Minimum mesh cycles per unit of time", knee.get("tick_cycles")],
        ]
    else:
        rows.append(["Saturation", "not measured"])
    return rows


def _links(links: Any) -> Table:
    """Return the busiest links; a link carries at most one flit per cycle."""
    rows = []
    for link in links if isinstance(links, list) else []:
        load, expected = link["flits_per_cycle"], link["expected"]
        name = f"{link['x']}, {link['y']} {link['direction']}"
        rows.append([name, Cell(load, percent(load), load), Cell(expected, percent(expected))])
    return table("Busiest links", ("Leaves x, y", "Busy", "Expected"), rows, hidden=True)
