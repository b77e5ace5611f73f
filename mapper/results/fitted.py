"""Tables that fit the terminal: text wraps between words, and no number is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

WHOLE = 14
"""Characters up to which a cell of several words, such as "1.5 MiB", is not broken either."""
NAMES = 24
"""Width down to which long words of the first column are broken, in characters."""


class Head(NamedTuple):
    """Heading of a column; left : whether its cells are text, aligned on the left"""

    text: str
    left: bool = False


class FittedTable(Table):
    """Table that continues below, with its first column repeated, where it is too wide.

    Without headings it is a table of names and values; a value that is too long for its column is
    printed on a separate line, below the table.
    """

    def __init__(self, title: str, heads: Sequence[Head], rows: Sequence[Sequence[str]]) -> None:
        super().__init__(title=title)
        self.heads, self.cells = list(heads), [list(row) for row in rows]
        self.show_header = any(head.text for head in heads)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        rows, long = self.cells, []
        if not self.show_header and rows:
            names = min(NAMES, max(len(name) for name, _ in rows))
            room = options.max_width - overhead(2) - names
            long = [row for row in rows if longest([row[1]]) > room]
            rows = [row for row in rows if longest([row[1]]) <= room]
        yield Text(str(self.title), "table.title")
        for columns in self._parts(rows, options.max_width):
            yield self._part(columns, rows, options.max_width)
        for name, value in long:
            yield Text(f"  {name}:\n  {value}\n", overflow="ignore", no_wrap=True)

    def _least(self, rows: list[list[str]], at: int) -> int:
        """Return the least width of a column."""
        words = max(map(len, self.heads[at].text.split()), default=1)
        least = max(words, longest([row[at] for row in rows]))
        return least if at else min(least, NAMES)

    def _parts(self, rows: list[list[str]], width: int) -> list[list[int]]:
        """Return the columns of each part of the table; every part has the first column."""
        least = [self._least(rows, at) for at in range(len(self.heads))]
        found = [[0]]
        for at in range(1, len(self.heads)):
            here = [*found[-1], at]
            if len(here) > 2 and sum(least[one] for one in here) + overhead(len(here)) > width:
                found.append([0, at])
            else:
                found[-1] = here
        return found

    def _widths(self, columns: list[int], rows: list[list[str]], width: int) -> list[int]:
        """Return the width of each column of a part: up to its longest cell, if there is room."""
        cells = [[self.heads[at].text, *(row[at] for row in rows)] for at in columns]
        wanted = [max(len(line) for cell in one for line in cell.split("\n")) for one in cells]
        found = [self._least(rows, at) for at in columns]
        spare = width - sum(found) - overhead(len(columns))
        for at, want in enumerate(wanted):
            more = max(0, min(want - found[at], spare))
            found[at] += more
            spare -= more
        return found

    def _part(self, columns: list[int], rows: list[list[str]], width: int) -> Table:
        """Return a table of some columns, with fixed widths."""
        part = Table(box=box.SIMPLE, show_header=self.show_header)
        for at, size in zip(columns, self._widths(columns, rows, width), strict=True):
            justify = "left" if self.heads[at].left else "right"
            part.add_column(Text(self.heads[at].text), justify=justify, width=size, overflow="fold")  # type: ignore[arg-type]
        for row in rows:
            part.add_row(*(Text(row[at]) for at in columns))
        return part


def overhead(columns: int) -> int:
    """Return the characters of a row between and around the cells, for `box.SIMPLE`."""
    return 3 * columns + 1


def longest(cells: Sequence[str]) -> int:
    """Return the length of the longest piece that may not be broken: a word, or a short cell."""
    lines = [line for cell in cells for line in cell.split("\n")]
    whole = [len(line) for line in lines if len(line) <= WHOLE]
    words = [len(word) for line in lines if len(line) > WHOLE for word in line.split()]
    return max([*whole, *words], default=1)
