"""The numbers of a report: key figures with explanations, and tables of all other values.

All figures are from report.json; the markup keeps exact values. With two mappings, each row has
both values and the change from the first to the second in percent.
"""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from chipsim.chip.limits import LIMITS
from mapper.report.cells import Cell, Fact, Head, Series, Table, percent, series_of, table
from mapper.report.view import View
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
from mapper.settings import PRESETS, SETTINGS

CAST, MANY, TICK, MACHINE, WAY = "core.", "multicast.", "tick_", "machine.", "noc_latency."
ENERGY = "energy_parts."
METRICS: dict[str, tuple[str, str]] = {
    "hops_mean": ("Hops, mean", "links crossed by traffic, averaged over all traffic"),
    "hops_max": ("Hops, max", "links between the two farthest communicating cores"),
    "hops_total": ("Hops", "traffic times hops, over all synapses"),
    "cut_fraction": ("Cut fraction", "share of the traffic that leaves its core"),
    "cut_weight": ("Cut", "traffic between different cores"),
    "link_load_max": ("Link load, max", "traffic on the busiest link, per unit of time"),
    "link_load_p99": ("Link load, p99", "one link in a hundred carries more"),
    "link_load_mean": ("Link load, mean", "over all links of the chip, including idle ones"),
    "router_load_max": ("Router load, max", "traffic through the busiest router"),
    "router_load_mean": ("Router load, mean", "over all routers"),
    "congestion_max": ("Router congestion, max", "the same, averaged over all shortest paths"),
    "congestion_mean": ("Router congestion, mean", "over all routers and all shortest paths"),
    "congestion_share": ("Router congestion, sample", "share of the core pairs in the sample"),
    "congestion_pairs": ("Router congestion, core pairs", "number of core pairs in the sample"),
    "energy": ("NoC energy", "of traffic between cores, one packet per synapse; cores excluded"),
    "latency_mean": ("Latency, mean", "of a packet between cores, on an idle mesh"),
    "latency_max": ("Latency, max", "between the two farthest communicating cores"),
    "cores_used": ("Cores used", "cores that hold a neuron"),
    "core_fill_mean": ("Core fill, mean", "neuron size over capacity, of the cores used"),
    "core_fill_max": ("Core fill, max", "of the fullest core"),
    ENERGY + "network": ("Network", "routers and links, for the packets of the chip's delivery"),
    ENERGY + "events": ("Synaptic events", "spikes times the synapses that they reach"),
    ENERGY + "neurons": ("Neuron updates", "of every neuron in every tick"),
    ENERGY + "sum": ("Sum", "of the known parts"),
    "copies": ("Copies of neurons", "of neurons that reach several cores"),
    "memory_fill_mean": ("Memory fill, mean", "bits for synapses over the memory of a core"),
    "memory_fill_max": ("Memory fill, max", "of the core with the fullest memory"),
    MACHINE + "cost_total": ("Cost", "traffic times cost of distance in the machine"),
    MACHINE + "cost_mean": ("Cost, mean", "averaged over all traffic"),
    MACHINE + "cost_max": ("Cost, max", "between the two farthest communicating cores"),
    MACHINE + "crossings_chips": ("Chip crossings", "traffic times chip boundaries crossed"),
    MACHINE + "crossings_boards": ("Board crossings", "traffic times board boundaries crossed"),
    MACHINE + "crossing_load_max": ("Busiest crossing", "largest load of such a link / bandwidth"),
    CAST + "cost_total": ("Core-cast cost", "packets to cores times cost"),
    CAST + "crossings_chips": ("Core-cast chip crossings", "of packets to cores"),
    CAST + "crossings_boards": ("Core-cast board crossings", "of packets to cores"),
    CAST + "crossing_load_max": ("Core-cast, busiest crossing", "load / bandwidth"),
    MANY + "cost_total": ("Tree cost", "links of the trees times cost"),
    MANY + "crossings_chips": ("Tree chip crossings", "of multicast trees"),
    MANY + "crossings_boards": ("Tree board crossings", "of multicast trees"),
    MANY + "crossing_load_max": ("Trees, busiest crossing", "load / bandwidth"),
    MACHINE + "cut_tiles": ("Between tiles", "traffic between different tiles"),
    MACHINE + "cut_chips": ("Between chips", "traffic between different chips"),
    MACHINE + "cut_boards": ("Between boards", "traffic between different boards"),
    TICK + "cycles": ("Cycles per tick", "of the slowest core or link, at mean activity"),
    TICK + "bounds.neurons": ("Neurons", "cycles of neuron updates on the slowest core"),
    TICK + "bounds.packets_out": ("Packets out", "cycles of sending on the slowest core"),
    TICK + "bounds.events": (
        "Synaptic events",
        "cycles of receiving packets and adding events on the slowest core",
    ),
    TICK + "bounds.links": ("Links", "cycles of flits on the busiest link"),
    WAY + "mean": ("NoC latency, mean", "cycles per packet with queueing, for even traffic"),
    WAY + "unloaded": ("NoC latency, unloaded", "cycles per packet without queueing"),
    WAY + "load_max": ("Link utilisation, max", "busy share of the busiest link or port"),
    CAST + "packets": ("Packets to cores", "other cores that a neuron reaches, times its rate"),
    CAST + "hops_total": ("Core-cast hops", "links crossed by these packets"),
    CAST + "link_load_max": ("Core-cast link load, max", "of the busiest link"),
    CAST + "link_load_p99": ("Core-cast link load, p99", "one link in a hundred carries more"),
    CAST + "link_load_mean": ("Core-cast link load, mean", "over all links of the chip"),
    CAST + "router_load_max": ("Core-cast router load, max", "of the busiest router"),
    CAST + "router_load_mean": ("Core-cast router load, mean", "over all routers"),
    MANY + "connectivity": ("Connectivity", "other cores that a neuron reaches, times its rate"),
    MANY + "hops_total": ("Tree hops", "links of the tree of a neuron, times its rate"),
    MANY + "unicast_hops_total": (
        "Hops as unicast",
        "the same rates with one packet per synapse, for comparison",
    ),
    MANY + "link_load_max": ("Tree link load, max", "of the busiest link"),
    MANY + "link_load_p99": ("Tree link load, p99", "one link in a hundred carries more"),
    MANY + "link_load_mean": ("Tree link load, mean", "over all links of the chip"),
    MANY + "router_load_max": ("Tree router load, max", "of the busiest router"),
    MANY + "router_load_mean": ("Tree router load, mean", "over all routers"),
}
"""Title and meaning of every metric, by its name in report.json."""

