"""Latency over load as SVG, in plain Python: one panel per depth, one line per pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 420, 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 34, 46
GAP = 16
MOST_LATENCY = 60.0

THEMES = {
    "light": {"ink": "#1f2328", "faint": "#d0d7de", "paper": "#ffffff",
              "lines": ("#0969da", "#bc4c00", "#1a7f37")},
    "dark": {"ink": "#e6edf3", "faint": "#3d444d", "paper": "#0d1117",
             "lines": ("#58a6ff", "#f0883e", "#3fb950")},
}  # fmt: skip
DASHES = ("", "7 4", "2 3")
"""Dashes distinguish the lines without colours."""


@dataclass(frozen=True, slots=True)
class Curve:
    """points : (offered load, mean latency), in order; saturation : highest load that is carried"""

    name: str
    points: Sequence[tuple[float, float]]
    saturation: float


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    curves: Sequence[Curve]


def _panel(panel: Panel, at: float, most_load: float, theme: dict[str, object]) -> list[str]:
    ink, faint, colours = theme["ink"], theme["faint"], theme["lines"]
    assert isinstance(colours, tuple)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(load: float) -> float:
        return LEFT + load / most_load * inner_width

    def y(latency: float) -> float:
        return TOP + (1 - latency / MOST_LATENCY) * inner_height

    out = [f'<g transform="translate({at:.0f} 0)">']
    out.append(f'<text x="{LEFT}" y="20" font-weight="600">{panel.title}</text>')
    out += [
        f'<path d="M{LEFT} {y(latency):.1f}h{inner_width}" stroke="{faint}"/>'
        f'<text x="{LEFT - 7}" y="{y(latency) + 4:.1f}" text-anchor="end">{latency}</text>'
        for latency in range(0, int(MOST_LATENCY) + 1, 10)
    ]
    out += [
        f'<path d="M{x(step / 10):.1f} {TOP}v{inner_height}" stroke="{faint}"/>'
        f'<text x="{x(step / 10):.1f}" y="{TOP + inner_height + 17}" text-anchor="middle">'
        f"{step / 10:.1f}</text>"
        for step in range(round(most_load * 10) + 1)
    ]
    for number, curve in enumerate(panel.curves):
        colour = colours[number % len(colours)]
        dash = DASHES[number % len(DASHES)]
        shown: list[tuple[float, float]] = []
        for load, latency in curve.points:
            if latency > MOST_LATENCY:  # clip the line at the edge of the panel
                if shown and shown[-1][1] < MOST_LATENCY:
                    (load_0, latency_0) = shown[-1]
                    part = (MOST_LATENCY - latency_0) / (latency - latency_0)
                    shown.append((load_0 + part * (load - load_0), MOST_LATENCY))
                break
            shown.append((load, latency))
        way = "L".join(f"{x(load):.1f} {y(latency):.1f}" for load, latency in shown)
        out.append(
            f'<path d="M{way}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        if curve.saturation <= most_load:
            out.append(
                f'<path d="M{x(curve.saturation):.1f} {TOP + inner_height}l-5 9h10z" '
                f'fill="{colour}"/>'
            )
        below = TOP + 16 + 18 * number
        out.append(
            f'<path d="M{LEFT + 10} {below - 4}h26" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/><text x="{LEFT + 42}" y="{below}">{curve.name}</text>'
        )
    out.append(
        f'<text x="{LEFT + inner_width / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        "offered load, flits / node / cycle</text>"
        f'<text transform="translate(16 {TOP + inner_height / 2:.0f}) rotate(-90)" '
        'text-anchor="middle">mean latency, cycles</text>'
        f'<path d="M{LEFT} {TOP}v{inner_height}h{inner_width}" fill="none" stroke="{ink}"/></g>'
    )
    return out


def write_plots(panels: Sequence[Panel], most_load: float, folder: Path, name: str) -> None:
    """Write ``name-light.svg`` and ``name-dark.svg``; triangles mark saturation."""
    width = len(panels) * WIDTH + (len(panels) - 1) * GAP
    for theme, colours in THEMES.items():
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
            f'width="{width}" height="{HEIGHT}" font-family="system-ui, sans-serif" '
            f'font-size="12" fill="{colours["ink"]}">',
            f'<rect width="{width}" height="{HEIGHT}" fill="{colours["paper"]}"/>',
        ]
        for number, panel in enumerate(panels):
            lines += _panel(panel, number * (WIDTH + GAP), most_load, colours)
        lines.append("</svg>")
        path = folder / f"{name}-{theme}.svg"
        partial = path.with_name(path.name + ".partial")
        partial.write_text("\n".join(lines) + "\n")
        partial.replace(path)
