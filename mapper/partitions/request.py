"""Requests for a partition, and the capacity of its parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from mapper.cache.cache import OFF, Cache
from mapper.errors import DoesNotFitError, UsageError, shown
from mapper.executors.worker_interface import Asked
from mapper.inputs.source import Effort, Source
from mapper.planning.core_limits import PartLimits
from mapper.settings import EFFORTS, Settings, preset
from storage.arrays import Int64

MOST_IMBALANCE = 1000.0
LEVEL_WORK = 1 << 30
"""Vertices times parts up to which all parts are cut from one graph in memory."""
OWN: dict[str, dict[str, Any]] = {
    "default": {"level_budget": 50_000_000},
    "strong": {"proposals": 300},
}
"""Settings that differ from the same preset of `mapper run`: levels for larger graphs; several
starts instead of long annealing."""


@dataclass(frozen=True, slots=True, eq=False)
class PartitionRequest:
    """A graph, the number of its parts, and the settings.

    imbalance : share by which the heaviest part may exceed the mean weight
    workers : processes that scan a streamed graph; None for the threads of this process
    cache : earlier imports
    """

    source: Source
    parts: int
    imbalance: float
    settings: Settings
    workers: Asked | None = None
    cache: Cache = OFF

    @property
    def effort(self) -> Effort:
        """Return the threads and memory for reading the input."""
        return Effort(self.settings.threads, self.settings.memory_bytes, self.cache)


def partition_settings(name: str, **given: Any) -> Settings:
    """Return the settings of a preset for partitions; raises `UsageError`.

    given : seed, threads, memory_bytes
    """
    if name not in EFFORTS:
        raise UsageError(
            f"preset is {shown(name)}; give {', '.join(EFFORTS[:-1])} or {EFFORTS[-1]}"
        )
    return preset(name, objective="cut", **OWN.get(name, {}), **given)


def require_parts(parts: Any, imbalance: Any) -> None:
    """Raise `UsageError` for a number of parts or an imbalance that no graph can have."""
    if not isinstance(parts, Integral) or isinstance(parts, bool) or parts < 1:
        raise UsageError(f"parts is {shown(parts)}; give a whole number of 1 or more")
    good = isinstance(imbalance, Real) and not isinstance(imbalance, bool)
    if not good or not 0 <= float(imbalance) <= MOST_IMBALANCE:  # False for NaN
        raise UsageError(
            f"imbalance is {shown(imbalance)}; give a number from 0 to {MOST_IMBALANCE:,.0f}, "
            "such as 0.03 for parts of at most 3 % above the mean"
        )


def capacity_of(weight: int, parts: int, imbalance: float) -> int:
    """Return the largest weight of a part, as METIS and KaHIP define it: exact, rounded down.

    weight : of all vertices
    """
    mean = -(-weight // parts)
    return math.floor((1 + Fraction(str(float(imbalance)))) * mean)


def part_limits(sizes: Int64, request: PartitionRequest) -> PartLimits:
    """Return the limits of the parts of a graph.

    sizes : weight of each vertex
    Raises `DoesNotFitError` if there are more parts than vertices, or a vertex exceeds a part.
    """
    parts, imbalance = int(request.parts), float(request.imbalance)
    if parts > sizes.size:
        raise DoesNotFitError(
            f"{parts:,} parts, but the graph has {sizes.size:,} vertices; give at most that many"
        )
    capacity = capacity_of(int(sizes.sum()), parts, imbalance)
    heaviest = int(sizes.argmax())
    if sizes[heaviest] > capacity:
        raise DoesNotFitError(
            f"vertex {heaviest} (from 0) weighs {sizes[heaviest]:,}, but a part holds "
            f"{capacity:,} with {parts:,} parts and imbalance {imbalance:g}; give fewer parts or "
            f"an imbalance of {_enough(int(sizes[heaviest]), int(sizes.sum()), parts):g}"
        )
    return PartLimits(capacity, parts)


def _enough(heaviest: int, weight: int, parts: int) -> float:
    """Return an imbalance that allows the heaviest vertex, rounded up."""
    mean = max(1, -(-weight // parts))
    return math.ceil(100 * (heaviest / mean - 1)) / 100


def settings_for(request: PartitionRequest, vertices: int) -> Settings:
    """Return the settings for a graph: many parts are cut in blocks, not from one graph."""
    settings = request.settings
    if vertices * request.parts > LEVEL_WORK:
        return replace(settings, level_budget=0)
    return settings
