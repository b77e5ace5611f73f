"""Neurons that files call by names: numbered in order of appearance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


class NameTable:
    """Gives every name a number, 0, 1, 2 ... as they appear. The names are in memory."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a name, which is new if the name is."""
        return self._numbers.setdefault(name, len(self._numbers))

    def pairs(self, source: Sequence[str], target: Sequence[str]) -> tuple[Int64, Int64]:
        """Numbers of the ends of edges; the source of an edge appears before its target."""
        ends = list(chain.from_iterable(zip(source, target, strict=True)))
        self._learn(dict.fromkeys(ends))
        both = np.fromiter(map(self._numbers.__getitem__, ends), np.int64, len(ends))
        return both[::2], both[1::2]

    def of_each(self, names: Sequence[str]) -> Int64:
        """Their numbers, shape (names,)."""
        self._learn(dict.fromkeys(names))
        return np.fromiter(map(self._numbers.__getitem__, names), np.int64, len(names))

    def of_whole(self, values: Int64) -> Int64:
        """Numbers of names that are whole numbers, of which few are different."""
        different, place = np.unique(values, return_inverse=True)
        return self.of_each(list(map(str, different.tolist())))[place]

    def _learn(self, names: Iterable[str]) -> None:
        for name in names:
            self._numbers.setdefault(name, len(self._numbers))

    def names(self) -> list[str]:
        """All names in the order of their numbers."""
        return list(self._numbers)
