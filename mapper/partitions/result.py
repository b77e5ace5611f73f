"""The result of a partition in Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import as_mapper_errors
from storage.arrays import Int32, Int64

if TYPE_CHECKING:
    from mapper.settings import Settings


@dataclass(frozen=True, eq=False, repr=False)
class GraphPartition:
    """A graph divided into parts, returned by `mapper.partition`.

    Attributes
    ----------
    part : ndarray[int32], shape (vertices,), part of every vertex, 0 .. parts - 1
    cut : weight of the edges between parts, each edge counted once
    imbalance : weight of the heaviest part over the mean, minus 1
    weights : ndarray[int64], shape (parts,), weight of each part
    capacity : largest weight that a part was allowed
    settings : all settings of the method
    nodes : the name of each vertex in the input, shape (vertices,): the nodes of a networkx graph,
        the ids of a file whose ids have gaps; None if the names are 0 .. vertices - 1
    """

    part: Int32
    cut: float
    imbalance: float
    weights: Int64
    capacity: int
    settings: Settings
    nodes: Sequence[Any] | Int64 | None

    @property
    def parts(self) -> int:
        """Number of parts."""
        return self.weights.size

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a partition file as METIS does: the part of a vertex per line, in their order."""
        from mapper.partitions.part_file import write_parts

        with as_mapper_errors():
            write_parts(Path(path), self.part)

    def __repr__(self) -> str:
        return (
            f"<GraphPartition: {self.part.size:,} vertices in {self.parts:,} parts, cut "
            f"{self.cut:,}, imbalance {self.imbalance:.4f}>"
        )
