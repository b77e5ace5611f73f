"""Quantisation losses: SQNR of results and of each layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host, Node, Quantise, Requantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import Data, batches, run_chain, run_graph
from mapper.compiler.numerics.formulas import dequantise, quantise
from mapper.compiler.numerics.reference import INTEGER, MIXED


class Signal:
    """Accumulated power of finite real numbers and of their errors.

    A number that is not finite in integers only, such as a quotient by 0, counts as lost.
    """

    def __init__(self) -> None:
        self._power = self._error = 0.0

    def add(self, real: Data, near: Data) -> None:
        exact = np.where(np.isfinite(real), real, 0.0).astype(np.float64)
        found = np.where(np.isfinite(real) & np.isfinite(near), near, 0.0)
        self._power += float((exact**2).sum())
        self._error += float(((exact - found) ** 2).sum())

    @property
    def is_silent(self) -> bool:
        """Whether all real numbers are 0."""
        return self._power == 0

    @property
    def decibels(self) -> float | None:
        """SQNR, 10 log10 of signal over error; None without error, or without signal."""
        if self._error == 0 or self._power == 0:
            return None
        return 10 * math.log10(self._power / self._error)


class LayerLoss(NamedTuple):
    """Quantisation loss of a layer.

    label : label of its node; tensor : name of its result
    low, high : real range of its integers
    clipped : share of its numbers outside this range
    own : SQNR in dB if all layers before it were real
    accumulated : SQNR in dB with all layers in integers; both are None without error
    silent : whether all its real numbers are 0, as after ReLU; then it has no SQNR
    """

    label: str
    tensor: str
    low: float
    high: float
    scale: float
    zero_point: int
    clipped: float
    own: float | None
    accumulated: float | None
    silent: bool


class _Layer(NamedTuple):
    """Integer nodes that compute a stored tensor, and its real counterpart."""

    nodes: list[Node]
    stored: Tensor
    real: Tensor


def layer_losses(
    source: Graph, made: Graph, stored: Mapping[Tensor, Tensor], feeds: Mapping[Tensor, Data]
) -> list[LayerLoss]:
    """Return the loss of every layer, in execution order.

    stored : for each tensor of `source` that has integers, the tensor of `made`
    feeds : float32 samples of the inputs of `source`
    """
    layers, copies = list(_layers(made, stored)), _copies(made, stored)
    own = [Signal() for _ in layers]
    accumulated = [Signal() for _ in layers]
    outside = np.zeros(len(layers))
    numbers = np.zeros(len(layers))
    for _, some in batches(source, feeds):
        real = run_graph(source, some, MIXED, stored)
        whole = run_graph(
            made, stored_feeds(some, stored), INTEGER, [layer.stored for layer in layers]
        )
        alone = {stored[tensor]: data for tensor, data in real.items()}
        alone |= {copy: alone[one] for one, copy in copies}
        for at, layer in enumerate(layers):
            tensor = layer.stored
            exact = real[layer.real]
            own[at].add(exact, real_values(_alone(layer, alone), tensor))
            accumulated[at].add(exact, real_values(whole[tensor], tensor))
            low, high = _reach(tensor)
            half = tensor.scale / 2
            outside[at] += np.count_nonzero((exact < low - half) | (exact > high + half))
            numbers[at] += exact.size
    return [
        LayerLoss(
            layer.nodes[0].label, layer.stored.name, *_reach(layer.stored), layer.stored.scale,
            layer.stored.zero_point, float(outside[at] / numbers[at]), own[at].decibels,
            accumulated[at].decibels, own[at].is_silent,
        )
        for at, layer in enumerate(layers)
    ]  # fmt: skip


def stored_feeds(
    feeds: Mapping[Tensor, Data], stored: Mapping[Tensor, Tensor]
) -> dict[Tensor, Data]:
    """Quantise real inputs for a graph of integers."""
    return {stored[tensor]: _whole(data, stored[tensor]) for tensor, data in feeds.items()}


def _layers(made: Graph, stored: Mapping[Tensor, Tensor]) -> Iterator[_Layer]:
    real = {tensor: one for one, tensor in stored.items()}
    nodes: list[Node] = []
    for node in made.nodes:
        if isinstance(node.operator, Host | Quantise):
            continue
        nodes.append(node)
        if node.output in real:
            yield _Layer(nodes, node.output, real[node.output])
            nodes = []


def _copies(made: Graph, stored: Mapping[Tensor, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return the stored maps that have a copy in other integers, and their copies."""
    known = set(stored.values())
    return [
        (node.inputs[0], node.output)
        for node in made.nodes_of(Requantise)
        if node.inputs[0] in known and node.output not in known
    ]


def _alone(layer: _Layer, real: Mapping[Tensor, Data]) -> Data:
    """Return the result of a layer for quantised real inputs."""
    return run_chain(layer.nodes, lambda one: _whole(real[one], one), INTEGER)[0]


def _whole(data: Data, tensor: Tensor) -> Data:
    if tensor.type == "float32":
        return data  # the host computes signs or levels of it
    return quantise(data, tensor.scale, tensor.zero_point, tensor.bits)


def real_values(data: Data, tensor: Tensor) -> Data:
    """Return the real numbers of a map."""
    if tensor.type == "float32":
        return data
    return dequantise(data, tensor.scale, tensor.zero_point)


def _reach(tensor: Tensor) -> tuple[float, float]:
    """Return the minimum and maximum real numbers that integers of a tensor represent."""
    return (
        tensor.scale * (tensor.low - tensor.zero_point),
        tensor.scale * (tensor.high - tensor.zero_point),
    )
