"""The numbers of a report: key figures with explanations, and tables of all other values.

All figures are from report.json; the markup keeps exact values. With several mappings, each row has
all values and the change from the first to each other one in percent.
"""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

import numpy as np

from chipsim.chip.limits import LIMITS
from mapper.reporting.cells import Cell, Fact, Head, Series, Table, lookup, percent, table
from mapper.reporting.metrics import (
    CAST,
    CORES,
    ENERGY,
    KEY,
    MACHINE,
    MANY,
    MEANING,
    METRICS,
    SAMPLED,
    SHARES,
    SOME,
    TICK,
    TRAFFIC,
    WAY,
)
from mapper.reporting.view import USED, View, by_series, heads_of
from mapper.results.activity import (
    Traffic,
    are_spikes,
    core_cast_line,
    energy_line,
    multicast_line,
    rate_line,
    traffic_in,
    unicast_line,
)
from mapper.results.summary import fewer_hops
from mapper.settings import PRESETS, SETTINGS


def _words(traffic: Traffic) -> dict[str, str]:
    """Return the words for units of traffic that are filled into `MEANING`."""
    rate = rate_line(traffic)
    if are_spikes(traffic):
        energy = "In the unit of the chip's constants, pJ or relative"
        return {"traffic": "spikes", "Traffic": "Spikes", "a_packet": "a spike",
                "energy_unit": energy, "rate": rate}  # fmt: skip
    energy = "Relative: weights, not numbers of spikes, times the chip's constants"
    return {"traffic": "weight", "Traffic": "Weight", "a_packet": "a unit of weight",
            "energy_unit": energy, "rate": rate}  # fmt: skip


def metric(report: dict[str, Any], name: str) -> float | None:
    """Return a metric by its name in `METRICS`, or None if the report lacks it."""
    return lookup(report["metrics"], name)


def shown(view: View, name: str) -> Cell:
    """Return a metric as a cell."""
    value = metric(view.report, name)
    if value is None and name == WAY + "mean" and _stated(WAY + "unloaded", [view]):
        return Cell(view.report["metrics"]["noc_latency"].get("advice"))
    return Cell(value, percent(value) if name in SHARES and value is not None else None)


class Figure(NamedTuple):
    """A figure of a mapping; compared : with the hops of simple mappings, in words."""

    series: Series | None
    cell: Cell
    aside: list[Fact]
    compared: str = ""


class Card(NamedTuple):
    """A figure of all mappings; changes : of each from the first, None for a single mapping."""

    name: str
    title: str
    figures: list[Figure]
    changes: list[Cell]
    meaning: str


LEADING = {
    "synapse": ("hops_mean", "link_load_max", "cores_used", "cut_fraction"),
    "core": (CAST + "hops_total", TICK + "cycles", "cores_used", "cut_fraction", "link_load_max"),
    "tree": (MANY + "hops_total", TICK + "cycles", "cores_used", "cut_fraction", "link_load_max"),
}
"""Names of the first figures of a page, by the delivery of the chip."""


def key_figures(views: list[View]) -> list[Card]:
    """Return the cards of the key figures, the most important ones first."""
    words = _words(traffic_in(views[0].report))
    cards = []
    order = LEADING[views[0].chip.delivery]
    rank = {name: order.index(name) if name in order else len(order) for name in KEY}
    for name, (title, more) in sorted(KEY.items(), key=lambda one: rank[one[0]]):
        if all(shown(view, name).value is None for view in views):
            continue  # machines only, chips with timing only, or newer than the report
        figures = [
            Figure(
                series,
                shown(view, name),
                _beside(view, name, more),
                _compared(view, name) or _least_fill(view, name),
            )
            for series, view in by_series(views)
        ]
        changes = [_change(name, views[0], view) for view in views[1:]]
        cards.append(Card(name, title, figures, changes, MEANING[name].format_map(words)))
    return cards


def _compared(view: View, name: str) -> str:
    """Return the hops of simple mappings in words, for the card of the hops; else an empty text."""
    found = view.report.get("baselines")
    hops = None if found is None else metric(view.report, found["metric"])
    if found is None or not hops or found["metric"].replace("total", "mean") not in (
        name, name.replace("total", "mean")
    ):  # fmt: skip
        return ""
    than = [
        f"{fewer_hops(hops, found[base])} than {words}"
        for base, words in (("in_order", "in order"), ("random", "random"))
    ]
    if found["lower_bound"] > 0.01 * hops:
        than.append(f"{hops / found['lower_bound']:.1f} x the lower bound")
    return ", ".join(than).replace("%", " %")


