"""Pictures and tables of a run on several cores: utilisation of cores and links, timeline."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mapper.reporting.cells import Cell, Table, percent, table
from mapper.reporting.chipmap import PITCH, Path, Ramp, crosses, squares, strokes
from mapper.reporting.colours import LINK_STEPS, STEPS
from mapper.reporting.view import steps

SIDES = ("east", "west", "south", "north")
OUTSIDE = ("stream", "credit", "router", "weights")
"""Stall causes outside the core: other cores, the host, the mesh."""
BUSIEST = 8
"""Number of links in the table."""
WIDTH, LEFT, TOP, ROW, GAP, AXIS = 960, 56, 20, 7, 7, 40
"""Sizes of the timeline in pixels: a row per unit, a gap between cores."""
LABEL = 80
"""Minimum width of a label in pixels."""


class Shape(NamedTuple):
    """A core or a link; title : its tooltip."""

    drawn: Path
    title: str


class ChipMap(NamedTuple):
    """A map, as `mapper.reporting.chipmap.Map`."""

    across: int
    down: int
    width: int
    height: int
    most: int
    ramps: list[Ramp]
    links: list[Shape]
    cells: list[Shape]
    idle: list[Path]


class CoreRows(NamedTuple):
    """The units of a core; paths : of even and odd frames."""

    name: str
    y: int
    height: int
    paths: tuple[str, str]


class RunPicture(NamedTuple):
    """A timeline; done : ends of frames, from the left, with a label if there is space."""

    width: int
    height: int
    rows: list[CoreRows]
    done: list[tuple[float, str]]
    ticks: list[tuple[float, str]]


class ChipRun(NamedTuple):
    """A run; timeline : None for reports of versions without timelines."""

    map: ChipMap
    cores: Table
    links: Table
    timeline: RunPicture | None


def chip_run(report: dict[str, Any]) -> ChipRun | None:
    """Return the last run on several cores; None if there is none."""
    run = report.get("simulation", {}).get("cycle_run", {})
    if "links" not in run:
        return None
    timeline = run.get("timeline")
    return ChipRun(
        _map(report["chip"], run), _cores(run), _links(run),
        _picture(timeline) if timeline and timeline["cores"] else None,
    )  # fmt: skip


def longest_wait(core: dict[str, Any]) -> tuple[int, str] | None:
    """Return the longest stall of a core with an external cause: cycles and name; None without."""
    outside = [
        (count, f"{cause} ({unit})")
        for unit, waits in core["waits"].items()
        for cause, count in waits.items()
        if cause in OUTSIDE and count
    ]
    return max(outside, default=None)


def _map(chip: dict[str, Any], run: dict[str, Any]) -> ChipMap:
    width, height = chip["width"], chip["height"]
    empty = np.ones((height, width), bool)
    off = np.zeros((height, width), bool)
    off.flat[chip.get("unavailable", [])] = True
    cells, cycles = [], max(1, run["cycles"])
    for core in run["cores"]:
        x, y = core["core"]
        empty[y, x] = False
        shares = {unit: busy / cycles for unit, busy in core["busy"].items()}
        top = max(shares.values())
        here = np.zeros((height, width), bool)
        here[y, x] = True
        step = int(steps(np.array(top), 1.0, STEPS))
        said = ", ".join(f"{unit} {share:.0%}" for unit, share in shares.items())
        title = f"core ({x}, {y}): {said}; {core['alone']:,} cycles per frame without stalls"
        cells.append(Shape(squares(f"c{step}", here), title))
    period = _period(run)
    most = max((one["flits"] for one in run["links"]), default=0.0) / period
    links = []
    for one in run["links"]:
        x, y = one["at"]
        here = np.zeros((4, height, width), bool)
        here[SIDES.index(one["to"]), y, x] = True
        load = one["flits"] / period
        step = int(steps(np.array(load), most, LINK_STEPS))
        title = f"({x}, {y}) to the {one['to']}: {one['flits']:,.0f} flits per frame, {load:.0%}"
        links.append(Shape(strokes(f"l{step}", here), title))
    ramps = [
        Ramp("cells", "c", STEPS, "Utilisation of a core's busiest unit",
             [Cell(share, f"{share:.0%}") for share in (0, 0.5, 1)]),
        Ramp("links", "l", LINK_STEPS, "Link load, flits per cycle of the initiation interval",
             [Cell(share * most, f"{share * most:.0%}") for share in (0, 0.5, 1)]),
    ]  # fmt: skip
    idle = [squares("empty", empty & ~off), crosses(off)]
    return ChipMap(
        width, height, PITCH * width, PITCH * height, 96 * width, ramps, links, cells, idle
    )


def _period(run: dict[str, Any]) -> float:
    """Return the initiation interval in cycles; the latency for a single frame."""
    return float(run["period"] or max(1, run["latency"]))


def _cores(run: dict[str, Any]) -> Table:
    cycles = max(1, run["cycles"])
    units = list(run["cores"][0]["busy"])
    rows = []
    for core in run["cores"]:
        wait = longest_wait(core)
        shares = (core["busy"][unit] / cycles for unit in units)
        rows.append(
            (
                "{}, {}".format(*core["core"]),
                Cell(core["alone"]),
                *(Cell(share, percent(share), share) for share in shares),
                Cell("\N{EN DASH}" if wait is None else f"{wait[1]}, {percent(wait[0] / cycles)}"),
            )
        )
    return table("Cores", ("Core x, y", "Cycles without stalls", *units, "Longest stall"), rows)


def _links(run: dict[str, Any]) -> Table:
    period = _period(run)
    busiest = sorted(run["links"], key=lambda one: -one["flits"])[:BUSIEST]
    rows = []
    for one in busiest:
        share = one["flits"] / period
        name = "{}, {} {}".format(*one["at"], one["to"])
        rows.append((name, Cell(one["flits"]), Cell(share, percent(share), share)))
    return table("Busiest links", ("Leaves x, y", "Flits per frame", "Share of interval"), rows)


def _picture(timeline: dict[str, Any]) -> RunPicture:
    cycles = max(1, timeline["cycles"])
    across = (WIDTH - LEFT - 8) / cycles
    rows, y = [], TOP
    for core in timeline["cores"]:
        paths = ["", ""]
        for unit, frames in enumerate(core["units"].values()):
            for frame, bars in enumerate(frames):
                paths[frame % 2] += "".join(
                    f"M{LEFT + start * across:.1f} {y + ROW * unit}"
                    f"h{max(0.3, (end - start) * across):.1f}v{ROW - 1}"
                    f"H{LEFT + start * across:.1f}z"
                    for start, end in bars
                )
        height = ROW * len(core["units"])
        rows.append(CoreRows("({}, {})".format(*core["core"]), y, height, (paths[0], paths[1])))
        y += height + GAP
    done: list[tuple[float, str]] = []
    last = 0.0
    for number, at in enumerate(timeline["completed"]):
        x = LEFT + min(at, cycles) * across
        done.append((x, f"frame {number} done" if x - last >= LABEL else ""))
        last = x if x - last >= LABEL else last
    ticks = [
        (LEFT + share * cycles * across, f"{round(share * cycles):,}")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return RunPicture(WIDTH, y + AXIS, rows, done, ticks)
