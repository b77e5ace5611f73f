"""Bias correction: subtract the mean quantisation error of a channel from its bias.

Rounded weights and inputs cause errors that do not average out over samples. Layers are corrected
in execution order, so each one sees the corrected layers before it. The mean error of each output
channel over the calibration samples, after its activation, changes the bias. Nagel et al.,
Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import MOST_FRAMES, Data, batches, run_chain, run_graph
from mapper.compiler.numerics.formulas import half_away, quantise
from mapper.compiler.numerics.reference import INTEGER, MIXED
from mapper.compiler.quantisation.layers import WeightLayer

Means = NDArray[np.float64]


class Correction(NamedTuple):
    """Result of the correction of a layer.

    before, after : largest mean error of its channels, in steps of its result
    """

    layer: WeightLayer
    before: float
    after: float


def correct_biases(
    source: Graph,
    quantised: Graph,
    layers: Sequence[WeightLayer],
    feeds: Mapping[Tensor, Data],
) -> list[Correction]:
    """Correct the biases of all layers; `quantised` is changed.

    feeds : float32 samples of the inputs of `source`, shape (frames, rows, columns, channels)
    Raises `MapperError` if a corrected bias no longer fits an accumulator.
    """
    wanted = channel_means(source, feeds, [layer.real for layer in layers])
    by_conv = {id(layer.conv): layer for layer in layers}
    stop = {id(layer.requantise) for layer in layers}
    walk = _Walk(quantised, source, feeds)
    told = []
    end = max(at for at, node in enumerate(quantised.nodes) if id(node) in stop) if stop else -1
    for at, node in enumerate(quantised.nodes[: end + 1]):
        layer = by_conv.get(id(node))
        if layer is not None:
            told.append(_correct(walk, layer, wanted[layer.real]))
        elif id(node) not in stop:
            walk.run([node])
        walk.forget(at)
    return told


def _correct(walk: _Walk, layer: WeightLayer, wanted: Means) -> Correction:
    result = layer.result
    error = walk.mean([layer.conv, layer.requantise]) - wanted
    layer.set_bias(layer.bias - half_away(error / layer.unit))
    after = walk.run([layer.conv, layer.requantise]) - wanted
    largest = [float(np.abs(one).max(initial=0.0)) / result.scale for one in (error, after)]
    return Correction(layer, *largest)


def channel_means(
    graph: Graph, feeds: Mapping[Tensor, Data], tensors: Sequence[Tensor]
) -> dict[Tensor, Means]:
    """Return the channel means of tensors over all samples, computed by the floating-point
    graph."""
    sums = {tensor: np.zeros(tensor.channels) for tensor in tensors}
    frames = 0
    for _, some in batches(graph, feeds):
        frames += next(iter(some.values())).shape[0]
        for tensor, data in run_graph(graph, some, MIXED, tensors).items():
            sums[tensor] += data.sum((0, 1, 2), dtype=np.float64)
    return {
        tensor: total / (frames * tensor.height * tensor.width) for tensor, total in sums.items()
    }


class _Walk:
    """Runs all samples through a graph of integers, node by node.

    Between nodes, samples have the width in which cores store them.
    """

    def __init__(self, graph: Graph, source: Graph, feeds: Mapping[Tensor, Data]) -> None:
        self._last = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.inputs}
        self._data: dict[Tensor, NDArray[Any]] = {}
        for name, view in source.inputs.items():
            stored = graph.inputs[name].tensor
            pieces = [some[view.tensor] for _, some in batches(source, feeds)]
            if stored.type != "float32":  # else the host computes signs or levels of real numbers
                how = stored.scale, stored.zero_point, stored.bits
                pieces = [quantise(piece, *how).astype(stored.type) for piece in pieces]
            self._data[stored] = np.concatenate(pieces)
        self._frames = next(iter(feeds.values())).shape[0]

    def mean(self, nodes: Sequence[Node]) -> Means:
        """Return the mean of each channel of the result of a chain of nodes, as real numbers."""
        result = nodes[-1].output
        total = np.zeros(result.channels)
        for at in range(0, self._frames, MOST_FRAMES):
            total += self._made(nodes, at)[0].sum((0, 1, 2), dtype=np.float64)
        return self._real(result, total)

    def run(self, nodes: Sequence[Node]) -> Means:
        """Run a chain of nodes, keep all results for later nodes; return the means of the first
        result.
        """
        outputs = nodes[-1].outputs
        kept = [np.empty((self._frames, *tensor.shape[1:]), tensor.type) for tensor in outputs]
        total = np.zeros(outputs[0].channels)
        for at in range(0, self._frames, MOST_FRAMES):
            made = self._made(nodes, at)
            for array, whole in zip(made, kept, strict=True):
                whole[at : at + len(array)] = array
            total += made[0].sum((0, 1, 2), dtype=np.float64)
        self._data |= zip(outputs, kept, strict=True)
        return self._real(outputs[0], total)

    def _made(self, nodes: Sequence[Node], at: int) -> list[Data]:
        """Return the results of a chain of nodes for some frames."""

        def given(tensor: Tensor) -> Data:
            data = self._data[tensor][at : at + MOST_FRAMES]
            return data if tensor.type == "float32" else data.astype(np.int64)

        return run_chain(nodes, given, INTEGER, min(MOST_FRAMES, self._frames - at))

    def _real(self, tensor: Tensor, total: Means) -> Means:
        mean = total / (self._frames * tensor.height * tensor.width)
        return np.asarray(tensor.scale * (mean - tensor.zero_point))

    def forget(self, at: int) -> None:
        """Delete data that no node after this one reads."""
        self._data = {t: data for t, data in self._data.items() if self._last.get(t, -1) > at}
