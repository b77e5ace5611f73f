"""A sheet of cortex on a torus: mostly local synapses, and some long-range ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.generate.base import (
    Attributes,
    Edges,
    Part,
    require,
    require_number,
    require_size,
)
from storage.generate.draws import Draws, Stream, ranges

MEAN_WEIGHT = 3.0
DRAWN_EDGES = 1 << 15  # edges whose arrays fit in the L2 cache: 45 ns per edge instead of 65 ns
NARROW = 1 << 24  # below this reach, offsets (at most 13 deviations) and sums fit in int32


class _Streams(NamedTuple):
    """Random generators of a chunk of edges, by purpose."""

    column: np.random.Generator
    row: np.random.Generator
    far: np.random.Generator
    anywhere: np.random.Generator
    weights: np.random.Generator


@dataclass(frozen=True, slots=True)
class Cortex:
    """side * side neurons, ids row-major, each with `fanout` outgoing synapses.

    With probability `long_range` a target is uniform over all neurons, else it is at a rounded
    normal offset of standard deviation `sigma` in each axis, wrapped around the sheet. A target
    equal to its source becomes the next id. Weights are 1 + floor(Exp(mean 3)).
    """

    kind: ClassVar[str] = "cortex"
    about: ClassVar[str] = "torus sheet with local and some long-range synapses"

    side: int = field(metadata={"help": "neurons along each side of the sheet"})
    fanout: int = field(default=100, metadata={"help": "outgoing synapses per neuron"})
    sigma: float = field(default=8.0, metadata={"help": "reach of local synapses, in neurons"})
    long_range: float = field(default=0.1, metadata={"help": "fraction of long-range synapses"})

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

    def edges(self, draws: Draws) -> Iterator[Part]:
        """Yield edges ordered by source; `fanout` edges each, pairs may repeat."""
        purposes = [draws.stream(purpose) for purpose in range(len(_Streams._fields))]
        for chunk, (first, last) in enumerate(ranges(self.synapses)):
            yield partial(self._chunk, chunk, first, last, purposes)

    def _chunk(self, chunk: int, first: int, last: int, purposes: list[Stream]) -> Edges:
        """Return edges first .. last-1, from the generators of their chunk."""
        streams = _Streams(*(each.of(chunk) for each in purposes))
        pieces = [
            self._piece(first + begin, first + end, streams)
            for begin, end in ranges(last - first, DRAWN_EDGES)
        ]
        source, target, weight = (np.concatenate(each) for each in zip(*pieces, strict=True))
        return source, target, weight

    def _piece(self, first: int, last: int, streams: _Streams) -> Edges:
        """Return some edges of a chunk; consecutive calls advance the generators."""
        count = last - first
        begin, skipped = divmod(first, self.fanout)
        some = np.arange(begin, -(-last // self.fanout), dtype=self._kind)
        source = np.repeat(some, self.fanout)[skipped : skipped + count]
        y = source // self.side
        x = source - y * self.side
        x += self._offsets(streams.column, count)
        y += self._offsets(streams.row, count)
        target = self._wrapped(y) * self.side + self._wrapped(x)
        jumps = np.flatnonzero(streams.far.random(count) < self.long_range)
        target[jumps] = streams.anywhere.integers(0, self.neurons, jumps.size)
        own = np.flatnonzero(target == source)
        target[own] = (target[own] + 1) % self.neurons
        return source, target, 1 + streams.weights.exponential(MEAN_WEIGHT, count).astype(np.int32)

    @property
    def _kind(self) -> type[np.signedinteger[Any]]:
        """Integer type of coordinates: int32 if sufficient, which is several times faster."""
        return np.int32 if self.sigma < NARROW else np.int64

    def _offsets(self, stream: np.random.Generator, count: int) -> NDArray[np.signedinteger[Any]]:
        drawn = stream.normal(0, self.sigma, count)
        return np.rint(drawn, out=drawn).astype(self._kind)

    def _wrapped(self, places: NDArray[np.signedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
        """Wrap around the sheet; numpy vectorises division by a scalar, but not `%`."""
        return places - places // self.side * self.side

    def attributes(self, draws: Draws) -> Attributes:
        """Return `x` and `y`: column and row on the sheet."""
        line = np.arange(self.side, dtype=np.min_scalar_type(self.side - 1))
        return {"x": (np.tile(line, self.side), None), "y": (np.repeat(line, self.side), None)}
