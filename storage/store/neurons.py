"""Neuron models of a network, if its source defines them: attributes with reserved names.

`model` names the kind of each neuron, as in NIR; the others are its parameters, float64, also as in
NIR: a neuron spikes when its potential exceeds `v_threshold`, and is then set to `v_reset`; `bias`
is a constant input current. A parameter that a kind lacks is 1 for a factor (`r`, `w_in`) and 0
otherwise. Mapping does not use them; exports do.
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
"""Kinds without a threshold, which never spike by themselves."""


KINDS = (*SILENT, "CubaLIF", "IF", "LIF", "Threshold")


class Neurons(NamedTuple):
    """The neuron models of a network file; each of shape (neurons,).

    kind : ndarray[int64], index into `kinds`
    parameters : ndarray[float64] by name, for all of `PARAMETERS`
    """

    kinds: list[str]
    kind: NDArray[np.int64]
    parameters: dict[str, NDArray[np.float64]]

    def of_kind(self, *names: str) -> NDArray[np.bool_]:
        """Return a mask of the neurons of these kinds, shape (neurons,)."""
        return np.isin(self.kind, [self.kinds.index(name) for name in names if name in self.kinds])


def read_neurons(network: NetworkFile) -> Neurons | None:
    """Return the neuron models of a network; None if it does not define them."""
    known = network.meta.attributes
    if MODEL not in known or not set(known[MODEL].labels or [""]) <= set(KINDS):
        return None  # the user may have a different attribute of this name
    model = network.attribute(MODEL)
    parameters = {
        name: network.attribute(name).values.astype(np.float64)
        if name in known
        else np.full(network.vertices, float(name in FACTORS))
        for name in PARAMETERS
    }
    return Neurons(model.labels or [], model.stored, parameters)
