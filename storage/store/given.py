"""Input synapses: validated, counted, and without self-loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.quantise import UnitFinder
from storage.sorting.sorter import ConnectionSorter

Ids = NDArray[np.integer]
Numbers = NDArray[np.integer] | NDArray[np.floating]
GivenEdges = tuple[Ids, Ids, Numbers]
Part = TypeVar("Part")


def check_edges(neurons: int, source: Ids, target: Ids, weight: NDArray[Any]) -> None:
    """Raise `BadInputError` for arrays of different lengths, or ids outside 0 .. neurons-1."""
    if not source.shape == target.shape == weight.shape:
        counts = f"{source.size} sources, {target.size} targets and {weight.size} weights"
        raise BadInputError(f"{counts}: give one of each per synapse")
    for ids in (source, target) if source.size else ():
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= neurons:
            wrong = low if low < 0 else high
            raise BadInputError(f"id {wrong} is outside 0..{neurons - 1}")


class Given:
    """Counts of the synapses added so far, and the unit of their weights."""

    def __init__(self) -> None:
        self.read = self.self_loops = 0
        self.units = UnitFinder()

    def kept(
        self, source: Ids, target: Ids, weight: Numbers, loops: NDArray[np.bool_] | None = None
    ) -> GivenEdges:
        """Count edges and return them with their traffic, without self-loops.

        loops : mask of self-loops, if already known
        """
        if loops is None:
            loops = source == target
        self.units.observe(weight, "weight")
        self.read += source.size
        count = int(np.count_nonzero(loops))
        if count:
            self.self_loops += count
            keep = ~loops
            return source[keep], target[keep], weight[keep]
        return source, target, weight

    def join(self, other: Given) -> None:
        """Add the counts of another object."""
        self.read += other.read
        self.self_loops += other.self_loops
        self.units.join(other.units)


def add_given(
    sorter: ConnectionSorter,
    parts: Iterable[Part],
    make: Callable[[Part], GivenEdges],
    undirected: bool,
) -> Iterator[Given]:
    """Pass the results of `make` for each part to a sorter, validated, without self-loops.

    Yields the counts of each part, in order; see `NetworkWriter.add_made`.
    """

    def made(part: Part) -> tuple[GivenEdges, Given]:
        edges, given = make(part), Given()
        check_edges(sorter.vertices, *edges)
        return given.kept(*edges), given

    return sorter.add_made(parts, made, undirected)
