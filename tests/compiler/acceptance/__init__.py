"""The acceptance list of the compiler: each mechanism, and tests that show it.

`rows.txt` has a line with identifier and title per mechanism, followed by its tests, as
module::function below tests/. `test_acceptance.py` checks the list against the existing tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    title: str
    tests: list[str]


def _rows() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in Path(__file__).with_name("rows.txt").read_text().splitlines():
        name, _, title = line.partition(" ")
        if name:
            found |= {} if name == "#" else {name: Row(title, [])}
        else:
            found[list(found)[-1]].tests.append(line.strip())
    return found


ROWS = _rows()
OPEN: frozenset[str] = frozenset()
"""Rows without a test: the list may only get shorter."""
