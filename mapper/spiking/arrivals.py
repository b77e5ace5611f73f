"""Sums of the weights of spikes that arrive at a population in a tick, for a batch of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from mapper.spiking.model import Floats

Ints = NDArray[np.int64]


class BatchSpikes(NamedTuple):
    """Spikes of a population in a tick, in order of sample and neuron.

    value : a spike of value 2 counts as two spikes
    """

    sample: Ints
    neuron: Ints
    value: Floats


class SourceLists(NamedTuple):
    """Synapses by source: source s has the synapses first[s] .. first[s + 1] - 1."""

    first: Ints
    target: Ints
    weight: Floats

    @classmethod
    def of(cls, weights: Sequence[Any]) -> SourceLists:
        """Return the synapses of (targets, sources) matrices; sources count consecutively."""
        lists = csr_array(vstack([each.T for each in weights], format="csr"))
        return cls(
            lists.indptr.astype(np.int64),
            lists.indices.astype(np.int64),
            lists.data.astype(np.float64),
        )

    def add_to(self, total: Floats, spikes: BatchSpikes, start: int) -> None:
        """Add the weights of spikes to sums of shape (samples, targets).

        start : number of the source that is neuron 0 of the spikes
        """
        _add_weights(self, *spikes, start, total)


@njit(cache=True, nogil=True)
def _add_weights(lists, sample, neuron, value, start, total):
    """Add the weight of each synapse of each spike to the sum of its target."""
    for spike in range(sample.size):
        row = total[sample[spike]]
        source = start + neuron[spike]
        for synapse in range(lists.first[source], lists.first[source + 1]):
            row[lists.target[synapse]] += lists.weight[synapse] * value[spike]


NO_SPIKES = BatchSpikes(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
