"""The summary that a command ends with: its result, the figures that matter, and what to do next.

A summary has at most 24 lines at 80 columns. `--details` prints all tables instead, which
docs/reference/metrics.md describes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from mapper.results.activity import Traffic, are_spikes
from mapper.results.tables import number, size

BOUNDS = {
    "neurons": "neuron updates of a core",
    "packets_out": "packets that a core sends",
    "events": "synaptic events of a core",
    "links": "flits on a link",
}
"""Names of `tick_bounds` in sentences."""


class Row(NamedTuple):
    """A line: name, value, and a remark; "" separates groups of lines."""

    name: str
    value: Any = ""
    remark: str = ""


GAP = Row("")


def summary(title: str, rows: Iterable[Row]) -> Table:
    """Return the summary as a table for a terminal."""
    text = Text(title, "table.title")
    table = Table(title=text, box=box.SIMPLE, show_header=False, title_justify="left")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)  # numbers are never broken
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(Text, (row.name, number(row.value), row.remark)))
    return table


def next_steps(page: str, details: str, *commands: str) -> list[Row]:
    """Return the last lines: the page, the next command, and where all metrics are."""
    rows = [Row("page", "", page)] if page else []
    rows += [Row("" if at else "next", "", command) for at, command in enumerate(commands)]
    return [GAP, *rows, Row("all figures", "", details)]


def mapping_rows(
    report: Mapping[str, Any], traffic: Traffic, objective: str | None = None
) -> list[Row]:
    """Return the cost of a mapping: network, cores, three figures, and the bottleneck.

    report : with `network`, `chip` and `metrics` as in report.json
    objective : that the mapping was made for; None if it was made elsewhere
    """
    network, chip, metrics = report["network"], report["chip"], report["metrics"]
    available = chip["width"] * chip["height"] - len(chip.get("unavailable") or ())
    fill = f"{metrics['core_fill_mean']:.0%} full on average"
    rows = [
        Row("neurons", network["neurons"]),
        Row("synapses", network["synapses"]),
        Row("cores used", f"{metrics['cores_used']:,} of {available:,}", fill),
    ]
    if split := report.get("split"):
        rows.append(Row("relay neurons", split["helpers"], f"for {split['neurons']:,} neurons"))
    if not metrics["cut_weight"]:
        return [*rows, GAP, Row("traffic between cores", "none")]
    delivery = {"unicast": "synapse", "core": "core", "multicast": "tree"}.get(
        objective or "", chip.get("delivery", "synapse")
    )
    if "core" not in metrics and delivery == "core":  # a report of an older version
        delivery = "synapse"
    compared = baseline_row(report.get("baselines"), metrics)
    return [
        *rows, GAP, *_traffic_rows(metrics, traffic, delivery), *compared,
        *_bottleneck(metrics, traffic),
    ]  # fmt: skip


def fewer_hops(hops: float, other: float) -> str:
    """Return how the hops of a mapping compare with other hops, in percent."""
    share = 1 - hops / other if other else 0.0
    return f"{abs(share):.0%} {'fewer' if share >= 0 else 'more'}"


def baseline_row(baselines: Mapping[str, Any] | None, metrics: Mapping[str, Any]) -> list[Row]:
    """Return the comparison with simple mappings; empty for reports without one."""
    if baselines is None:
        return []
    hops: Any = metrics
    for name in baselines["metric"].split("."):
        hops = hops[name]
    than = [
        f"{fewer_hops(hops, baselines[name])} than {words}"
        for name, words in (("in_order", "in order"), ("random", "random"))
    ]
    return [Row("hops compared", "", ", ".join(than))]


def _traffic_rows(metrics: Mapping[str, Any], traffic: Traffic, delivery: str) -> list[Row]:
    """Return hops, packets or cut, and the busiest link, for the packets that the chip sends."""
    spikes = are_spikes(traffic)
    if delivery == "synapse":
        unit = "per spike" if spikes else "per unit of weight"
        cut = f"{metrics['cut_fraction']:.0%} of the {'spikes' if spikes else 'weight'}"
        rows = [
            Row(
                "spike hops" if spikes else "hops x weight", metrics["hops_total"],
                f"{number(metrics['hops_mean'])} {unit} on average, at most {metrics['hops_max']}",
            ),
            Row("cut weight", metrics["cut_weight"], f"between cores: {cut}"),
        ]  # fmt: skip
        found: Mapping[str, Any] = metrics
    elif delivery == "core":
        found = metrics["core"]
        rows = [
            Row("packet hops", found["hops_total"], "one packet per spike and destination core"),
            Row("packets", found["packets"]),
        ]
    else:
        found = metrics["multicast"]
        rows = [
            Row("tree hops", found["hops_total"], "links of all multicast trees"),
            Row("packets", found["connectivity"], "deliveries to cores"),
        ]
    mean = found["link_load_mean"]
    ratio = f"{found['link_load_max'] / mean:.1f}x the mean" if mean else ""
    return [*rows, Row("link load, max", found["link_load_max"], ratio)]


def _bottleneck(metrics: Mapping[str, Any], traffic: Traffic) -> list[Row]:
    """Return the slowest part of a tick, of chips whose cycles are known."""
    if "tick_cycles" not in metrics:
        return []
    unit = "" if are_spikes(traffic) else "if the weights are firing rates"
    name = BOUNDS.get(metrics["tick_bound"], str(metrics["tick_bound"]).replace("_", " "))
    return [
        Row("cycles per tick", metrics["tick_cycles"], unit),
        Row("bottleneck", "", name),
    ]


def resources_row(resources: Mapping[str, Any]) -> Row:
    """Return the time and memory of a run."""
    memory = size(resources["peak_rss_bytes"])
    return Row("time", f"{resources['seconds']:.1f} s", f"peak memory {memory}")
