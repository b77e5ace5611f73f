"""Curves and bars as inline SVG: distances of traffic, and balance of link loads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from mapper.reporting.cells import Table, number, percent, table
from mapper.reporting.view import Grid, View
from mapper.results.activity import (
    core_cast_line,
    multicast_line,
    same_activity,
    traffic_in,
    unicast_line,
)

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 14, 42
LETTER = 9.5
"""Width of a letter of the axes at its largest, on a phone."""
BARS = 40
"""Maximum number of bars of a histogram; wider bars cover several distances."""
POINTS = 160
"""Maximum number of points of a curve."""
PERCENTILES = (100, 99, 90, 75, 50, 25, 0)


class Mark(NamedTuple):
    """A label at an axis."""

    x: str
    y: str
    anchor: str
    text: str


class Line(NamedTuple):
    """A grid line, and the label of its value."""

    path: str
    mark: Mark


class Bar(NamedTuple):
    series: int
    x: float
    y: float
    width: float
    height: float


class Curve(NamedTuple):
    series: int
    line: str
    area: str


class Chart(NamedTuple):
    """A chart; names : of the series; numbers : its values as a table."""

    title: str
    below: str
    names: list[str]
    grid: list[Line]
    bars: list[Bar]
    curves: list[Curve]
    marks: list[Mark]
    numbers: Table
    note: str = ""
    width: int = WIDTH
    height: int = HEIGHT
    right: int = WIDTH - RIGHT


def distance_chart(views: list[View]) -> Chart | None:
    """Return a chart of traffic shares per number of hops, with grouped bars for two mappings."""
    if not any(view.distances.any() for view in views):
        return None
    farthest = max(int(np.flatnonzero(v.distances).max(initial=0)) for v in views)
    wide = -(-(farthest + 1) // BARS)
    shares = [_share(view.distances[: farthest + 1]) for view in views]
    binned = [
        np.add.reduceat(np.pad(s, (0, farthest + 1 - s.size)), range(0, farthest + 1, wide))
        for s in shares
    ]
    count = binned[0].size
    top = max(float(b.max(initial=0)) for b in binned) or 1.0
    slot = (WIDTH - LEFT - RIGHT) / count
    bar = min(slot * 0.8 / len(views), 48.0)
    bars = []
    for series, values in enumerate(binned):
        for i, value in enumerate(values.tolist()):
            height = value / top * (HEIGHT - TOP - BOTTOM)
            x = LEFT + slot * (i + 0.5) + bar * (series - len(views) / 2)
            bars.append(Bar(series, x, HEIGHT - BOTTOM - height, bar, height))
    longest = max(len(_bin_name(i, wide, farthest)) for i in range(count))
    every = max(1, -(-count // 10), ceil((longest + 1) * LETTER / slot))
    marks = [
        _tick_x(*_beside_edge(LEFT + slot * (i + 0.5), _bin_name(i, wide, farthest)))
        for i in range(0, count, every)
    ]
    # The table has one row per distance, not per bin.
    rows = [
        [f"{d}", *(value for v in views for value in (_at(v, d), percent(_at_share(v, d))))]
        for d in range(farthest + 1)
    ]
    heads = ["Hops"] + [h + _of(v, views) for v in views for h in ("Traffic", "Share")]
    return Chart(
        "Share of the traffic by number of hops", "hops", [view.label for view in views],
        _grid(top, _percent_tick), bars, [], marks, table("Traffic by distance", heads, rows),
    )  # fmt: skip


def link_charts(views: list[View]) -> list[Chart]:
    """Return charts of all link loads, strongest first; for one mapping, by kind of `LINKS`.

    The curves share a chart if all describe the same activity; otherwise unicast is separate.
    """
    if not any(loads.any() for view in views for loads in view.loads.values()):
        return []
    if len(views) > 1:
        return [_link_chart([(view.label, view.loads[view.sent]) for view in views])]
    view = views[0]
    curves = [(name.capitalize(), loads) for name, loads in view.loads.items()]
    traffic = traffic_in(view.report)
    if same_activity(view.report["metrics"], traffic):
        return [_link_chart(curves)]
    lines = unicast_line(traffic), core_cast_line(traffic), multicast_line(traffic)
    return [
        _link_chart([curve], f"{line[:1].upper()}{line[1:]}.")
        for line, curve in zip(lines, curves, strict=True)
    ]


def _link_chart(curves: list[tuple[str, Grid]], note: str = "") -> Chart:
    top = max((float(loads.max(initial=0)) for _, loads in curves), default=0.0) or 1.0
    drawn = [_curve(series, loads, top) for series, (_, loads) in enumerate(curves) if loads.size]
    marks = [
        _tick_x(
            LEFT + (WIDTH - LEFT - RIGHT) * share / 100,
            f"{share} %",
            "end" if share == 100 else "middle",
        )
        for share in (0, 25, 50, 75, 100)
    ]
    rows: list[list[object]] = []
    for percentile in PERCENTILES:
        name = {100: "Largest", 50: "Median", 0: "Smallest"}.get(
            percentile, f"{percentile}th percentile"
        )
        rows.append([name, *(_percentile(loads, percentile) for _, loads in curves)])
    rows.append(["Mean", *(float(loads.mean()) if loads.size else 0.0 for _, loads in curves)])
    rows.append(["Idle links", *(int((loads == 0).sum()) for _, loads in curves)])
    rows.append(["Links", *(int(loads.size) for _, loads in curves)])
    numbers = table("Load of the links", ["", *(name for name, _ in curves)], rows)
    return Chart(
        "Load of the links, strongest first", "of the links", [name for name, _ in curves],
        _grid(top, _tick), [], drawn, marks, numbers, note,
    )  # fmt: skip


def _curve(series: int, loads: Grid, top: float) -> Curve:
    """Return a curve with a step per sampled link, as wide as the links that it represents."""
    picks = np.unique(np.linspace(0, loads.size - 1, min(POINTS, loads.size)).astype(int))
    x = LEFT + (WIDTH - LEFT - RIGHT) * np.append(picks, loads.size) / loads.size
    y = HEIGHT - BOTTOM - loads[picks] / top * (HEIGHT - TOP - BOTTOM)
    path = [f"M{x[0]:.1f} {y[0]:.1f}"]
    if picks.size < 60:  # few links: draw steps, to show each
        for (left, right), height in zip(pairwise(x.tolist()), y.tolist(), strict=True):
            path.append(f"L{left:.1f} {height:.1f}H{right:.1f}")
    else:
        path += [f"L{a:.1f} {b:.1f}" for a, b in zip(x[1:-1].tolist(), y[1:].tolist(), strict=True)]
        path.append(f"H{x[-1]:.1f}")
    line = "".join(path)
    return Curve(series, line, f"{line}V{HEIGHT - BOTTOM}H{LEFT}z")


def _percentile(loads: Grid, percentile: int) -> float:
    return float(np.percentile(loads, percentile)) if loads.size else 0.0


def _share(distances: Grid) -> Grid:
    total = float(distances.sum())
    return distances / total if total else np.zeros(distances.shape)


def _at(view: View, distance: int) -> float:
    return view.distances[distance].item() if distance < view.distances.size else 0


def _at_share(view: View, distance: int) -> float:
    total = float(view.distances.sum())
    return float(_at(view, distance)) / total if total else 0.0


def _of(view: View, views: list[View]) -> str:
    return f", {view.label}" if len(views) > 1 else ""


def _bin_name(index: int, wide: int, farthest: int) -> str:
    first, last = index * wide, min(index * wide + wide - 1, farthest)
    return f"{first}" if first == last else f"{first}\u2013{last}"


def _beside_edge(x: float, name: str) -> tuple[float, str, str]:
    """Return position, text and anchor of a bar's label; the last label ends at the edge."""
    if x + len(name) * LETTER / 2 > WIDTH:
        return WIDTH, name, "end"
    return x, name, "middle"


def _grid(top: float, written: Callable[[float], str]) -> list[Line]:
    """Return grid lines at 0, half and all of the largest value."""
    lines = []
    for value in (0.0, top / 2, top):
        y = HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
        mark = Mark(str(LEFT - 6), f"{y + 4:.1f}", "end", written(value))
        lines.append(Line(f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", mark))
    return lines


def _tick_x(x: float, name: str, anchor: str = "middle") -> Mark:
    return Mark(f"{x:.1f}", str(HEIGHT - BOTTOM + 18), anchor, name)


def _percent_tick(value: float) -> str:
    return f"{100 * value:.3g} %"


def _tick(value: float) -> str:
    """Format large numbers in thousands and millions, to save space at the axis."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and size > 1e3):
            return f"{value / size:.3g} {letter}"
    return number(float(f"{value:.4g}"))