def _least_fill(view: View, name: str) -> str:
    """Return the least fill of a core in use in words, for the card of the cores; else "".

    Only for runs with `min_fill` or `spread`.
    """
    settings = view.report.get("settings", {})
    asked, spread = settings.get("min_fill", 0), settings.get("spread", "no") == "yes"
    if name != "cores_used" or not (asked or spread):
        return ""
    fill = view.layers["fill"][view.state == USED]
    if not fill.size:
        return ""
    words = f"least fill {fill.min():.1%}"
    return (f"{words}, min_fill {asked:.1%}" if asked else words).replace("%", " %")


def comparison(views: list[View], cards: list[Card]) -> Table:
    """Return a table with a row per mapping and a column per figure, with changes in percent."""
    rows: list[list[Any]] = []
    for at, (series, view) in enumerate(by_series(views)):
        row: list[Any] = [Head(view.label, series=series)]
        for card in cards:
            row.append(card.figures[at].cell._replace(metric=card.name))
            row.append(card.changes[at - 1] if at else Cell(""))
        rows.append(row)
    heads = [head for card in cards for head in (card.title, "change")]
    return table("Comparison", ["Mapping", *heads], rows, hidden=True)


def _stated(name: str, views: list[View]) -> bool:
    """Return whether any of the reports has a metric."""
    return any(metric(view.report, name) is not None for view in views)


def of_machines(name: str) -> bool:
    """Return whether a metric is only in reports of machines."""
    last = name.rpartition(".")[2]
    return name.startswith(MACHINE) or last.startswith(("cost_", "crossing"))


def _beside(view: View, name: str, more: tuple[tuple[str, str], ...]) -> list[Fact]:
    facts = [Fact(Cell(view.chip.usable_count), "of")] if name == "cores_used" else []
    for other, word in more:
        if other.startswith(MACHINE) and metric(view.report, other) is None:
            continue  # a single chip
        cell = shown(view, other)._replace(metric=other)
        if word == TRAFFIC:
            facts.append(Fact(cell, after=_words(traffic_in(view.report))["traffic"]))
        elif word == "mean fill":
            facts.append(Fact(cell, after=word))
        else:
            facts.append(Fact(cell, word))
    return facts


def _change(name: str, first: View, other: View) -> Cell:
    before, after = (metric(view.report, name) for view in (first, other))
    if before is None or after is None:
        return Cell(None)
    if before == after:
        return Cell("equal")
    if not before:
        return Cell("from 0")
    return Cell(f"{100 * (after / before - 1):+.1f} %".replace("-", "\u2212"))


def all_metrics(views: list[View]) -> list[Table]:
    """Return tables of all metrics with their names in report.json, one per kind of delivery."""
    traffic = traffic_in(views[0].report)
    machine = [name for name in METRICS if of_machines(name)]
    others = [name for name in METRICS if name not in machine]
    many = [name for name in others if name.startswith(MANY)]
    cast = [name for name in others if name.startswith(CAST)]
    time = [name for name in METRICS if name.startswith(TICK)]
    way = [name for name in METRICS if name.startswith(WAY)]
    energies = [name for name in METRICS if name.startswith(ENERGY)]
    apart = {*cast, *many, *time, *way, *machine, *CORES, *SOME, *energies}
    apart |= {name for name in SAMPLED if not _stated(name, views)}
    parts = [
        (unicast_line(traffic), [name for name in METRICS if name not in apart]),
        (core_cast_line(traffic), cast),
        (multicast_line(traffic), many),
        ("cores", [*CORES, *(name for name in SOME if _stated(name, views))]),
    ]
    if _stated(MACHINE + "cost_mean", views):
        known = [name for name in machine if _stated(name, views)]
        parts.append(("machine costs and boundary crossings", known))
    spent = [name for name in energies if _stated(name, views)]
    if spent:
        parts.append((_energy_title(views), spent))
    if _stated(TICK + "cycles", views):
        parts.append(("cycles per tick, at mean activity", time))
    if _stated(WAY + "unloaded", views):
        parts.append(("estimated latency on the mesh", way))
    return [_metrics(views, _capital(title), names) for title, names in parts]


