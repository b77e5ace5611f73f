"""Check for models exported for a batch: they are copies of one network without connections."""

from __future__ import annotations

from typing import Any

import numpy as np

from storage.errors import BadInputError
from storage.formats.layers.linear import Ids, Rows
from storage.formats.layers.onnxbuild import Builder

_NONE = -1


class Samples:
    """Tracks the elements of each batch sample through the layers.

    A first axis of the inputs larger than 1 is a batch if no neuron reads elements of two samples.
    """

    def __init__(self, builder: Builder) -> None:
        inputs = builder.model.inputs
        sizes = {shape[0] if len(shape) > 1 else 1 for _, shape in inputs}
        self._count = sizes.pop() if len(sizes) == 1 else 1
        self._alone = self._count > 1 and bool(builder.joins)
        self._names = ", ".join(repr(name) for name, _ in inputs)
        if self._alone:
            self._sample = np.full(builder.neurons, _NONE, np.int64)
            for population, (_, shape) in zip(builder.populations, inputs, strict=False):
                own = np.repeat(np.arange(self._count), population.size // shape[0])
                self._sample[population.first : population.first + population.size] = own

    def add(self, rows: Rows, sources: Ids, targets: Ids) -> None:
        """Process synapses, given as in `layers.Synapses.add`."""
        if not self._alone:
            return
        source = sources[rows.indices]
        target = np.repeat(targets, np.diff(rows.indptr))
        sample: Any = np.where(source >= 0, self._sample[source], _NONE)
        known = sample != _NONE
        sample, target = sample[known], target[known]
        own = self._sample[target]
        self._sample[target] = sample
        self._alone = bool(
            ((own == _NONE) | (own == sample)).all() and (self._sample[target] == sample).all()
        )

    def check(self) -> None:
        """Raise `BadInputError` if, after all synapses, no neuron read two samples."""
        if self._alone:
            raise BadInputError(
                f"a batch of {self._count} (first axis of {self._names}) would be "
                f"{self._count} copies of the network; export the model for a batch of 1"
            )
