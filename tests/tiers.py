"""Which cases of a test a commit runs: all of most tests, a sample of those marked `sample`.

`@pytest.mark.sample(6)` on a test with 24 cases splits these into four groups of six. A commit runs
one group, the next commit the next one, and the thorough tier runs all of them.
"""

from __future__ import annotations

import subprocess
import zlib
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest


def commits() -> int:
    """Return the number of commits up to the present one; 0 outside of a repository."""
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


def left_out(items: Sequence[pytest.Item], turn: int) -> set[pytest.Item]:
    """Return the cases that a commit does not run.

    items : all cases, marked or not
    turn : number of the commit
    """
    functions: defaultdict[Hashable, list[pytest.Item]] = defaultdict(list)
    sizes: dict[Hashable, int] = {}
    for item in items:
        marker = item.get_closest_marker("sample")
        if marker is not None:
            function = (item.path, item.nodeid.partition("[")[0])
            functions[function].append(item)
            (sizes[function],) = marker.args
    return {
        case
        for function, cases in functions.items()
        for place, case in enumerate(_shuffled(cases))
        if not in_turn(place, len(cases), sizes[function], turn)
    }


def in_turn(place: int, count: int, size: int, turn: int) -> bool:
    """Return whether case `place` of `count` is in the group of a commit.

    size : cases of a group, at most
    """
    groups = -(-count // size)
    return place % groups == turn % groups


def _shuffled(cases: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Order cases by a hash of their names, so that a group has no one parameter in common."""
    return sorted(cases, key=lambda case: (zlib.crc32(case.nodeid.encode()), case.nodeid))
