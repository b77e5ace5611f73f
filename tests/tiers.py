"""Selection of test cases per commit: all cases of most tests, a sample of tests marked `sample`.

`@pytest.mark.sample(6)` on a test with 24 cases splits them into four groups of six. Each commit
runs one group, the next commit the next group, and the thorough tier runs all. A test with one case
marked `sample(0.25)` runs at every fourth commit.
"""

from __future__ import annotations

import math
import subprocess
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest


def commits() -> int:
    """Return the number of commits up to the current one; 0 outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(done.stdout)


def left_out(items: Sequence[pytest.Item], turn: int, most: float = math.inf) -> set[pytest.Item]:
    """Return the cases that a commit does not run.

    items : all cases, marked or not
    turn : number of the commit
    most : maximum number of cases per test
    """
    functions: defaultdict[Hashable, list[pytest.Item]] = defaultdict(list)
    sizes: dict[Hashable, float] = {}
    for item in items:
        marker = item.get_closest_marker("sample")
        function = (item.path, item.nodeid.partition("[")[0])
        functions[function].append(item)
        sizes[function] = min(most, *marker.args) if marker else most
    return {
        case
        for function, cases in functions.items()
        for place, case in enumerate(_shuffled(cases))
        if not in_turn(place, len(cases), sizes[function], turn + _hash(str(function)))
    }


def in_turn(place: int, count: int, size: float, turn: int) -> bool:
    """Return whether case `place` of `count` is in the group of a commit.

    size : maximum number of cases per group
    """
    groups = max(1, math.ceil(count / size))
    return place % groups == turn % groups


def _shuffled(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Order cases by a hash of their names, so that the cases of a group do not share a
    parameter.
    """
    return sorted(cases, key=lambda case: (_hash(case.nodeid), case.nodeid))


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


Some = Callable[[Iterable[Any], int], list[Any]]
"""Function that returns at most a given number of values, for loops; see the fixture `some`."""


def some_of(name: str, turn: int | None) -> Some:
    """Return a function that rotates through values; name : test; turn : None for all values."""

    def take(values: Iterable[Any], count: int) -> list[Any]:
        every = list(values)
        if turn is None:
            return every
        phase = turn + _hash(name)
        return [one for place, one in enumerate(every) if in_turn(place, len(every), count, phase)]

    return take
