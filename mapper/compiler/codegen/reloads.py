"""Small memories that a program of many layers fills again while it runs (LOAD TABLE).

What does not fit lies behind the maps, and is loaded just before the instruction that needs it, in
place of what was used longest ago. Nothing of such a memory is left from the frame before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.errors import DoesNotFitError

LARGE = 8
"""Part of a memory above which words are placed so that they leave no gaps."""
Load = Callable[[str, int, int, int], None]
"""Adds an instruction: memory, first word there, first vector of the maps, number of vectors."""


class Span(NamedTuple):
    """Words of a small memory."""

    first: int
    size: int

    @property
    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + self.size)


class Area:
    """What lies behind the maps, from a vector on; bytes are filled up to whole vectors."""

    def __init__(self, first: int, columns: int) -> None:
        self.first, self.columns = first, columns
        self.data = bytearray()
        self._known: dict[Hashable, Span] = {}

    @property
    def stop(self) -> int:
        return self.first + len(self.data) // self.columns

    def add(self, key: Hashable, data: bytes) -> Span:
        """The vectors of some bytes, which are kept once."""
        if key not in self._known:
            vectors = -(-len(data) // self.columns)
            self._known[key] = Span(self.stop, vectors)
            self.data += data.ljust(vectors * self.columns, b"\0")
        return self._known[key]


class Reloaded:
    """A memory of some words of some bytes each.

    name, most : of the memory and its words
    """

    def __init__(self, name: str, most: int, word: int, area: Area, load: Load) -> None:
        self.name, self.most, self._word = name, most, word
        self._area, self._load = area, load
        self._lying: dict[Hashable, Span] = {}
        self._next = 0

    def use(self, key: Hashable, data: bytes, held: Iterable[Span], label: str) -> Span:
        """Where words are, which are loaded unless they are there.

        held : what must stay where it is
        Raises `DoesNotFitError` that names the layer.
        """
        if key in self._lying:
            return self._lying[key]
        source = self._area.add((self.name, key), data)
        size = -(-source.size * self._area.columns // self._word)
        place = Span(self._room(size, list(held), label), size)
        self._lying = {
            name: one
            for name, one in self._lying.items()
            if one.first >= place.first + size or one.first + one.size <= place.first
        } | {key: place}
        self._next = place.first + size
        self._load(self.name, place.first, source.first, source.size)
        return place

    def _room(self, size: int, held: list[Span], label: str) -> int:
        """Behind what was loaded last, or from the begin on; not over what is held. Large words
        that are the first of a layer begin there, so that what is left is in one piece."""
        at, wrapped = self._next if held or size <= self.most // LARGE else 0, False
        while True:
            if at + size > self.most:
                if wrapped:
                    need = size + sum(one.size for one in held)
                    raise DoesNotFitError(
                        f"{label}: {self.name} memory: {need:,} words needed at once, a core has "
                        f"{self.most:,} ({max(1, need - self.most):,} short); take a core with more"
                    )
                at, wrapped = 0, True
                continue
            over = [one for one in held if one.first < at + size and at < one.first + one.size]
            if not over:
                return at
            at = max(one.first + one.size for one in over)
