"""The run stage by stage: what each took, and what the mapping cost when it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mapper.report.markup import (
    NOTHING,
    Html,
    figure,
    join,
    meter,
    number,
    safe,
    swatch,
    table,
    text,
)
from mapper.report.view import View
from mapper.results.tables import size

COSTS = {
    "cut_weight": "Cut",
    "hops_total": "Hops",
    "multicast.connectivity": "Connectivity",
    "multicast.hops_total": "Tree-hops",
}
"""Costs of a stage or level, by name in report.json."""
BY_HOPS = ("refine by hops",)
BY_CUT = ("refine by cut", "uncoarsen and refine")
"""Stages that climb the levels, from the coarsest to the finest."""
BLOCKS = "refine blocks"


def run(views: list[View]) -> Html:
    """Resources, then stages and levels of each mapping."""
    parts = [] if len(views) == 1 else [resources(views)]
    for index, view in enumerate(views):
        who = Html(f"{swatch(index, view.label)}{text(view.label)}: " if len(views) > 1 else "")
        whole = "" if len(views) > 1 else f"<h3>Whole run</h3>{resources(views)}"
        parts.append(
            Html(
                f'<div class="pair"><div><h3>{who}Time and memory of each stage</h3>{times(view)}'
                f"</div><div><h3>{who}Cost after each stage</h3>{costs(view)}</div></div>"
                f'<div class="pair"><div><h3>{who}Levels</h3>{levels(view)}</div>'
                f"<div>{whole}</div></div>"
            )
        )
    return join(parts)


def times(view: View) -> Html:
    """Time and memory of every stage."""
    entries = view.report["stages"]
    longest = max((entry["seconds"] for entry in entries), default=0) or 1
    most = max((entry["peak_anon_bytes"] for entry in entries), default=0) or 1
    rows = []
    for entry in entries:
        seconds, peak = entry["seconds"], entry["peak_anon_bytes"]
        took = Html(f"{meter(seconds / longest)} {figure(seconds, f'{seconds:.2f} s')}")
        held = Html(f"{meter(peak / most)} {figure(peak, size(peak))}")
        rows.append([entry["name"], safe(took), safe(held)])
    return table("Time and memory of each stage", ("Stage", "Time", "Peak memory"), rows,
                 hidden=True)  # fmt: skip


def costs(view: View) -> Html:
    """What the mapping cost after each stage, and on the levels that a stage climbs."""
    rows = steps(view.report)
    if not rows:
        return Html("<p class=note>The report was made by a version that did not measure it.</p>")
    told = [name for name in COSTS if any(cost(entry, name) is not None for _, entry in rows)]
    tops = {name: max(cost(entry, name) or 0 for _, entry in rows) or 1 for name in told}
    barred = told[-2:]  # with the objective multicast, what it is about
    lines = []
    for name, entry in rows:
        cells = [_cost(entry, kind, tops[kind], kind in barred) for kind in told]
        lines.append([name, *(safe(cell) for cell in cells)])
    heads = ("After", *(COSTS[name] for name in told))
    found = table("Cost after each stage", heads, lines, hidden=True)
    said = "Bars begin at 0."
    if any(name == BLOCKS for name, _ in rows):
        said += " Until blocks are split into cores, the cut is that between blocks."
    if any(entry.get("estimated") for _, entry in rows):
        said += " \u2248 is an estimate from a part of the connections, or from rounded weights."
    return Html(f"{found}<p class=note>{said}</p>")


def steps(report: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Names and costs of whatever a whole partition or mapping was left by, in order of time."""
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
    return [cost(entry, name) is not None for name in COSTS]


def cost(entry: dict[str, Any], name: str) -> float | None:
    """A cost of a stage or level by its name in `COSTS`, or None if it was not measured."""
    found: Any = entry
    for step in name.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _cost(entry: dict[str, Any], name: str, top: float, barred: bool) -> Html:
    value = cost(entry, name)
    if value is None:
        return NOTHING
    rough = bool(entry.get("estimated")) and "." not in name
    shown = f"\u2248 {number(float(f'{value:.4g}'))}" if rough else None
    bar = f"{meter(value / top)} " if barred else ""
    return Html(f"{bar}{figure(value, shown)}")


def levels(view: View) -> Html:
    """The graphs that the network was coarsened to."""
    entries = view.report["levels"]
    names = ("vertices", "connections", "cut_weight")
    rows = [[str(i), *(level.get(name) for name in names)] for i, level in enumerate(entries)]
    if not rows:
        return Html("<p class=note>The run kept no levels.</p>")
    made = table("Levels", ("Level", "Vertices", "Connections", "Cut"), rows, hidden=True)
    return Html(f"<p class=note>Graphs that the run worked on; 0 is the network.</p>{made}")


def resources(views: list[View]) -> Html:
    """What the whole run took."""
    names: dict[str, tuple[str, Callable[[float], str]]] = {
        "seconds": ("Time", lambda value: f"{value:,.2f} s"),
        "peak_rss_bytes": ("Peak memory", size),
        "peak_anon_bytes": ("without pages of files", size),
        "bytes_read": ("Read", size),
        "bytes_written": ("Written", size),
        "passes": ("Passes over the network", number),
    }
    rows = []
    for name, (title, form) in names.items():
        found = [view.report["resources"].get(name) for view in views]
        cells = [figure(v, None if v is None else form(v)) for v in found]
        rows.append([title, *(safe(cell) for cell in cells)])
    heads = ("", *(view.label if len(views) > 1 else "Value" for view in views))
    return table("Resources", heads, rows, hidden=True)
