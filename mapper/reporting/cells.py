"""Tables and figures as plain data; templates/macros.html.j2 defines their appearance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A value, formatted or shown as the text `shown`; with a bar if `bar` (a share of 1) is set.

    metric : its name in report.json, kept in the markup
    """

    value: object
    shown: str | None = None
    bar: float | None = None
    metric: str | None = None


class Series(NamedTuple):
    """One of several mappings, with its colour."""

    colour: int
    label: str


class Head(NamedTuple):
    """The name of a row.

    jump : the story that it opens, as in scripts/events.js
    mark : class of the colour of a population
    """

    text: object
    code: str | None = None
    meaning: str | None = None
    series: Series | None = None
    marked: bool = False
    jump: str = ""
    mark: str = ""


class Table(NamedTuple):
    """A table; hidden : the caption is for screen readers only."""

    caption: str
    heads: Sequence[str]
    rows: list[tuple[Head, list[Cell]]]
    hidden: bool


class Fact(NamedTuple):
    """A value with words before and after it."""

    cell: Cell
    before: str = ""
    after: str = ""


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, hidden: bool = False
) -> Table:
    """Return a table of numbers; the first column names the rows. Cells may be plain values."""
    made = [
        (
            first if isinstance(first, Head) else Head(first),
            [cell if isinstance(cell, Cell) else Cell(cell) for cell in rest],
        )
        for first, *rest in rows
    ]
    return Table(caption, heads, made, hidden)


def lookup(entry: Any, name: str) -> float | None:
    """Return the number of an entry of a report at a dotted name; None for anything else."""
    for step in name.split("."):
        entry = entry.get(step) if isinstance(entry, dict) else None
    return entry if isinstance(entry, int | float) and not isinstance(entry, bool) else None


def number(value: float) -> str:
    """Format a number: whole numbers in full, others with at least four digits."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"


def counted(count: int, one: str, several: str = "") -> str:
    """Format a number with its noun; the plural is `several`, by default `one` with an s."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def percent(value: float) -> str:
    """Format a share of 1 in percent."""
    return "100 %" if value == 1 else f"{100 * value:.1f} %"
