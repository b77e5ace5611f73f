"""Placer interface: from a problem, and possibly a start placement, to placements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mapper.graph.csr import Subgraph
from mapper.placement.classes import Classes, find_classes
from mapper.placement.clock import Clock
from mapper.placement.component_packing import ComponentArea, split_areas
from mapper.placement.force import hop_cost
from mapper.placement.region import Region
from mapper.placement.traffic import Traffic, split_traffic
from storage.arrays import Int32


class Placed(NamedTuple):
    """A placement and its cost; columns and rows within the region, each shape (groups,)."""

    cost: int
    x: Int32
    y: Int32


@dataclass(frozen=True)
class Problem:
    """The groups to place, the region, and the resources.

    memory : bytes that may be used in addition to the groups, approximately
    """

    groups: Subgraph
    region: Region
    threads: int
    memory: int
    clock: Clock

    @cached_property
    def traffic(self) -> Traffic:
        return split_traffic(self.groups)

    @cached_property
    def areas(self) -> list[ComponentArea]:
        return split_areas(self.traffic, self.region)

    @cached_property
    def classes(self) -> Classes | None:
        return find_classes(self.groups)

    @property
    def size(self) -> int:
        return self.groups.members.size

    def placed(self, x: Int32, y: Int32) -> Placed:
        return Placed(hop_cost(self.groups, x, y, self.region.axes), x, y)


class Placer(ABC):
    """A placement method. Its settings are the fields of a frozen dataclass.

    An implementation yields any number of placements, each with a different usable core of the
    region for every group; without a time limit they depend on its arguments only, not on the
    number of threads. It never changes its arguments. When the clock is over it stops soon: it
    returns, or raises `TimeUpError`.
    """

    @abstractmethod
    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        """Yield placements, from scratch or, for annealing, from `start`."""
