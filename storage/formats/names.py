"""Numbering of named neurons in order of appearance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import MemoryShortError

Int64 = NDArray[np.int64]
NAME_BYTES = 220  # bytes per name besides its letters: table, label and output
LETTER_BYTES = 4  # bytes per letter: name, network metadata, its compressed form


SORT_SHARE = 8  # 1/SORT_SHARE of the memory is left for sorting edges


class NameTable:
    """Numbers names 0, 1, 2 ... in order of appearance. The names are held in memory.

    source : the file, for messages; memory : bytes for the import, mostly usable for names
    """

    def __init__(self, source: Path, memory: int) -> None:
        self._source, self._whole = source, memory
        self._memory = memory - memory // SORT_SHARE
        self._numbers: dict[str, int] = {}
        self._letters = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    @property
    def bytes(self) -> int:
        """Return an upper bound of the memory used by the names."""
        return NAME_BYTES * len(self._numbers) + LETTER_BYTES * self._letters

    @property
    def left(self) -> int:
        """Return the memory of the import left for sorting edges."""
        return min(self._whole // 2, max(self._whole - self.bytes, self._whole // SORT_SHARE))

    def number(self, name: str) -> int:
        """Return the number of a name; a new name gets the next number."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._numbers)
            self._letters += len(name)
        return found

    def pairs(self, source: Sequence[str], target: Sequence[str]) -> tuple[Int64, Int64]:
        """Return numbers of the ends of edges; new sources are numbered before their targets."""
        ends = list(chain.from_iterable(zip(source, target, strict=True)))
        self._learn(dict.fromkeys(ends))
        both = np.fromiter(map(self._numbers.__getitem__, ends), np.int64, len(ends))
        return both[::2], both[1::2]

    def of_each(self, names: Sequence[str]) -> Int64:
        """Return the numbers of names, shape (names,)."""
        self._learn(dict.fromkeys(names))
        return np.fromiter(map(self._numbers.__getitem__, names), np.int64, len(names))

    def of_whole(self, values: Int64) -> Int64:
        """Return the numbers of names that are integers with few distinct values."""
        different, place = np.unique(values, return_inverse=True)
        return self.of_each(list(map(str, different.tolist())))[place]

    def _learn(self, names: Iterable[str]) -> None:
        for name in names:
            self.number(name)

    def require_memory(self, read: float) -> None:
        """Raise `MemoryShortError` if the names exceed their memory.

        read : fraction of the file read so far, used to extrapolate the total
        """
        if self.bytes <= self._memory:
            return
        whole = self.bytes / max(read, 1e-6)
        raise MemoryShortError(
            f"{self._source}: {len(self):,} different names in {read:.0%} of the file need more "
            f"than the {self._memory >> 20:,} MiB that --memory leaves for them; give about "
            f"{_rounded(2 * whole * SORT_SHARE / (SORT_SHARE - 1)):,} MiB"
        )

    def names(self) -> list[str]:
        """Return all names in the order of their numbers."""
        return list(self._numbers)


def shown_name(name: str) -> str:
    """Return a name for a message, truncated if long."""
    return repr(name if len(name) <= 40 else name[:40] + "...")


def _rounded(size: float) -> int:
    """Return mebibytes rounded up to a quarter of their power of two, as an estimate."""
    size = int(size / (1 << 20)) + 1
    step = max(64, 1 << max(0, size.bit_length() - 3))
    return -(-size // step) * step
