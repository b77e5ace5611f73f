"""Neuron models, parameters and biases of a NIR graph as attributes of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.formats.hdf5.nirgraph import NirNode
from storage.formats.layers.linear import Rows, Shape
from storage.store.neurons import FACTORS, MODEL, PARAMETERS
from storage.store.writer import NetworkWriter

_CALLED = {"tau_mem": "tau", "threshold": "v_threshold"}
"""Parameters with a different name in network files, which use one name per quantity."""
_GIVEN = {"tau_mem", "threshold", *PARAMETERS} - {"bias"}


class NirNeurons:
    """Collects the neuron parameters of populations, and passes them to the writer."""

    def __init__(self, neurons: int) -> None:
        self._kinds: list[str] = []
        self._kind = np.zeros(neurons, np.int64)
        self._values: dict[str, NDArray[np.float64]] = {}

    def add(self, node: NirNode, first: int, shape: Shape) -> None:
        """Add the neurons of a node, numbered from `first`; shape : of the population."""
        size = int(np.prod(shape))
        part = slice(first, first + size)
        if node.kind not in self._kinds:
            self._kinds.append(node.kind)
        self._kind[part] = self._kinds.index(node.kind)
        for name in sorted(_GIVEN):
            if node.has(name) and node.kind not in ("Input", "Output"):
                values = node.array(name)
                fitted = values.reshape(shape) if values.size == size else values
                self._of(_CALLED.get(name, name))[part] = np.broadcast_to(fitted, shape).ravel()

    def add_bias(self, rows: Rows, bias: NDArray[Any], target: NDArray[np.int64]) -> None:
        """Add a bias at the outputs of a node, through the matrix from there to neurons.

        rows : shape (neurons, outputs); bias : shape (outputs,); target : shape (neurons,)
        """
        if bias.any():
            self._of("bias")[target] += rows @ bias.astype(np.float64)

    def write(self, writer: NetworkWriter) -> None:
        """Set the attributes."""
        writer.set_attribute(MODEL, self._kind, self._kinds)
        for name in (name for name in PARAMETERS if name in self._values):
            writer.set_real(name, self._values[name])

    def _of(self, name: str) -> NDArray[np.float64]:
        if name not in self._values:
            self._values[name] = np.full(self._kind.size, float(name in FACTORS))
        return self._values[name]


def bias_of(nodes: Sequence[NirNode], number: int, stop: Shape) -> NDArray[Any] | None:
    """Return the bias at the outputs of a weight node, shape (outputs,); None without bias.

    stop : output shape of the node, channels first
    """
    node = nodes[number]
    if not node.has("bias"):
        return None
    bias = node.array("bias")
    if node.kind.startswith("Conv") and bias.ndim == 1:
        bias = bias.reshape(-1, *[1] * (len(stop) - 1))
    return np.broadcast_to(bias, stop).ravel()
