"""Lists of the spikes of a model's inputs, in all samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


class SpikeSamples(NamedTuple):
    """Spikes of the inputs in all samples, sorted by sample, tick and neuron.

    sample, tick, neuron, value : ndarray[int64], shape (spikes,); `neuron` counts through all
        inputs from 0, and `value` is the number of spikes of that neuron in that tick
    samples, ticks : number of samples, and ticks per sample
    labels : class of each sample, ndarray[int64], shape (samples,), None without labels
    unit : real value of one spike: a weight w adds `unit` * w
    """

    sample: Int64
    tick: Int64
    neuron: Int64
    value: Int64
    samples: int
    ticks: int
    labels: Int64 | None
    unit: float = 1.0

    def first(self, count: int) -> SpikeSamples:
        """Return the first `count` samples, or all if there are fewer."""
        end = int(np.searchsorted(self.sample, count))
        return self._replace(
            sample=self.sample[:end],
            tick=self.tick[:end],
            neuron=self.neuron[:end],
            value=self.value[:end],
            samples=min(count, self.samples),
            labels=None if self.labels is None else self.labels[:count],
        )
