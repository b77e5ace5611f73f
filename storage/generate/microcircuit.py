"""The cortical microcircuit of Potjans and Diesmann: one square millimetre of sensory cortex.

T. C. Potjans, M. Diesmann, "The Cell-Type Specific Cortical Microcircuit: Relating Structure and
Activity in a Full-Scale Spiking Network Model", Cerebral Cortex 24 (2014), tables 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from storage.generate.base import Attributes, Edges, Part, require, require_size
from storage.generate.draws import Draws, Stream, ranges

POPULATIONS = ("L2/3E", "L2/3I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")
NEURONS = (20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948)
RATES = (0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829)  # Hz
PROBABILITIES = (  # row = target, column = source
    (0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0),
    (0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0),
    (0.0077, 0.0059, 0.0497, 0.135, 0.0067, 0.0003, 0.0453, 0.0),
    (0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0),
    (0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0),
    (0.0548, 0.0269, 0.0257, 0.0022, 0.06, 0.3158, 0.0086, 0.0),
    (0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252),
    (0.0364, 0.001, 0.0034, 0.0005, 0.0277, 0.008, 0.0658, 0.1443),
)
_SOURCE, _TARGET = 0, 1


@dataclass(frozen=True, slots=True)
class Microcircuit:
    """Eight populations; `scale` multiplies their neurons, the probabilities are constant.

    Both ends of a synapse are uniform over their populations, so pairs may repeat. The weight of a
    synapse is the rate of its source in Hz.
    """

    kind: ClassVar[str] = "microcircuit"
    about: ClassVar[str] = "cortical microcircuit of Potjans and Diesmann (2014)"

    scale: float = field(default=1.0, metadata={"help": "factor on the number of neurons"})

    def __post_init__(self) -> None:
        require(0 < self.scale < 1e4, self.kind, "scale", self.scale, "above 0 and below 10000")
        require_size(self.kind, self.neurons)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return the neurons of each population, shape (8,); rounded, at least one."""
        return np.maximum(np.rint(np.array(NEURONS) * self.scale).astype(np.int64), 1)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Synapses between two populations, shape (8, 8), row = target, column = source.

        ln(1 - p) / ln(1 - 1 / (Ns * Nt)), rounded: with this many draws a given pair is connected
        at least once with probability p. A pair of single neurons gets none.
        """
        pairs = np.multiply.outer(self.sizes, self.sizes).astype(np.float64)
        single = pairs == 1
        per_draw = np.log1p(-1 / np.where(single, 2.0, pairs))
        draws = np.rint(np.log1p(-np.array(PROBABILITIES)) / per_draw)
        return np.where(single, 0.0, draws).astype(np.int64)

    @property
    def neurons(self) -> int:
        return int(self.sizes.sum())

    @property
    def synapses(self) -> int:
        return int(self.counts.sum())

    def edges(self, draws: Draws) -> Iterator[Part]:
        """Yield edges population by population, targets outermost."""
        sources, targets = draws.stream(_SOURCE), draws.stream(_TARGET)
        counts, chunks = self.counts, count()
        for into, onto in np.ndindex(8, 8):
            for first, last in ranges(int(counts[into, onto])):
                ends = sources, targets
                yield partial(self._chunk, next(chunks), (onto, into), last - first, ends)

    def _chunk(
        self,
        chunk: int,
        populations: tuple[int, int],
        synapses: int,
        ends: tuple[Stream, Stream],
    ) -> Edges:
        """Return `synapses` edges from one population to another."""
        starts = np.append(0, np.cumsum(self.sizes))
        source, target = (
            drawn.of(chunk).integers(starts[population], starts[population + 1], synapses)
            for drawn, population in zip(ends, populations, strict=True)
        )
        return source, target, np.broadcast_to(np.float64(RATES[populations[0]]), synapses)

    def attributes(self, draws: Draws) -> Attributes:
        """Return `population` with its labels, and `rate` in Hz."""
        population = np.repeat(np.arange(8), self.sizes)
        return {
            "population": (population, list(POPULATIONS)),
            "rate": (np.array(RATES)[population], None),
        }
