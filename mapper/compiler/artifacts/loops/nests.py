"""Sequences of addresses as nested loops with constant strides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class Loop(NamedTuple):
    """A loop. strides : address increments per iteration, one per address column"""

    turns: int
    strides: tuple[int, ...]


def nests_of(rows: Rows) -> Iterator[tuple[int, list[Loop]]]:
    """Yield few loop nests that visit the rows in order: first row of each, and its loops, the
    outermost first.

    rows : shape (count, addresses)
    A nest grows from the inside: the longest run of equal steps, then repetitions of the nest at a
    constant distance.
    """
    at = 0
    while at < len(rows):
        rest, size = rows[at:], 1
        loops: list[Loop] = []
        while size < len(rest):
            count, step = _copies(rest, size)
            if count < 2:
                break
            loops.insert(0, Loop(count, tuple(int(one) for one in step)))
            size *= count
        yield at, loops
        at += size


def _copies(rows: Rows, size: int) -> tuple[int, Rows]:
    """Return the number of repetitions of the first rows, and the step between them."""
    count = len(rows) // size
    parts = rows[: count * size].reshape(count, size, -1)
    moved = parts - parts[0]
    if count < 2:
        return 1, moved[0, 0]
    step = moved[1, 0]
    wanted = np.arange(count)[:, None, None] * step
    same = (moved == wanted).all(axis=(1, 2))
    return (count if same.all() else int(np.argmin(same))), step


def offsets_of(loops: Iterable[Loop], addresses: int) -> Rows:
    """Return the offsets of a nest by iteration, shape (iterations, addresses)."""
    found = np.zeros((1, addresses), np.int64)
    for turns, strides in loops:
        steps = np.arange(turns)[:, None] * np.array(strides, np.int64)
        found = (found[:, None] + steps).reshape(-1, addresses)
    return found
