"""A sheet of cortex: mostly local synapses on a torus, some of them to anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from storage.generate.base import (
    Attributes,
    Edges,
    ranges,
    require,
    require_number,
    require_size,
    stream,
)

MEAN_WEIGHT = 3.0


@dataclass(frozen=True, slots=True)
class Cortex:
    """side * side neurons, ids row-major, each with `fanout` outgoing synapses.

    With probability `long_range` a target is uniform over all neurons, else it is at a normal
    offset, rounded, of standard deviation `sigma` in each axis, wrapped around the sheet. A
    target that is its own source becomes the next id. Weights are 1 + floor(Exp(mean 3)).
    """

    kind: ClassVar[str] = "cortex"
    about: ClassVar[str] = "a torus sheet with local and some long-range synapses"

    side: int = field(metadata={"help": "neurons along each side of the sheet"})
    fanout: int = field(default=100, metadata={"help": "outgoing synapses of a neuron"})
    sigma: float = field(default=8.0, metadata={"help": "reach of local synapses, in neurons"})
    long_range: float = field(default=0.1, metadata={"help": "share of synapses to anywhere"})

    def __post_init__(self) -> None:
        require(self.side >= 2, self.kind, "side", self.side, "2 or more")
        require(self.fanout >= 1, self.kind, "fanout", self.fanout, "1 or more")
        require_number(self.kind, "sigma", self.sigma, 0.0, math.inf)
        require_number(self.kind, "long_range", self.long_range, 0.0, 1.0)
        require_size(self.kind, self.neurons)

    @property
    def neurons(self) -> int:
        return self.side * self.side

    @property
    def synapses(self) -> int:
        return self.neurons * self.fanout

    def edges(self, rng: np.random.Generator) -> Iterator[Edges]:
        """In order of the source; `fanout` edges each, pairs may repeat."""
        column, row, far, anywhere, weights = (stream(rng, purpose) for purpose in range(5))
        for first, last in ranges(self.synapses):
            count = last - first
            source = np.arange(first, last) // self.fanout
            x = source % self.side + np.rint(column.normal(0, self.sigma, count)).astype(np.int64)
            y = source // self.side + np.rint(row.normal(0, self.sigma, count)).astype(np.int64)
            target = y % self.side * self.side + x % self.side
            jumps = np.flatnonzero(far.random(count) < self.long_range)
            target[jumps] = anywhere.integers(0, self.neurons, jumps.size)
            own = np.flatnonzero(target == source)
            target[own] = (target[own] + 1) % self.neurons
            yield source, target, 1 + weights.exponential(MEAN_WEIGHT, count).astype(np.int64)

    def attributes(self, rng: np.random.Generator) -> Attributes:
        """`x` and `y`: column and row on the sheet."""
        ids = np.arange(self.neurons)
        return {"x": (ids % self.side, None), "y": (ids // self.side, None)}
