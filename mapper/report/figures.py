"""The numbers of a report: key figures with what they mean, and tables of everything else.

Every figure is that of report.json; the markup keeps its exact value. With two mappings each
number stands beside the other's, and the change from the first to the second in per cent.
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
    "hops_mean": ("Hops, mean", "links that traffic crosses, averaged over all of it"),
    "hops_max": ("Hops, max", "links between the two farthest cores that talk"),
    "hops_total": ("Hops", "traffic times hops, over all synapses"),
    "cut_fraction": ("Cut fraction", "share of the traffic that leaves its core"),
    "cut_weight": ("Cut", "traffic between different cores"),
    "link_load_max": ("Link load, max", "traffic on the busiest link, per unit of time"),
    "link_load_p99": ("Link load, 99th percentile", "one link in a hundred carries more"),
    "link_load_mean": ("Link load, mean", "over all links of the chip, idle ones too"),
    "router_load_max": ("Router load, max", "traffic through the busiest router"),
    "router_load_mean": ("Router load, mean", "over all routers"),
    "congestion_max": ("Router congestion, max", "the same if any shortest path is taken"),
    "congestion_mean": ("Router congestion, mean", "over all routers, any shortest path taken"),
    "congestion_share": ("Router congestion, sample", "share of the core pairs it is measured of"),
    "congestion_pairs": ("Router congestion, core pairs", "that the sample holds"),
    "energy": ("NoC energy", "of traffic between cores, one packet per synapse; cores excluded"),
    "latency_mean": ("Latency, mean", "of a packet between cores, on an idle mesh"),
    "latency_max": ("Latency, max", "between the two farthest cores that talk"),
    "cores_used": ("Cores used", "cores that hold a neuron"),
    "core_fill_mean": ("Core fill, mean", "size of the neurons over capacity, of the cores used"),
    "core_fill_max": ("Core fill, max", "of the fullest core"),
    ENERGY + "network": ("Network", "routers and links, for what the chip sends"),
    ENERGY + "events": ("Synaptic events", "spikes times the synapses that they reach"),
    ENERGY + "neurons": ("Neuron updates", "of every neuron in every tick"),
    ENERGY + "sum": ("Sum", "of the parts that are known"),
    "copies": ("Copies of neurons", "of those that reach more cores than one"),
    "memory_fill_mean": ("Memory fill, mean", "bits for synapses over those of a core"),
    "memory_fill_max": ("Memory fill, max", "of the core with the fullest memory"),
    MACHINE + "cost_total": ("Cost", "traffic times what the distances of the machine cost"),
    MACHINE + "cost_mean": ("Cost, mean", "averaged over all traffic"),
    MACHINE + "cost_max": ("Cost, max", "between the two farthest cores that talk"),
    MACHINE + "crossings_chips": ("Over ends of chips", "traffic times ends of chips on its way"),
    MACHINE + "crossings_boards": ("Over ends of boards", "the same of boards"),
    MACHINE + "crossing_load_max": ("Busiest end", "largest load of such a link over bandwidth"),
    CAST + "cost_total": ("Core-cast cost", "packets to cores times cost"),
    CAST + "crossings_chips": ("Core-cast, over ends of chips", "of packets to cores"),
    CAST + "crossings_boards": ("Core-cast, over ends of boards", "of packets to cores"),
    CAST + "crossing_load_max": ("Core-cast, busiest end", "over bandwidth"),
    MANY + "cost_total": ("Tree cost", "links of the trees times cost"),
    MANY + "crossings_chips": ("Trees, over ends of chips", "of the trees"),
    MANY + "crossings_boards": ("Trees, over ends of boards", "of the trees"),
    MANY + "crossing_load_max": ("Trees, busiest end", "over bandwidth"),
    MACHINE + "cut_tiles": ("Between tiles", "traffic between different tiles"),
    MACHINE + "cut_chips": ("Between chips", "traffic between different chips"),
    MACHINE + "cut_boards": ("Between boards", "traffic between different boards"),
    TICK + "cycles": ("Cycles per tick", "of the slowest core or link, with the mean activity"),
    TICK + "bounds.neurons": ("Neurons", "cycles of the core that updates neurons for longest"),
    TICK + "bounds.packets_out": ("Packets out", "of the core that sends for longest"),
    TICK + "bounds.events": (
        "Synaptic events",
        "of the core that takes packets and adds events for longest",
    ),
    TICK + "bounds.links": ("Links", "of the link that passes flits for longest"),
    WAY + "mean": ("NoC latency, mean", "cycles of a packet, waiting included; on even traffic"),
    WAY + "unloaded": ("NoC latency, unloaded", "cycles of a packet without waiting"),
    WAY + "load_max": ("Busy link, max", "share of cycles of the busiest link or port"),
    CAST + "packets": ("Packets to cores", "other cores that a neuron reaches, times its rate"),
    CAST + "hops_total": ("Core-cast hops", "links of these packets"),
    CAST + "link_load_max": ("Core-cast load of a link, max", "of the busiest link"),
    CAST + "link_load_p99": (
        "Core-cast load, 99th percentile",
        "one link in a hundred carries more",
    ),
    CAST + "link_load_mean": ("Core-cast load, mean", "over all links of the chip"),
    CAST + "router_load_max": ("Core-cast load of a router, max", "of the busiest router"),
    CAST + "router_load_mean": ("Core-cast load of routers, mean", "over all routers"),
    MANY + "connectivity": ("Connectivity", "other cores that a neuron reaches, times its rate"),
    MANY + "hops_total": ("Tree-hops", "links of the tree of a neuron, times its rate"),
    MANY + "unicast_hops_total": (
        "Hops as unicast",
        "the same rates with one packet per synapse: what the trees save",
    ),
    MANY + "link_load_max": ("Tree load of a link, max", "of the busiest link"),
    MANY + "link_load_p99": ("Tree load, 99th percentile", "one link in a hundred carries more"),
    MANY + "link_load_mean": ("Tree load, mean", "over all links of the chip"),
    MANY + "router_load_max": ("Tree load of a router, max", "of the busiest router"),
    MANY + "router_load_mean": ("Tree load of routers, mean", "over all routers"),
}
"""Title and meaning of every metric, by its name in report.json."""

MEMORY = ("memory_fill_mean", "memory_fill_max")  # of chips that count its bits
SOME = ("copies", *MEMORY)  # of some chips
SAMPLED = ("congestion_share", "congestion_pairs")  # of large chips
FILLS = ("core_fill_mean", "core_fill_max")
SHARES = ("cut_fraction", "congestion_share", *FILLS, WAY + "load_max", *MEMORY)
CORES = ("cores_used", *FILLS)
TRAFFIC = "traffic"  # stands for the word for what traffic is counted in, see `_words`
KEY: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "hops_mean": ("Hops on average", (("hops_max", "at most"),)),
    "cut_fraction": ("Cut", (("cut_weight", TRAFFIC),)),
    "link_load_max": ("Busiest link", (("link_load_mean", "mean"),)),
    "router_load_max": ("Busiest router", (("router_load_mean", "mean"),)),
    "cores_used": ("Cores used", (("core_fill_mean", "full on average"),)),
    "energy": ("NoC energy", ()),
    "latency_mean": ("Latency", (("latency_max", "at most"),)),
    MACHINE + "cost_mean": (
        "Cost on average",
        (
            (MACHINE + "cost_max", "at most"),
            (MACHINE + "crossings_chips", "over ends of chips"),
            (MACHINE + "crossing_load_max", "busiest of them"),
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
        ((WAY + "unloaded", "without waiting"), (WAY + "load_max", "busiest link busy")),
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
"""Figures shown large: their title, and smaller ones beside them."""
MEANING = {
    "hops_mean": "How many links {a_packet} crosses on its way, averaged over all traffic; traffic "
    "within a core counts as 0.",
    "cut_fraction": "The share of the traffic that leaves its core and loads the mesh.",
    "link_load_max": "{Traffic} per unit of time on the most loaded link when all goes first along "
    "x, then along y. The mesh cannot be faster than this link.",
    "router_load_max": "{Traffic} per unit of time through the most visited router when all goes "
    "first along x, then along y.",
    "cores_used": "Cores that hold at least one neuron, and how full these are.",
    "energy": "Of the network-on-chip alone, routers and links, per unit of time: what {traffic} "
    "between cores takes if each synapse is a packet of its own. Cores are not counted. "
    "{energy_unit}.",
    "latency_mean": "Time of a packet from core to core on an idle mesh, in the unit of the "
    "chip's constants: ns on chips of Loihi's cores.",
    MACHINE + "cost_mean": "What the distance of two cores costs by the coordinates of the "
    "machine, averaged over all traffic. Placement and refinement minimise it.",
    TICK + "cycles": "What a time step takes until its last packet has arrived, at the mean rates: "
    "the largest of the bounds beside it, of the cores and links that are at work for longest.",
    WAY + "mean": "Mean cycles of a packet from core to core if the packets of a tick come evenly "
    "over it: a cycle, its hops, and waiting for others. Where the busiest link is busy for more "
    "than 60 % there is no figure: mapper simulate has it.",
    CAST + "hops_total": "Links crossed when a neuron sends a packet to each core that it reaches, "
    "times the rates of the neurons ({rate}).",
    MANY + "hops_total": "Links crossed when a neuron sends one packet to all cores that it "
    "reaches, which branches on its way, times the rates of the neurons ({rate}). Beside it: the "
    "same rates with one packet per synapse.",
}


def _words(traffic: Traffic) -> dict[str, str]:
    """What traffic is counted in, to be filled into `MEANING`."""
    rate = rate_line(traffic)
    if are_spikes(traffic):
        energy = "In the unit of the chip's constants, pJ or relative"
        return {"traffic": "spikes", "Traffic": "Spikes", "a_packet": "a spike",
                "energy_unit": energy, "rate": rate}  # fmt: skip
    energy = "Relative: weights times the chip's constants, as weights are no numbers of spikes"
    return {"traffic": "weight", "Traffic": "Weight", "a_packet": "a unit of weight",
            "energy_unit": energy, "rate": rate}  # fmt: skip


def metric(report: dict[str, Any], name: str) -> float | None:
    """A metric by its name in `METRICS`, or None if the report lacks it."""
    part: Any = report["metrics"]
    for step in name.split("."):
        part = part.get(step) if isinstance(part, dict) else None
    return part if isinstance(part, int | float) and not isinstance(part, bool) else None


def shown(view: View, name: str) -> Cell:
    """A metric as the page writes it."""
    value = metric(view.report, name)
    if value is None and name == WAY + "mean" and _ways([view]):
        return Cell(view.report["metrics"]["noc_latency"].get("advice"))
    return Cell(value, percent(value) if name in SHARES and value is not None else None)


class Figure(NamedTuple):
    series: Series | None
    cell: Cell
    beside: list[Fact]


class Card(NamedTuple):
    name: str
    title: str
    figures: list[Figure]
    change: Cell | None
    meaning: str


def key_figures(views: list[View]) -> list[Card]:
    """Cards with the figures that matter most."""
    words = _words(traffic_in(views[0].report))
    names = series_of([view.label for view in views])
    cards = []
    first = {"core": CAST, "tree": MANY}.get(views[0].chip.delivery, "") + "hops_"
    for name, (title, more) in sorted(KEY.items(), key=lambda one: not one[0].startswith(first)):
        if all(shown(view, name).value is None for view in views):
            continue  # of a machine, or of chips whose cycles are known, or newer than the report
        figures = [
            Figure(series, shown(view, name), _beside(view, name, more))
            for series, view in zip(names, views, strict=True)
        ]
        change = _change(name, views) if len(views) == 2 else None
        cards.append(Card(name, title, figures, change, MEANING[name].format_map(words)))
    return cards


def _stated(name: str, views: list[View]) -> bool:
    """Whether any of the reports has a metric."""
    return any(metric(view.report, name) is not None for view in views)


def _timed(views: list[View]) -> bool:
    """Whether the cycles of any of the chips are known."""
    return _stated(TICK + "cycles", views)


def _ways(views: list[View]) -> bool:
    """Whether any of the reports has the latency of the mesh."""
    return any(metric(view.report, WAY + "unloaded") is not None for view in views)


def of_machines(name: str) -> bool:
    """Whether a metric is in reports of machines alone."""
    last = name.rpartition(".")[2]
    return name.startswith(MACHINE) or last.startswith(("cost_", "crossing"))


def _machines(views: list[View]) -> bool:
    """Whether any of the chips is a machine."""
    return _stated(MACHINE + "cost_mean", views)


def _beside(view: View, name: str, more: tuple[tuple[str, str], ...]) -> list[Fact]:
    facts = [Fact(Cell(view.chip.usable_count), "of")] if name == "cores_used" else []
    for other, word in more:
        if other.startswith(MACHINE) and metric(view.report, other) is None:
            continue  # a machine of one chip
        cell = shown(view, other)._replace(metric=other)
        if word == TRAFFIC:
            facts.append(Fact(cell, after=_words(traffic_in(view.report))["traffic"]))
        elif word == "full on average":
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
        return Cell("from none")
    return Cell(f"{100 * (after / before - 1):+.1f} %".replace("-", "\u2212"))


def all_metrics(views: list[View]) -> list[Table]:
    """Every metric with its name in report.json; those of each way to send apart."""
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
        parts.append(("costs and crossings of the machine", known))
    spent = [name for name in METRICS if name.startswith(ENERGY) and _stated(name, views)]
    if spent:
        parts.append((_energy_title(views), spent))
    if _timed(views):
        parts.append(("cycles of a tick, with the mean activity", time))
    if _ways(views):
        parts.append(("latency on the mesh, without a simulation", way))
    return [_metrics(views, _capital(title), names) for title, names in parts]


def _energy_title(views: list[View]) -> str:
    """What the numbers are in, and what the sums lack."""
    parts = [(view.report["metrics"].get("energy_parts") or {}, view.report) for view in views]
    found = [one for one, _ in parts]
    lines = dict.fromkeys(
        energy_line(traffic_in(report), str(one["unit"])) for one, report in parts if one
    )
    lacks = dict.fromkeys(str(one["lacks"]) for one in found if one.get("lacks"))
    without = f"; not known, so not in the sum: {' | '.join(lacks)}" if lacks else ""
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
    """How near the cores are to each limit of theirs."""
    meanings = {
        "neurons": "sum of their sizes",
        "synapses": "incoming, stored in the core",
        "axons_in": "distinct sources of its synapses",
        "axons_out": "distinct pairs of a neuron and another core",
        "memory_bits": "bits of the synapses, and of the lists of their sources",
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
    """What to type to get this mapping again: as it was typed, or for older reports put together
    from the settings."""
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
    """The command line of each mapping."""
    names = series_of([view.label for view in views])
    return [
        Command(series, command_line(view.report))
        for series, view in zip(names, views, strict=True)
    ]


def settings(views: list[View]) -> Table:
    """Every setting; those that differ are marked."""
    known = [_known(view) for view in views]
    rows = []
    for name in {name: None for found in known for name in found}:
        values = [found.get(name) for found in known]
        rows.append([Head(name, marked=len(set(map(str, values))) > 1), *values])
    heads = ("Setting", *(view.label if len(views) > 1 else "Value" for view in views))
    return table("All settings", heads, rows, hidden=True)


def _known(view: View) -> dict[str, Any]:
    """Chip and settings, flat."""
    report = view.report
    chip = {f"chip {name}": value for name, value in report["chip"].items()}
    faulty = chip.get("chip unavailable") or []
    chip["chip unavailable"] = f"{len(faulty):,} cores" if faulty else "none"
    return report["settings"] | chip