MEMORY = ("memory_fill_mean", "memory_fill_max")  # chips with a memory size only
SOME = ("copies", *MEMORY)  # some chips only
SAMPLED = ("congestion_share", "congestion_pairs")  # large chips only
FILLS = ("core_fill_mean", "core_fill_max")
SHARES = ("cut_fraction", "congestion_share", *FILLS, WAY + "load_max", *MEMORY)
CORES = ("cores_used", *FILLS)
TRAFFIC = "traffic"  # replaced by the unit of traffic, see `_words`
KEY: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "hops_mean": ("Mean hops", (("hops_max", "max"),)),
    "cut_fraction": ("Cut", (("cut_weight", TRAFFIC),)),
    "link_load_max": ("Busiest link", (("link_load_mean", "mean"),)),
    "router_load_max": ("Busiest router", (("router_load_mean", "mean"),)),
    "cores_used": ("Cores used", (("core_fill_mean", "mean fill"),)),
    "energy": ("NoC energy", ()),
    "latency_mean": ("Latency", (("latency_max", "max"),)),
    MACHINE + "cost_mean": (
        "Mean cost",
        (
            (MACHINE + "cost_max", "max"),
            (MACHINE + "crossings_chips", "chip crossings"),
            (MACHINE + "crossing_load_max", "busiest crossing"),
        ),
    ),
    TICK + "cycles": (
        "Cycles per tick",
        (
            (TICK + "bounds.neurons", "neurons"),
            (TICK + "bounds.packets_out", "packets out"),
            (TICK + "bounds.events", "events"),
            (TICK + "bounds.links", "links"),
        ),
    ),
    WAY + "mean": (
        "NoC latency",
        ((WAY + "unloaded", "without queueing"), (WAY + "load_max", "link utilisation")),
    ),
    CAST + "hops_total": (
        "Core-cast hops",
        ((CAST + "packets", "packets"), (CAST + "link_load_max", "busiest link")),
    ),
    MANY + "hops_total": (
        "Multicast hops",
        ((MANY + "unicast_hops_total", "as unicast"), (MANY + "link_load_max", "busiest link")),
    ),
}
"""Large figures: their title, and the smaller figures shown with them."""
MEANING = {
    "hops_mean": "Links that {a_packet} crosses, averaged over all traffic; traffic "
    "within a core counts as 0.",
    "cut_fraction": "The share of the traffic that leaves its core and loads the mesh.",
    "link_load_max": "{Traffic} per unit of time on the busiest link with XY routing. It limits "
    "the speed of the mesh.",
    "router_load_max": "{Traffic} per unit of time through the busiest router with XY routing.",
    "cores_used": "Cores that hold at least one neuron, and their mean fill.",
    "energy": "Energy of the network-on-chip, routers and links, per unit of time, for {traffic} "
    "between cores with one packet per synapse. Cores are not included. "
    "{energy_unit}.",
    "latency_mean": "Time of a packet from core to core on an idle mesh, in the unit of the "
    "chip's constants: ns for chips with Loihi cores.",
    MACHINE + "cost_mean": "Cost of the distance between two cores by the coordinates of the "
    "machine, averaged over all traffic. Placement and refinement minimise it.",
    TICK + "cycles": "Duration of a time step until its last packet has arrived, at mean rates: "
    "the largest of these bounds, each for the slowest core or link.",
    WAY + "mean": "Mean cycles of a packet from core to core if the packets of a tick are spread "
    "evenly over it: one cycle, its hops, and queueing. Not estimated if the busiest link is "
    "more than 60 % busy; run mapper simulate.",
    CAST + "hops_total": "Links crossed when a neuron sends a packet to each core that it reaches, "
    "times the rates of the neurons ({rate}).",
    MANY + "hops_total": "Links crossed when a neuron sends one packet that branches on its way to "
    "all cores that it reaches, times the rates of the neurons ({rate}). For comparison: the "
    "same rates with one packet per synapse.",
}


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
    part: Any = report["metrics"]
    for step in name.split("."):
        part = part.get(step) if isinstance(part, dict) else None
    return part if isinstance(part, int | float) and not isinstance(part, bool) else None


