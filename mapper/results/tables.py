"""Result tables for a terminal of 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mapper.results.activity import (
    PACKETS,
    are_spikes,
    core_cast_line,
    energy_line,
    multicast_line,
    same_activity,
    traffic_line,
    unicast_line,
)
from mapper.results.fitted import FittedTable, Head

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

if TYPE_CHECKING:
    from mapper.planning.plan import Plan
    from mapper.planning.worker_plan import WorkerPlan


def number(value: Any) -> str:
    """Format a value: whole numbers with separators, other numbers with four digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e15:
            return f"{int(value):,}"
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {number(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        inner = (isinstance(each, list | tuple | Mapping) for each in value)
        shown = map(number, value)
        return ", ".join(
            f"({text})" if deep else text for text, deep in zip(shown, inner, strict=True)
        )
    return f"{value:,}" if isinstance(value, int) else str(value)


def size(count: float) -> str:
    """Format bytes in the largest unit that gives at least 1."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def facts(title: str, rows: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> Table:
    """Return a table of two columns: name and value."""
    pairs = rows.items() if isinstance(rows, Mapping) else rows
    cells = [(name, number(value)) for name, value in pairs]
    return FittedTable(title, (Head("", left=True), Head("")), cells)


def columns(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table of numbers with a heading; the first column is text."""
    named = [Head(head, left=not index) for index, head in enumerate(heads)]
    return FittedTable(title, named, [[number(value) for value in row] for row in rows])


def quality(
    metrics: Mapping[str, Any], traffic: Mapping[str, Any] | None, delivery: str = "synapse"
) -> list[Table]:
    """Return the quality metrics of a mapping.

    One table, or several if unicast metrics do not describe the same activity as the others. The
    delivery of the chip comes first.

    traffic : `network.traffic` of the report, None if the report has none
    delivery : the packets that the chip sends
    """
    one, many, cast = _unicast(metrics, traffic), _multicast(metrics), _core_cast(metrics)
    rest: list[tuple[str, Any]] = [
        ("cores used", metrics["cores_used"]),
        ("core fill, mean", metrics["core_fill_mean"]),
        ("core fill, max", metrics["core_fill_max"]),
        *_memory(metrics),
        *_ticks(metrics, traffic),
        *_noc_latency(metrics),
    ]
    machine = [*_machine(metrics), *_energy(metrics, traffic)]
    if not same_activity(metrics, traffic):
        parts = {
            "synapse": facts(unicast_line(traffic, "\n"), one),
            "core": facts(core_cast_line(traffic, "\n"), cast),
            "tree": facts(multicast_line(traffic, "\n"), many),
        }
        if not cast:
            del parts["core"]
        shown_parts = [parts[name] for name in _ordered(parts, delivery)]
        return [*shown_parts, *machine, facts("cores", rest)]
    total, connectivity = one[0][0], "cut weight / connectivity"
    same = {"hops of the packets": total, "packets": connectivity}
    same |= {"hops of the trees": total, "connectivity": connectivity}
    beside = {"core": cast, "tree": many} if cast else {"tree": many}
    others = {way: {same.get(name, name): n for name, n in rows} for way, rows in beside.items()}
    rows = [(connectivity if name == "cut weight" else name, value) for name, value in one]
    heads = {"synapse": "unicast", "core": "core-cast", "tree": "multicast"}
    order = _ordered(["synapse", *others], delivery)
    shown = [
        (name, *(value if way == "synapse" else others[way].get(name, "") for way in order))
        for name, value in rows
    ]
    shown += [(name, value, *("" for _ in order[1:])) for name, value in rest]
    title = f"quality, {traffic_line(traffic)}"
    if delivery != "synapse":
        title += f"\nthe chip sends {PACKETS[delivery]} ({heads[delivery]})"
    return [columns(title, ("", *(heads[way] for way in order)), shown), *machine]


def _memory(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return memory use; empty for chips without memory sizes, copies and shared lists."""
    names = {
        "copies of neurons": "copies",
        "list words": "list_words",
        "memory fill, mean": "memory_fill_mean",
        "memory fill, max": "memory_fill_max",
    }
    return [(text, metrics[name]) for text, name in names.items() if name in metrics]


def _ordered(ways: Iterable[str], delivery: str) -> list[str]:
    """Sort kinds of delivery, the delivery of the chip first."""
    return sorted(ways, key=lambda way: way != delivery)


def _core_cast(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the core-cast metrics; empty for reports of older versions."""
    found = metrics.get("core")
    if found is None:
        return []
    return [
        ("hops of the packets", found["hops_total"]),
        ("packets", found["packets"]),
        *_loads(found),
    ]


def _machine(metrics: Mapping[str, Any]) -> list[Table]:
    """Return costs of distances and crossings of chips and boards; empty for a single chip."""
    found = metrics.get("machine")
    if found is None:
        return []
    ways = {"unicast": found, "core-cast": metrics["core"], "multicast": metrics["multicast"]}
    names = {
        "cost_total": "weight x cost",
        "crossings_chips": "chip boundary crossings",
        "crossings_boards": "board boundary crossings",
        "crossing_load_max": "busiest boundary, load / bandwidth",
    }
    rows = [
        (text, *(way.get(name, "") for way in ways.values()))
        for name, text in names.items()
        if name in found
    ]
    rows += [("cost, mean", found["cost_mean"], "", ""), ("cost, max", found["cost_max"], "", "")]
    rows += [
        (f"weight between {part}", found[f"cut_{part}"], "", "")
        for part in ("tiles", "chips", "boards")
        if f"cut_{part}" in found
    ]
    return [columns("machine costs and boundary crossings", ("", *ways), rows)]


def _energy(metrics: Mapping[str, Any], traffic: Mapping[str, Any] | None) -> list[Table]:
    """Return the energy by part; empty for chips without energy figures."""
    found = metrics.get("energy_parts")
    if found is None:
        return []
    rows = [
        (text, found.get(name, "unknown"))
        for name, text in {
            "network": "network", "events": "synaptic events", "neurons": "neuron updates",
            "sum": "sum" if not found["lacks"] else f"sum, without {found['lacks']}",
        }.items()
    ]  # fmt: skip
    return [columns(energy_line(traffic, found["unit"]), ("", "energy"), rows)]


def _ticks(metrics: Mapping[str, Any], traffic: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    """Return the cycles per tick; empty for chips without timing."""
    if "tick_cycles" not in metrics:
        return []
    bound = str(metrics["tick_bound"]).replace("_", " ")
    told = "cycles per tick" if are_spikes(traffic) else "cycles per tick, weights as rates"
    return [(told, metrics["tick_cycles"]), ("bottleneck", bound)]


def _noc_latency(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the estimated latency of packets; empty for chips without timing."""
    if (found := metrics.get("noc_latency")) is None:
        return []
    mean = found.get("mean", "not estimated: high load")
    return [
        ("NoC latency without queueing, cycles", found["unloaded"]),
        ("NoC latency, mean, cycles", mean),
        ("utilisation of busiest link or port", found["load_max"]),
    ]


def _unicast(
    metrics: Mapping[str, Any], traffic: Mapping[str, Any] | None
) -> list[tuple[str, Any]]:

    spikes = are_spikes(traffic)
    return [
        ("spike-hops" if spikes else "hops x weight", metrics["hops_total"]),
        ("hops per spike, mean" if spikes else "hops, mean", metrics["hops_mean"]),
        ("hops per spike, max" if spikes else "hops, max", metrics["hops_max"]),
        ("cut weight", metrics["cut_weight"]),
        ("cut fraction", metrics["cut_fraction"]),
        *_loads(metrics),
        ("router congestion, max", metrics["congestion_max"]),
        ("router congestion, mean", metrics["congestion_mean"]),
        *_sampled(metrics),
        ("NoC energy" if spikes else "NoC energy x weight", metrics["energy"]),
        ("latency, mean", metrics["latency_mean"]),
        ("latency, max", metrics["latency_max"]),
    ]


def _sampled(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the share of sampled core pairs; empty if congestion covers all traffic."""
    if "congestion_share" not in metrics:
        return []
    return [("core pairs sampled", f"{metrics['congestion_share']:.1%}")]


def _multicast(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    multicast = metrics["multicast"]
    return [
        ("hops of the trees", multicast["hops_total"]),
        ("hops as unicast, at the same rates", multicast.get("unicast_hops_total")),
        ("connectivity", multicast["connectivity"]),
        *_loads(multicast),
    ]


def _loads(metrics: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("link load, max", metrics["link_load_max"]),
        ("link load, 99th percentile", metrics["link_load_p99"]),
        ("link load, mean", metrics["link_load_mean"]),
        *(
            (text, metrics[name])
            for name, text in (
                ("router_load_max", "router load, max"),
                ("router_load_mean", "router load, mean"),
            )
            if name in metrics  # not in reports of older versions
        ),
    ]


def levels(entries: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (str(depth), level["vertices"], level["connections"], level["cut_weight"])
        for depth, level in enumerate(entries)
    ]
    return columns("levels", ("level", "vertices", "connections", "cut weight"), rows)


def planned(plan: Plan, seconds: Mapping[str, float] | None = None) -> Table:
    """Return the memory plan, with processor seconds by stage if they are known."""
    from mapper.planning.plan import STAGES

    rows: list[tuple[Any, ...]] = [
        (name, size(need), f"{need / plan.budget:.0%}") for name, need in plan.stages.items()
    ]
    title = (
        f"Memory plan (budget {size(plan.budget)}), {size(plan.scratch + plan.sorting)} scratch:\n"
        f"{plan.strategy}"
    )
    if plan.sample is not None:
        more = f" on {plan.sample.levels + 1} levels" if plan.sample.levels else ""
        title += f",\nclusters{more} with {plan.sample.shown} connections each for the initial cut"
    heads = ["stage", "peak memory", "share of budget"]
    if seconds:
        title += f",\nabout {number(math.ceil(sum(seconds.values())))} s of processor time"
        heads.append("processor time, s")
        rows += [(name, "", "") for name in seconds if name not in plan.stages]
        rows = [(*row, f"{seconds[row[0]]:.1f}" if row[0] in seconds else "") for row in rows]
    rows.sort(key=lambda row: STAGES.index(row[0]))
    return columns(title, heads, rows)


def worker_plan(plan: WorkerPlan, given: int | None) -> Table:
    """Return the memory, disk and traffic of workers; given : bytes of memory per worker."""
    of_given = "" if given is None else f" of {size(given)}"
    threads = f"{plan.threads} thread{'s' if plan.threads > 1 else ''}"
    title = (
        f"{plan.count} workers of {threads}: {size(plan.memory)}{of_given} memory and "
        f"{size(plan.disk)} disk each, the driver {size(plan.driver)}"
    )
    rows = [(name, *map(size, sent)) for name, sent in plan.sent.items()]
    rows.append(("all", *(size(sum(way)) for way in zip(*plan.sent.values(), strict=True))))
    heads = ("stage", "sent to workers", "sent by workers", "through --shared")
    return columns(title, heads, rows)


def stages(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Return time, memory and, if known, the cost of the mapping after each stage."""
    costs = {"cut_weight": "cut weight", "hops_total": "hops"}
    told = [name for name in costs if any(name in stage for stage in entries)]
    rows = [
        (
            stage["name"],
            f"{stage['seconds']:.2f}",
            size(stage["peak_anon_bytes"]),
            *(_cost(stage, name) for name in told),
        )
        for stage in entries
    ]
    heads = ("stage", "seconds", "peak memory", *(costs[name] for name in told))
    return columns("stages", heads, rows)


def _cost(stage: Mapping[str, Any], name: str) -> str:
    """Format a cost in 11 characters, so that all columns fit; estimates have a tilde."""
    value = stage.get(name)
    if value is None:
        return ""
    shown = number(value) if value < 1e9 else f"{value:.4g}"
    return f"~{shown}" if stage.get("estimated") else shown


TICK_CYCLES = {
    "mean": "cycles per tick, mean",
    "p50": "cycles per tick, 50th percentile",
    "p99": "cycles per tick, 99th percentile",
    "max": "cycles per tick, max",
}
TICK_COUNTS = {
    "ended_by_neurons": "ticks that end with the last neuron",
    "ended_by_spikes": "ticks that end with a spike",
    "packets_per_tick": "packets per tick",
    "packets_per_tick_max": "packets per tick, busiest core",
    "events_per_tick": "synaptic events per tick",
    "events_per_tick_max": "events per tick, busiest core",
    "link_flits_per_tick_max": "flits per tick, busiest link",
}


def tick_rows(found: dict[str, Any], expected: float | None) -> list[tuple[str, float]]:
    """Return results of ticks as pairs of text and number; expected : `tick_cycles` of the metrics.

    Results without cycles (spikes only, on chips without timing) have no rows of cycles.
    """
    rows: list[tuple[str, float]] = [
        ("ticks", found["ticks"]),
        ("spikes per tick", found["spikes"] / found["ticks"]),
    ]
    if "given" in found:
        rows.append(("spikes given", found["given"]))
    cycles = found.get("cycles", {})
    rows += [(text, cycles[name]) for name, text in TICK_CYCLES.items() if name in cycles]
    if cycles and expected is not None:
        rows.append(("expected (tick_cycles)", expected))
    return rows + [(text, found[name]) for name, text in TICK_COUNTS.items() if name in found]