def _energy_title(views: list[View]) -> str:
    """Return the heading with the units, and the parts that the sums lack."""
    parts = [(view.report["metrics"].get("energy_parts") or {}, view.report) for view in views]
    found = [one for one, _ in parts]
    lines = dict.fromkeys(
        energy_line(traffic_in(report), str(one["unit"])) for one, report in parts if one
    )
    lacks = dict.fromkeys(str(one["lacks"]) for one in found if one.get("lacks"))
    without = f"; unknown, not in the sum: {' | '.join(lacks)}" if lacks else ""
    return f"{' | '.join(lines)}{without}"


def _capital(line: str) -> str:
    return line[:1].upper() + line[1:]


def _metrics(views: list[View], title: str, names: list[str]) -> Table:
    rows = []
    for name in names:
        title_of_it, meaning = METRICS[name]
        row: list[Any] = [Head(title_of_it, name, meaning)]
        row += [shown(view, name)._replace(metric=name) for view in views]
        row += [_change(name, views[0], view) for view in views[1:]]
        rows.append(row)
    changes = [f"Change, {view.label}" if len(views) > 2 else "Change" for view in views[1:]]
    return table(title, [*heads_of("Metric", views), *changes], rows)


def limits(views: list[View]) -> Table:
    """Return the use of each core limit."""
    meanings = {
        "neurons": "sum of their sizes",
        "synapses": "incoming, stored in the core; list words if the chip shares lists",
        "axons_in": "distinct sources of its synapses",
        "axons_out": "distinct pairs of a neuron and another core",
        "memory_bits": "bits of synapses, source lists and, if stored there, neurons",
    }
    rows = []
    for name in meanings:
        for series, view in by_series(views):
            if name not in view.peaks:
                continue
            most, mean = view.peaks[name]
            allowed: Any = view.limits[name]
            near = Cell("no limit")
            if name in view.fullest:
                near = Cell(percent(view.fullest[name]), bar=view.fullest[name])
            if isinstance(allowed, np.ndarray):
                allowed = f"{allowed.min():,.0f} to {allowed.max():,.0f}"
            head = Head(name, meaning=meanings[name], series=series)
            rows.append([head, most, mean, allowed, near])
    heads = ("", "Fullest core", "Mean", "Limit", "Fullest / limit")
    return table("Core limits", heads, rows, hidden=True)


def command_line(report: dict[str, Any]) -> str:
    """Return the command line of a mapping: as typed, or from the settings in older reports."""
    typed = report.get("command")
    if isinstance(typed, list) and all(isinstance(word, str) for word in typed):
        return shlex.join(typed)
    chip, settings = report["chip"], report["settings"]
    words = ["mapper", "run", report["network"]["path"], "--chip", chip["name"]]
    for name in LIMITS:
        if chip.get(name) is not None:
            option = name.removesuffix("_in").replace("_", "-")
            words += [f"--{option}-per-core", str(chip[name])]
    given = settings.get("preset", "default")
    base = PRESETS[given].to_json() if given in PRESETS else {}
    words += ["--preset", str(given)]
    for name, value in settings.items():
        if name in ("preset", "method") or (base and base.get(name) == value):
            continue
        option = {"memory_bytes": "memory"}.get(name, name)
        own = name in SETTINGS and SETTINGS[name].group == "run"
        words += [f"--{option}", str(value)] if own else ["--set", f"{name}={value}"]
    return shlex.join(words)


class Command(NamedTuple):
    series: Series | None
    line: str


def commands(views: list[View]) -> list[Command]:
    """Return the command line of each mapping."""
    return [Command(series, command_line(view.report)) for series, view in by_series(views)]


def settings(views: list[View]) -> Table:
    """Return all settings; different ones are marked."""
    known = [_known(view) for view in views]
    rows = []
    for name in {name: None for found in known for name in found}:
        values = [found.get(name) for found in known]
        rows.append([Head(name, marked=len(set(map(str, values))) > 1), *values])
    return table("All settings", heads_of("Setting", views), rows, hidden=True)


def _known(view: View) -> dict[str, Any]:
    """Return chip and settings as a flat dictionary."""
    report = view.report
    chip = {f"chip {name}": value for name, value in report["chip"].items()}
    for name, thing in (("unavailable", "core"), ("broken_links", "link"),
                        ("broken_routers", "router")):  # fmt: skip
        if f"chip {name}" in chip:
            count = len(chip[f"chip {name}"])
            chip[f"chip {name}"] = f"{count:,} {thing}{'s' * (count != 1)}" if count else "none"
    return report["settings"] | chip