def shown(view: View, name: str) -> Cell:
    """Return a metric as a cell."""
    value = metric(view.report, name)
    if value is None and name == WAY + "mean" and _ways([view]):
        return Cell(view.report["metrics"]["noc_latency"].get("advice"))
    return Cell(value, percent(value) if name in SHARES and value is not None else None)


class Figure(NamedTuple):
    series: Series | None
    cell: Cell
    aside: list[Fact]


class Card(NamedTuple):
    name: str
    title: str
    figures: list[Figure]
    change: Cell | None
    meaning: str


def key_figures(views: list[View]) -> list[Card]:
    """Return the cards of the key figures."""
    words = _words(traffic_in(views[0].report))
    names = series_of([view.label for view in views])
    cards = []
    first = {"core": CAST, "tree": MANY}.get(views[0].chip.delivery, "") + "hops_"
    for name, (title, more) in sorted(KEY.items(), key=lambda one: not one[0].startswith(first)):
        if all(shown(view, name).value is None for view in views):
            continue  # machines only, chips with timing only, or newer than the report
        figures = [
            Figure(series, shown(view, name), _beside(view, name, more))
            for series, view in zip(names, views, strict=True)
        ]
        change = _change(name, views) if len(views) == 2 else None
        cards.append(Card(name, title, figures, change, MEANING[name].format_map(words)))
    return cards


def _stated(name: str, views: list[View]) -> bool:
    """Return whether any of the reports has a metric."""
    return any(metric(view.report, name) is not None for view in views)


def _timed(views: list[View]) -> bool:
    """Return whether any of the chips has timing."""
    return _stated(TICK + "cycles", views)


def _ways(views: list[View]) -> bool:
    """Return whether any of the reports has the latency of the mesh."""
    return any(metric(view.report, WAY + "unloaded") is not None for view in views)


def of_machines(name: str) -> bool:
    """Return whether a metric is only in reports of machines."""
    last = name.rpartition(".")[2]
    return name.startswith(MACHINE) or last.startswith(("cost_", "crossing"))


def _machines(views: list[View]) -> bool:
    """Return whether any of the chips is a machine."""
    return _stated(MACHINE + "cost_mean", views)


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


def _change(name: str, views: list[View]) -> Cell:
    before, after = (metric(view.report, name) for view in views)
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
    if _machines(views):
        known = [name for name in machine if _stated(name, views)]
        parts.append(("machine costs and boundary crossings", known))
    spent = [name for name in METRICS if name.startswith(ENERGY) and _stated(name, views)]
    if spent:
        parts.append((_energy_title(views), spent))
    if _timed(views):
        parts.append(("cycles per tick, at mean activity", time))
    if _ways(views):
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
        if len(views) == 2:
            row.append(_change(name, views))
        rows.append(row)
    heads = ["Metric", *(v.label if len(views) > 1 else "Value" for v in views)]
    heads += ["Change"] * (len(views) == 2)
    return table(title, heads, rows)


def limits(views: list[View]) -> Table:
    """Return the use of each core limit."""
    meanings = {
        "neurons": "sum of their sizes",
        "synapses": "incoming, stored in the core",
        "axons_in": "distinct sources of its synapses",
        "axons_out": "distinct pairs of a neuron and another core",
        "memory_bits": "bits of the synapses and of the lists of their sources",
    }
    rows = []
    for name in meanings:
        for series, view in zip(series_of([v.label for v in views]), views, strict=True):
            if name not in view.peaks:
                continue
            most, mean = view.peaks[name]
            allowed = getattr(view.chip, name)
            near = Cell("no limit")
            if allowed is not None:
                near = Cell(percent(most / allowed), bar=most / allowed)
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
    names = series_of([view.label for view in views])
    return [
        Command(series, command_line(view.report))
        for series, view in zip(names, views, strict=True)
    ]


def settings(views: list[View]) -> Table:
    """Return all settings; different ones are marked."""
    known = [_known(view) for view in views]
    rows = []
    for name in {name: None for found in known for name in found}:
        values = [found.get(name) for found in known]
        rows.append([Head(name, marked=len(set(map(str, values))) > 1), *values])
    heads = ("Setting", *(view.label if len(views) > 1 else "Value" for view in views))
    return table("All settings", heads, rows, hidden=True)


def _known(view: View) -> dict[str, Any]:
    """Return chip and settings as a flat dictionary."""
    report = view.report
    chip = {f"chip {name}": value for name, value in report["chip"].items()}
    faulty = chip.get("chip unavailable") or []
    chip["chip unavailable"] = f"{len(faulty):,} cores" if faulty else "none"
    return report["settings"] | chip
