"""What the neurons of a network do, where its source says so: attributes with names of their own.

`model` names the kind of each neuron, as NIR calls it; the others are its parameters, float64. They
are the ones of NIR: a neuron spikes when its potential is above `v_threshold`, and is set to
`v_reset` then; `bias` is a current that comes in all the time. A kind that lacks a parameter has 1
for a factor (`r`, `w_in`) and 0 for anything else. Mapping reads none of them; exports do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.store.network import NetworkFile

MODEL = "model"
FACTORS = ("r", "w_in")
PARAMETERS = ("tau", "tau_syn", *FACTORS, "v_leak", "v_threshold", "v_reset", "bias")
SILENT = ("CubaLI", "I", "LI", "Input", "Output")
"""Kinds that have no threshold: they never spike by themselves."""


KINDS = (*SILENT, "CubaLIF", "IF", "LIF", "Threshold")


class Neurons(NamedTuple):
    """The neurons of a network file; each of shape (neurons,).

    kind : ndarray[int64], index into `kinds`
    parameters : ndarray[float64] by name, for all of `PARAMETERS`
    """

    kinds: list[str]
    kind: NDArray[np.int64]
    parameters: dict[str, NDArray[np.float64]]

    def of_kind(self, *names: str) -> NDArray[np.bool_]:
        """Which neurons are of one of these kinds, shape (neurons,)."""
        return np.isin(self.kind, [self.kinds.index(name) for name in names if name in self.kinds])


def read_neurons(network: NetworkFile) -> Neurons | None:
    """What a network says of its neurons; None if it says nothing."""
    known = network.meta.attributes
    if MODEL not in known or not set(known[MODEL].labels or [""]) <= set(KINDS):
        return None  # an attribute of that name may be of the user's own
    model = network.attribute(MODEL)
    parameters = {
        name: network.attribute(name).values.astype(np.float64)
        if name in known
        else np.full(network.vertices, float(name in FACTORS))
        for name in PARAMETERS
    }
    return Neurons(model.labels or [], model.stored, parameters)
