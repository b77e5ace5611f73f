"""Small memories that programs with many layers reload while they run (LOAD TABLE).

Contents that do not fit are stored after the feature maps and loaded just before the instruction
that needs them, replacing the oldest words. Nothing is kept from the previous frame.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from mapper.compiler.program.inputs import Span
from mapper.errors import DoesNotFitError

LARGE = 8
"""Words larger than this fraction of a memory (1 / LARGE) start at 0 to avoid gaps."""
Load = Callable[[str, int, int, int], None]
"""Adds a load: memory name, first word there, first source vector, number of vectors."""


def replaced(lying: dict[Hashable, Span], key: Hashable, place: Span) -> dict[Hashable, Span]:
    """Return the words in a memory after others are loaded: all that these do not overwrite."""
    return {name: one for name, one in lying.items() if one.meet(place).size <= 0} | {key: place}


class ReloadArea:
    """Data stored after the feature maps, starting at a vector; padded to whole vectors."""

    def __init__(self, first: int, columns: int) -> None:
        self.first, self.columns = first, columns
        self.data = bytearray()
        self._known: dict[Hashable, Span] = {}

    @property
    def stop(self) -> int:
        return self.first + len(self.data) // self.columns

    def add(self, key: Hashable, data: bytes) -> Span:
        """Store bytes, without duplicates, and return their vectors."""
        if key not in self._known:
            vectors = -(-len(data) // self.columns)
            self._known[key] = Span(self.stop, self.stop + vectors)
            self.data += data.ljust(vectors * self.columns, b"\0")
        return self._known[key]


class Reloaded:
    """A small memory that is reloaded while the program runs.

    name, most : its name and number of words; word : bytes per word
    """

    def __init__(self, name: str, most: int, word: int, area: ReloadArea, load: Load) -> None:
        self.name, self.most, self._word = name, most, word
        self._area, self._load = area, load
        self._lying: dict[Hashable, Span] = {}
        self._next = 0

    def use(self, key: Hashable, data: bytes, held: Iterable[Span], label: str) -> Span:
        """Return the address of words; load them unless they are in memory.

        held : words that must not be overwritten
        Raises `DoesNotFitError` that names the layer.
        """
        if key in self._lying:
            return self._lying[key]
        source = self._area.add((self.name, key), data)
        size = -(-source.size * self._area.columns // self._word)
        place = Span(0, size).moved(self._room(size, list(held), label))
        self._lying = replaced(self._lying, key, place)
        self._next = place.stop
        self._load(self.name, place.first, source.first, source.size)
        return place

    def _room(self, size: int, held: list[Span], label: str) -> int:
        """Return a free address after the most recent words, wrapping around, that does not overlap
        `held`. Large words at the start of a layer begin at 0 to keep the rest contiguous."""
        at, wrapped = self._next if held or size <= self.most // LARGE else 0, False
        while True:
            if at + size > self.most:
                if wrapped:
                    need = size + sum(one.size for one in held)
                    raise DoesNotFitError(
                        f"{label}: {self.name} memory: {need:,} words needed at once, a core has "
                        f"{self.most:,} ({max(1, need - self.most):,} short); use a larger core"
                    )
                at, wrapped = 0, True
                continue
            over = [one for one in held if one.meet(Span(at, at + size)).size > 0]
            if not over:
                return at
            at = max(one.stop for one in over)
