"""Networks of groups, one group per vertex: tests of placement alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from storage.generate.base import Attributes, Edges, Part, require, require_size
from storage.generate.draws import Draws, Stream, ranges

REACH = 4  # a convolutional group j feeds groups j .. j + 3 of the next layer
_WEIGHT = 0


@dataclass(frozen=True, slots=True)
class _Grouped:
    """`size` layers of `size` groups, ids by layer; weights uniform in [0, 1).

    Layer i connects to layer i + 1 for i in 0 .. size-3, so the last layer stays unconnected.
    """

    kind: ClassVar[str]

    size: int = field(metadata={"help": "number of layers, and of groups per layer"})

    def __post_init__(self) -> None:
        require(self.size >= 3, self.kind, "size", self.size, "3 or more")
        require_size(self.kind, self.neurons)

    @property
    def neurons(self) -> int:
        return self.size * self.size

    @property
    def _fanout(self) -> int:
        return self.size

    @property
    def synapses(self) -> int:
        return (self.size - 2) * self.size * self._fanout

    def edges(self, draws: Draws) -> Iterator[Part]:
        """Yield edges ordered by source, then by target."""
        weights = draws.stream(_WEIGHT)
        for chunk, (first, last) in enumerate(ranges(self.synapses)):
            yield partial(self._chunk, chunk, first, last, weights)

    def _chunk(self, chunk: int, first: int, last: int, weights: Stream) -> Edges:
        """Return the edges of slots first .. last-1 that lead to an existing group."""
        source, slot = np.divmod(np.arange(first, last), self._fanout)
        layer, group = np.divmod(source, self.size)
        into = self._first_target * group + slot
        inside = into < self.size
        target = (layer + 1) * self.size + into
        return source[inside], target[inside], weights.of(chunk).random(int(inside.sum()))

    @property
    def _first_target(self) -> int:
        return 0

    def attributes(self, draws: Draws) -> Attributes:
        """Return `layer`: the layer of the group; `group`: its index in the layer."""
        layer, group = np.divmod(np.arange(self.neurons), self.size)
        return {"layer": (layer, None), "group": (group, None)}


@dataclass(frozen=True, slots=True)
class GroupDnn(_Grouped):
    """Consecutive layers are fully connected: each group feeds all groups of the next layer."""

    kind: ClassVar[str] = "group-dnn"
    about: ClassVar[str] = "grouped network with fully connected layers"


@dataclass(frozen=True, slots=True)
class GroupCnn(_Grouped):
    """Group j feeds the existing groups among j .. j+3 of the next layer."""

    kind: ClassVar[str] = "group-cnn"
    about: ClassVar[str] = "grouped network with narrow, convolution-like layers"

    @property
    def _fanout(self) -> int:
        return REACH

    @property
    def _first_target(self) -> int:
        return 1
