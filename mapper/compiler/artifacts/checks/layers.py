"""Check of the stores of a program against its manifest: each layer stores its complete feature
maps and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from mapper.compiler.artifacts.checks.touches import Cells, Instruction
from mapper.errors import CheckFailedError


class CompleteMap(NamedTuple):
    """A feature map that must be complete at the end of a layer.

    end : first instruction after the layer
    cells : vectors of the map; joined : written by several layers, a part by each
    """

    name: str
    end: int
    cells: Cells
    joined: bool = False


class Layers:
    """Tracks the stores of a program; size : vectors of the feature memory"""

    def __init__(self, stored: Iterable[CompleteMap], size: int, where: str) -> None:
        self.where = where
        self.ends: dict[int, list[CompleteMap]] = {}
        for one in stored:
            self.ends.setdefault(one.end, []).append(one)
        self._written = np.full(size, -1, np.int64)  # instruction of the layer that wrote it

    def step(self, one: Instruction) -> None:
        """Record the stores of an instruction, and check them if it is the last one of a layer.

        Raises `CheckFailedError` that names the feature map or the instruction.
        """
        if not self.ends:
            return
        for memory, cells in one.writes:
            if memory == "FM":
                self._written[cells] = one.number
        ended = self.ends.get(one.number + 1)
        if ended is None:
            return
        allowed = np.zeros(self._written.size, bool)
        for stored in ended:
            allowed[stored.cells] = True
            left = stored.cells[self._written[stored.cells] < 0]
            if left.size and not stored.joined:
                raise CheckFailedError(
                    f"{self.where}: {left.size} vectors of {stored.name} are not stored by the end "
                    f"of its layer, instruction {one.number}; the first one is FM[{left[0]}]"
                )
        other = np.flatnonzero((self._written >= 0) & ~allowed)
        if other.size:
            raise CheckFailedError(
                f"{self.where}: instruction {self._written[other[0]]}: stores to FM[{other[0]}], "
                "which is outside the feature maps of its layer"
            )
        self._written[:] = -1


def joined(name: str, owners: dict[str, str | None], cells: dict[str, Cells]) -> bool:
    """Return whether a map contains others of its region that layers store separately."""
    region = owners[name] or name
    mine = cells[name]
    return any(
        other != name
        and (owners[other] or other) == region
        and cells[other].size < mine.size
        and bool(np.isin(cells[other], mine).all())
        for other in cells
    )


def stored_maps(
    names: Sequence[tuple[str, int]], owners: dict[str, str | None], cells: dict[str, Cells]
) -> list[CompleteMap]:
    """Return the feature maps that layers store.

    names : feature maps and the ends of their layers, in any order
    owners : owner of the region of each map; cells : vectors of the maps of layers
    """
    return [CompleteMap(name, end, cells[name], joined(name, owners, cells)) for name, end in names]
