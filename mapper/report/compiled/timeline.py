"""Timeline of the units of a core: a row per unit, cycles to the right."""

from __future__ import annotations

from typing import Any, NamedTuple

WIDTH, MARGIN, TOP, ROW, BAR, AXIS = 960, 64, 8, 34, 22, 40


class UnitRow(NamedTuple):
    """A unit: its name, the position of its row, and the path of its bars."""

    name: str
    y: float
    path: str


class Picture(NamedTuple):
    """A timeline; layers : ends of layers, from the left, with the number if there is space."""

    width: int
    height: int
    place: str
    rows: list[UnitRow]
    layers: list[tuple[float, str]]
    ticks: list[tuple[float, str]]


def timelines(report: dict[str, Any]) -> list[Picture]:
    """Return the timeline of each core."""
    return [_picture(one, report) for one in report["timelines"]]


def _picture(one: dict[str, Any], report: dict[str, Any]) -> Picture:
    cycles = max(1, report["cycles"])
    across = (WIDTH - MARGIN - 8) / cycles
    rows = []
    for number, (name, bars) in enumerate(one["units"].items()):
        y = TOP + ROW * number
        path = "".join(
            f"M{MARGIN + start * across:.2f} {y}h{max(0.15, (end - start) * across):.2f}v{BAR}"
            f"H{MARGIN + start * across:.2f}z"
            for start, end in bars
        )
        rows.append(UnitRow(name, y, path))
    height = TOP + ROW * len(rows) + AXIS
    layers, last = [], -30.0
    for number, layer in enumerate(report["layers"]):
        if layer["core"] != one["core"]:
            continue
        x = MARGIN + layer["end"] * across
        middle = MARGIN + (layer["end"] - layer["cycles"] / 2) * across
        wide = layer["cycles"] * across >= 14 and middle - last >= 14
        last = middle if wide else last
        layers.append((x, str(number) if wide else ""))
    ticks = [
        (MARGIN + share * cycles * across, f"{round(share * cycles):,}")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    x, y = one["core"]
    return Picture(WIDTH, height, f"Core ({x}, {y})", rows, layers, ticks)
