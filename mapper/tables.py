"""Results as tables for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

if TYPE_CHECKING:
    from mapper.plan import Plan


def number(value: Any) -> str:
    """A number as people read it: whole ones with separators, others with four digits."""
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
    """Bytes in the largest unit that leaves at least one."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def facts(title: str, rows: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> Table:
    """Two columns: what, and how much."""
    table = Table(title=title, box=box.SIMPLE, show_header=False, title_justify="left")
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for name, value in rows.items() if isinstance(rows, Mapping) else rows:
        table.add_row(name, number(value))
    return table


def columns(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table of numbers with a head; the first column is text."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index else "left", overflow="fold")
    for row in rows:
        table.add_row(*(number(value) for value in row))
    return table


def quality(metrics: Mapping[str, Any]) -> Table:
    """The quality of a mapping: what each number is, in the words of the field."""
    multicast = metrics["multicast"]
    rows: list[tuple[str, Any, Any]] = [
        ("spike-hops", metrics["hops_total"], multicast["hops_total"]),
        ("hops a spike, mean", metrics["hops_mean"], None),
        ("hops a spike, max", metrics["hops_max"], None),
        ("cut weight / connectivity", metrics["cut_weight"], multicast["connectivity"]),
        ("cut fraction", metrics["cut_fraction"], None),
        ("link load, max", metrics["link_load_max"], multicast["link_load_max"]),
        ("link load, 99th percentile", metrics["link_load_p99"], multicast["link_load_p99"]),
        ("link load, mean", metrics["link_load_mean"], multicast["link_load_mean"]),
        ("router congestion, max", metrics["congestion_max"], None),
        ("router congestion, mean", metrics["congestion_mean"], None),
        ("NoC energy", metrics["energy"], None),
        ("latency, mean", metrics["latency_mean"], None),
        ("latency, max", metrics["latency_max"], None),
        ("cores used", metrics["cores_used"], None),
        ("core fill, mean", metrics["core_fill_mean"], None),
        ("core fill, max", metrics["core_fill_max"], None),
    ]
    shown = [(name, one, "" if many is None else many) for name, one, many in rows]
    return columns("quality", ("", "unicast", "multicast"), shown)


def levels(entries: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (str(depth), level["vertices"], level["connections"], level["cut_weight"])
        for depth, level in enumerate(entries)
    ]
    return columns("levels", ("level", "vertices", "connections", "cut weight"), rows)


def planned(plan: Plan) -> Table:
    """What each stage of a run will need at most."""
    rows = [(name, size(need), f"{need / plan.budget:.0%}") for name, need in plan.stages.items()]
    title = (
        f"planned within {size(plan.budget)}: network "
        f"{'held in memory' if plan.held else 'streamed from disk'}, "
        f"{size(plan.scratch + plan.sorting)} of disk"
    )
    return columns(title, ("stage", "memory at most", "of --memory"), rows)


def stages(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Time, memory, and what the mapping cost after each stage where that is known."""
    costs = {"cut_weight": "cut weight", "hops_total": "spike-hops"}
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
    """Eleven characters, so that all columns fit; estimates have a tilde."""
    value = stage.get(name)
    if value is None:
        return ""
    shown = number(value) if value < 1e9 else f"{value:.4g}"
    return f"~{shown}" if stage.get("estimated") else shown
