"""A row of the acceptance list."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """tests : module::function below tests/"""

    title: str
    tests: tuple[str, ...] = ()
