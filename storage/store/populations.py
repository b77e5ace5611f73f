"""Populations of a network: neurons with a name in common, such as a layer or a cell type.

The attribute `population` names the population of every neuron. Networks without it may have the
attribute `layer`: names, or numbers from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from storage.arrays import Int32
from storage.store.network import POPULATION, NetworkFile

LAYER = "layer"
KINDS = (POPULATION, LAYER)
MOST_LAYERS = 1 << 16
"""Maximum number of layers without names; higher numbers are not layers."""


@dataclass(frozen=True, slots=True)
class Populations:
    """The population of every neuron.

    kind : "population" or "layer"
    names : of the populations
    of : ndarray[int32], shape (neurons,), index into `names`
    """

    kind: str
    names: list[str]
    of: Int32

    def counts(self) -> dict[str, int]:
        """Return the number of neurons of each population by name."""
        found = np.bincount(self.of, minlength=len(self.names)).tolist()
        return dict(zip(self.names, found, strict=True))

    def called(self, neuron: int) -> str:
        """Return the name of a neuron in messages: its number in its population, from 0."""
        own = self.of[neuron]
        index = int(np.count_nonzero(self.of[:neuron] == own))
        name = self.names[own]
        kind = "" if name.startswith(self.kind) else f"{self.kind} "
        return f"neuron {index} of {kind}{name}"


def has_populations(network: NetworkFile) -> bool:
    """Return whether the neurons of a network have populations, without reading them."""
    return _kind(network) is not None


def _kind(network: NetworkFile) -> str | None:
    """Return the attribute that holds the populations, None if there is none."""
    for name in KINDS:
        about = network.meta.attributes.get(name)
        if about is not None and not about.real and about.unit == 1 and about.offset == 0:
            return name
    return None


def read_populations(network: NetworkFile) -> Populations | None:
    """Return the populations of a network, None if it has none."""
    kind = _kind(network)
    if kind is None:
        return None
    found = network.attribute(kind)
    names = found.labels
    if names is None:
        count = int(found.stored.max(initial=0)) + 1
        if count > MOST_LAYERS:
            return None
        names = [f"{kind} {number}" for number in range(count)]
    return Populations(kind, names, found.stored.astype(np.int32))


def called(network: NetworkFile, neuron: int) -> str:
    """Return the name of a neuron in messages; its number in the network without populations."""
    found = read_populations(network)
    return f"neuron {neuron}" if found is None else found.called(neuron)
