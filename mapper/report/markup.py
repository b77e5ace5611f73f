"""Pieces of HTML. Text is escaped here and nowhere else: what is `Html` is safe, a str is not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NewType

Html = NewType("Html", str)
"""Markup that may go into a page as it is."""
NOTHING = Html("&ndash;")
"""What stands where a number is missing."""


def text(value: object) -> Html:
    """Anything as text, in an element or in a quoted attribute."""
    return Html(escape(str(value), quote=True))


def number(value: float) -> str:
    """A number as people read it: whole ones in full, others with four digits or more."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"


def join(parts: Iterable[Html], between: str = "") -> Html:
    return Html(between.join(parts))


def figure(value: float | None, shown: str | None = None) -> Html:
    """A number as people read it; the exact one is kept in the markup."""
    if value is None:
        return NOTHING
    return Html(f'<data value="{text(json.dumps(value))}">{text(shown or number(value))}</data>')


def percent(value: float) -> str:
    """A share of 1 for people."""
    return "100 %" if value == 1 else f"{100 * value:.1f} %"


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], *, hidden: bool = False
) -> Html:
    """A table of numbers; the first column names the rows. Cells that are `Html` stay so.

    hidden : the caption is for screen readers only
    """
    head = "".join(
        f'<th scope="col"{_numeric(i)}>{text(name)}</th>' for i, name in enumerate(heads)
    )
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{_cell(value)}</td>" for value in rest)
        body.append(f'<tr><th scope="row">{_cell(first)}</th>{cells}</tr>')
    kind = ' class="unseen"' if hidden else ""
    return Html(
        f'<div class="scroll" tabindex="0" role="group" aria-label="{text(caption)}"><table>'
        f"<caption{kind}>{text(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _numeric(column: int) -> str:
    return ' class="n"' if column else ""


def _cell(value: Any) -> Html:
    if isinstance(value, _Safe):
        return value.html
    if isinstance(value, int | float) and not isinstance(value, bool):
        return figure(value)
    return NOTHING if value is None else text(value)


class _Safe:
    """Marks markup among the values of a table, where a plain str would be escaped."""

    def __init__(self, html: Html) -> None:
        self.html = html


def safe(html: Html) -> _Safe:
    """Markup as a cell of a table."""
    return _Safe(html)


def swatch(index: int, label: str) -> Html:
    """The colour of one of two mappings, where its name is not written beside it."""
    return Html(f'<span class="swatch s{index}" role="img" aria-label="{text(label)}"></span>')


def meter(share: float) -> Html:
    """A bar; the number stands beside it."""
    over = " over" if share > 1 else ""
    return Html(
        f'<svg class="meter{over}" viewBox="0 0 100 8" preserveAspectRatio="none" '
        'aria-hidden="true"><rect class="track" width="100" height="8" rx="2"/>'
        f'<rect class="bar" width="{100 * min(share, 1):.1f}" height="8" rx="2"/></svg>'
    )


def details(summary: str, content: Html) -> Html:
    """Content that opens when asked for."""
    return Html(f"<details><summary>{text(summary)}</summary>{content}</details>")


def section(name: str, title: str, content: Html, note: str = "") -> Html:
    """A part of the page under a heading of its own."""
    said = f'<p class="note">{text(note)}</p>' if note else ""
    return Html(
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{text(title)}</h2>{said}{content}</section>'
    )


def script_data(value: Any) -> Html:
    """JSON that can stand in a script element whatever its strings are."""
    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return Html(written)
