"""Table of where the nodes of a model run (`mapper compile --explain`)."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from mapper.compiler.explain import NodeRow

SHOWN = 22
"""Maximum length of a node name in the table, characters."""
REASON = 60
"""Maximum width of the reasons, characters: longer lines are hard to read."""


def explain_tables(rows: list[NodeRow], title: str) -> list[Table]:
    """Return a table with a row per node.

    Consecutive nodes with equal entries, such as constants, share a row.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    text = Text(title, "table.title")
    table = Table(title=text, box=box.SIMPLE, title_justify="left", padding=(0, 1, 0, 0))
    for head, width in (("node", SHOWN), ("operator", 13), ("where", 8), ("why", REASON)):
        table.add_column(head, max_width=width, overflow="fold")
    for key, some in groupby(rows, lambda row: (row.kind, row.where, row.why, row.by)):
        group = list(some)
        kind, where, why, by = key
        name = _short(group[0].node) if len(group) == 1 else f"{len(group)} nodes"
        if where == "folded" and by is not None:
            why = f"into {_short(by)}: {why}"
        if group[0].remedy and group[0].remedy not in why:
            why = f"{why}; {group[0].remedy}"
        table.add_row(*map(Text, (name, kind, where, why)))
    counts = Counter(row.where for row in rows)
    functions = len({row.function for row in rows if row.function})
    named = "1 function" if functions == 1 else f"{functions} functions"
    table.caption = Text(
        f"{counts['core']} on cores in {named}, {counts['folded']} folded into them, "
        f"{counts['host']} on the host, {counts['vanished']} removed"
    )
    return [table]


def _short(name: str) -> str:
    return name if len(name) <= SHOWN else f"...{name[3 - SHOWN :]}"
