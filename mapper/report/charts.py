"""Curves and bars as inline SVG: how far traffic travels, how evenly the links are loaded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import ceil

import numpy as np

from mapper.report.markup import Html, details, join, number, percent, table, text
from mapper.report.view import Grid, View
from mapper.results.activity import multicast_line, same_activity, traffic_in, unicast_line

WIDTH, HEIGHT = 480, 240
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 14, 42
LETTER = 9.5
"""Width of a letter of the axes where they are largest, on a phone."""
BARS = 40
"""Bars of a histogram at most; wider ones hold several distances."""
POINTS = 160
"""Points of a curve at most."""
PERCENTILES = (100, 99, 90, 75, 50, 25, 0)


def distance_chart(views: list[View]) -> Html:
    """Share of the traffic by hops, bars side by side for two mappings."""
    if not any(view.distances.any() for view in views):
        return Html("<p>The network has no traffic.</p>")
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
    shapes = []
    for series, values in enumerate(binned):
        for i, value in enumerate(values.tolist()):
            height = value / top * (HEIGHT - TOP - BOTTOM)
            x = LEFT + slot * (i + 0.5) + bar * (series - len(views) / 2)
            shapes.append(
                f'<rect class="s{series}" x="{x:.1f}" y="{HEIGHT - BOTTOM - height:.1f}" '
                f'width="{bar:.1f}" height="{height:.1f}" rx="1.5"/>'
            )
    longest = max(len(_bin_name(i, wide, farthest)) for i in range(count))
    every = max(1, -(-count // 10), ceil((longest + 1) * LETTER / slot))
    marks = [
        _tick_x(*_beside_edge(LEFT + slot * (i + 0.5), _bin_name(i, wide, farthest)))
        for i in range(0, count, every)
    ]
    # More bins would name the same distances again; the numbers are per distance.
    rows = [
        [f"{d}", *(value for v in views for value in (_at(v, d), percent(_at_share(v, d))))]
        for d in range(farthest + 1)
    ]
    heads = ["Hops"] + [h + _of(v, views) for v in views for h in ("Traffic", "Share")]
    plot = _plot(
        "Share of the traffic by number of hops", "hops", [*shapes, *marks], top, _percent_tick
    )
    return join(
        [_figure(plot, views), details("Numbers", table("Traffic by distance", heads, rows))]
    )


def link_chart(views: list[View]) -> Html:
    """Loads of all links, strongest first; of one mapping unicast and multicast.

    These are in one chart if both are of the same activity.
    """
    if not any(loads.any() for view in views for loads in view.loads.values()):
        return Html("<p>No traffic crosses a link.</p>")
    if len(views) > 1:
        return _link_chart(views, [(view.label, view.loads["unicast"]) for view in views])
    view = views[0]
    curves = [(name.capitalize(), loads) for name, loads in view.loads.items()]
    traffic = traffic_in(view.report)
    if same_activity(view.report["metrics"], traffic):
        return _link_chart(views, curves)
    lines = unicast_line(traffic), multicast_line(traffic)
    return join(
        Html(f"<p class=note>{text(line[:1].upper() + line[1:])}.</p>{_link_chart(views, [curve])}")
        for line, curve in zip(lines, curves, strict=True)
    )


def _link_chart(views: list[View], curves: list[tuple[str, Grid]]) -> Html:
    top = max((float(loads.max(initial=0)) for _, loads in curves), default=0.0) or 1.0
    shapes = []
    for series, (_, loads) in enumerate(curves):
        if loads.size:
            shapes.append(_curve(series, loads, top))
    marks = [
        _tick_x(
            LEFT + (WIDTH - LEFT - RIGHT) * share / 100,
            f"{share} %",
            "end" if share == 100 else "middle",
        )
        for share in (0, 25, 50, 75, 100)
    ]
    plot = _plot(
        "Load of the links, strongest first", "of the links", [*shapes, *marks], top, _tick
    )
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
    return join([_figure(plot, views, [name for name, _ in curves]), details("Numbers", numbers)])


def _curve(series: int, loads: Grid, top: float) -> str:
    """A step for each sampled link, as wide as the links that it stands for."""
    picks = np.unique(np.linspace(0, loads.size - 1, min(POINTS, loads.size)).astype(int))
    x = LEFT + (WIDTH - LEFT - RIGHT) * np.append(picks, loads.size) / loads.size
    y = HEIGHT - BOTTOM - loads[picks] / top * (HEIGHT - TOP - BOTTOM)
    path = [f"M{x[0]:.1f} {y[0]:.1f}"]
    if picks.size < 60:  # few links: steps, so that each is seen
        for (left, right), height in zip(pairwise(x.tolist()), y.tolist(), strict=True):
            path.append(f"L{left:.1f} {height:.1f}H{right:.1f}")
    else:
        path += [f"L{a:.1f} {b:.1f}" for a, b in zip(x[1:-1].tolist(), y[1:].tolist(), strict=True)]
        path.append(f"H{x[-1]:.1f}")
    line = "".join(path)
    floor = HEIGHT - BOTTOM
    return (
        f'<path class="area s{series}" d="{line}V{floor}H{LEFT}z"/>'
        f'<path class="line s{series}" d="{line}"/>'
    )


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
    """Place, text and anchor of a mark under a bar; the last one must not go beyond the edge."""
    if x + len(name) * LETTER / 2 > WIDTH:
        return WIDTH, name, "end"
    return x, name, "middle"


def _plot(
    title: str, below: str, shapes: list[str], top: float, written: Callable[[float], str]
) -> Html:
    """Axes around shapes; three lines at 0, half and all of the largest value."""
    lines = []
    for value in (0.0, top / 2, top):
        y = HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
        lines.append(
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text(written(value))}</text>'
        )
    return Html(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(title)}">'
        f"{''.join(lines)}{''.join(shapes)}"
        f'<text class="below" x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{text(below)}'
        "</text></svg>"
    )


def _tick_x(x: float, name: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{text(name)}</text>'
    )


def _percent_tick(value: float) -> str:
    return f"{100 * value:.3g} %"


def _tick(value: float) -> str:
    """Large numbers in thousands and millions: the axis has little room."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and size > 1e3):
            return f"{value / size:.3g} {letter}"
    return number(float(f"{value:.4g}"))


def _figure(plot: Html, views: list[View], names: list[str] | None = None) -> Html:
    """A plot with the names of its series, if there are several."""
    names = names or [view.label for view in views]
    if len(names) < 2:
        return plot
    keys = "".join(
        f'<li><span class="swatch s{series}"></span>{text(name)}</li>'
        for series, name in enumerate(names)
    )
    return Html(f'<ul class="keys">{keys}</ul>{plot}')
