"""The stages of a run: time, memory, and cost of the mapping after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mapper.reporting.cells import Cell, Series, Table, lookup, number, table
from mapper.reporting.view import View, by_series, heads_of
from mapper.results.tables import size

COSTS = {
    "cut_weight": "Cut",
    "hops_total": "Hops",
    "core.connectivity": "Packets",
    "core.hops_total": "Core-cast hops",
    "multicast.connectivity": "Connectivity",
    "multicast.hops_total": "Tree hops",
}
"""Costs of a stage or level, by name in report.json."""
BY_HOPS = ("hop refinement",)
BY_CUT = ("cut refinement", "uncoarsen and refine")
"""Stages that refine the levels, from the coarsest to the finest."""
BLOCKS = "refine blocks"


class StageRun(NamedTuple):
    series: Series | None
    times: Table
    costs: Table
    costs_note: str
    levels: Table
    resources: Table


def runs(views: list[View]) -> list[StageRun]:
    """Return stages, levels and resources of each mapping."""
    return [
        StageRun(series, times(view), *costs(view), levels(view), resources([view]))
        for series, view in by_series(views)
    ]


def times(view: View) -> Table:
    """Return time and memory of every stage."""
    entries = view.report["stages"]
    longest = max((entry["seconds"] for entry in entries), default=0) or 1
    most = max((entry["peak_anon_bytes"] for entry in entries), default=0) or 1
    rows = []
    for entry in entries:
        seconds, peak = entry["seconds"], entry["peak_anon_bytes"]
        took = Cell(seconds, f"{seconds:.2f} s", seconds / longest)
        rows.append([entry["name"], took, Cell(peak, size(peak), peak / most)])
    return table("Time and memory of each stage", ("Stage", "Time", "Peak memory"), rows,
                 hidden=True)  # fmt: skip


def costs(view: View) -> tuple[Table, str]:
    """Return the cost after each stage and after refinement of each level, and a note."""
    rows = steps(view.report)
    told = [name for name in COSTS if any(lookup(entry, name) is not None for _, entry in rows)]
    tops = {name: max(lookup(entry, name) or 0 for _, entry in rows) or 1 for name in told}
    barred = told[-2:]  # with the objectives core and multicast, their own costs
    lines = [
        [name, *(_cost(entry, kind, tops[kind], kind in barred) for kind in told)]
        for name, entry in rows
    ]
    heads = ("After", *(COSTS[name] for name in told))
    said = "Bars begin at 0."
    if not rows:
        said = "The version that wrote the report did not measure it."
    if any(name == BLOCKS for name, _ in rows):
        said += " Until blocks are split into cores, the cut is between blocks."
    if any(entry.get("estimated") for _, entry in rows):
        said += " \u2248 is an estimate from sampled connections or rounded weights."
    return table("Cost after each stage", heads, lines, hidden=True), said


def steps(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return name and cost of stages and levels that ended with a whole mapping, in order."""
    stages = [(str(s["name"]), s) for s in report["stages"] if any(_told(s))]
    levels = [
        (f"level {depth}", level) for depth, level in enumerate(report["levels"]) if depth
        and any(_told(level))
    ]  # fmt: skip
    climbs = BY_HOPS if any("hops_total" in level for _, level in levels) else BY_CUT
    at = max((i for i, (name, _) in enumerate(stages) if name in climbs), default=None)
    if at is None:
        return stages
    return stages[:at] + levels[::-1] + stages[at:]


def _told(entry: dict[str, Any]) -> list[bool]:
    return [lookup(entry, name) is not None for name in COSTS]


def _cost(entry: dict[str, Any], name: str, top: float, barred: bool) -> Cell:
    value = lookup(entry, name)
    if value is None:
        return Cell(None)
    rough = bool(entry.get("estimated")) and "." not in name
    shown = f"\u2248 {number(float(f'{value:.4g}'))}" if rough else None
    return Cell(value, shown, value / top if barred else None)


def levels(view: View) -> Table:
    """Return the coarsening levels of the network."""
    entries = view.report["levels"]
    names = ("vertices", "connections", "cut_weight")
    rows = [[str(i), *(level.get(name) for name in names)] for i, level in enumerate(entries)]
    return table("Levels", ("Level", "Vertices", "Connections", "Cut"), rows, hidden=True)


def resources(views: list[View]) -> Table:
    """Return the resources of the whole run."""
    names: dict[str, tuple[str, Callable[[float], str]]] = {
        "seconds": ("Time", lambda value: f"{value:,.2f} s"),
        "peak_rss_bytes": ("Peak memory", size),
        "peak_anon_bytes": ("without file pages", size),
        "bytes_read": ("Read", size),
        "bytes_written": ("Written", size),
        "passes": ("Passes over the network", number),
    }
    rows = []
    for name, (title, form) in names.items():
        found = [view.report["resources"].get(name) for view in views]
        rows.append([title, *(Cell(v, None if v is None else form(v)) for v in found)])
    return table("Resources", heads_of("", views), rows, hidden=True)
