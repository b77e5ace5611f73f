"""Results as HTML for notebooks: key figures, and the chip as a picture.

Front ends of notebooks drop style sheets, so each shape has its colour, of the light theme.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from chipsim.chip.model import Chip
from mapper.reporting.chipmap import OTHERS, PITCH, Path, chip_map, crosses, squares
from mapper.reporting.colours import STEPS, marks, ramp
from mapper.reporting.page import link_width
from mapper.reporting.view import View, scales, steps
from mapper.results.tables import number
from storage.printable import plain

SHOWN_ROWS = 60
"""Rows of a table, at most."""
WIDEST = 480  # pixels
CORE = 24  # pixels of a core, at most
MARGIN = 1.5
"""Of the cells of a map in its units, as in the page."""


def table_html(facts: Iterable[tuple[str, str]]) -> str:
    """Return names and texts as a table."""
    rows = "".join(
        f'<tr><th style="text-align:left">{html.escape(plain(name))}</th>'
        f'<td style="text-align:right">{html.escape(plain(value))}</td></tr>'
        for name, value in facts
    )
    return f"<table><tbody>{rows}</tbody></table>"


def rows_html(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of equal names as a table, the first ones of a long one."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(plain(name))}</th>" for name in names)
    body = [
        "".join(f"<td>{html.escape(plain(_cell(row.get(name))))}</td>" for name in names)
        for row in rows[:SHOWN_ROWS]
    ]
    more = f"<p>and {len(rows) - SHOWN_ROWS:,} more rows</p>" if len(rows) > SHOWN_ROWS else ""
    lines = "".join(f"<tr>{cells}</tr>" for cells in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


def _cell(value: Any) -> str:
    return "" if value is None else number(value)


def map_html(view: View) -> str:
    """Return the map of a mapping: the fill of each core, and the load of each link."""
    shown = chip_map(view, scales([view]), 0, view.sent, view.first)
    label = f"{shown.layer} of every core of {view.chip.name}"
    width = _width(shown.across[1] - shown.across[0] + 1)
    if shown.picture is not None:
        return f'<img src="{shown.picture.light}" alt="{html.escape(label)}" width="{width}">'
    paths = [*shown.links, *shown.cells, *shown.idle]
    colours = 0 if view.populations is None else view.populations.colours
    return _svg(shown.box, width, label, [(each, "") for each in paths], colours)


def cores_html(chip: Chip, shares: Mapping[tuple[int, int], float], what: str) -> str:
    """Return the map of a compiled model: a share 0 .. 1 of each core with a program.

    shares : by column and row; what : they are shares of this
    """
    level = np.full((chip.height, chip.width), -1)
    for (x, y), share in shares.items():
        level[y, x] = int(steps(np.array(share), 1.0, STEPS))
    off = np.zeros_like(level, bool)
    off.flat[list(chip.unavailable)] = True
    drawn = [
        (squares(f"c{step}", level == step), f"{step / (STEPS - 1):.0%} of {what}")
        for step in range(STEPS)
    ]
    idle = [(squares("empty", (level < 0) & ~off), ""), (crosses(off), "")]
    size = 0, 0, PITCH * chip.width, PITCH * chip.height
    return _svg(size, _width(chip.width), f"{what} of every core of {chip.name}", drawn + idle)


def _width(cores: int) -> int:
    return min(WIDEST, CORE * cores)


def _svg(
    box: tuple[int, int, int, int],
    width: int,
    label: str,
    shapes: Sequence[tuple[Path, str]],
    populations: int = 0,
) -> str:
    """Return a picture. shapes : with their tooltips; populations : number of their colours"""
    colours = marks(populations, "light")
    drawn = "".join(
        f'<path d="{path.path}" {_style(path.name, colours)}>'
        f"{f'<title>{html.escape(title)}</title>' if title else ''}</path>"
        for path, title in shapes
        if path.path
    )
    return (
        f'<svg viewBox="{" ".join(map(str, box))}" width="{width}" role="img" '
        f'aria-label="{html.escape(label)}"><g transform="translate({MARGIN} {MARGIN})">{drawn}'
        "</g></svg>"
    )


def _style(name: str, populations: Sequence[str]) -> str:
    """Return the attributes of a shape by its name: c3, l7, p2, px, empty or off.

    populations : their colours
    """
    family, step = name[0], name[1:]
    if family == "p":
        return f'fill="{populations[int(step)] if step.isdecimal() else OTHERS["light"]}"'
    if not step.isdecimal():
        return 'fill="none" stroke="#8b8f98" stroke-width="0.5"'
    colour = ramp(family, "light")[int(step)]
    if family == "c":
        return f'fill="{colour}"'
    return f'fill="none" stroke="{colour}" stroke-width="{link_width(int(step)):.2f}"'
