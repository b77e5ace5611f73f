"""Layers of a float graph that integers compute exactly: their scales are those of the model.

A layer is exact if the numbers of its map are some levels, signs among them, and each of its
kernels whole multiples of one number. Its sums are whole then: a threshold makes signs of them, or
a requantisation the next levels, with the batch normalisation between as its factor and offset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Activation,
    Affine,
    Concat,
    Conv,
    Dense,
    Host,
    Levels,
    Node,
    Pool,
    Sign,
    Slice,
    Upsample,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.binary import TOLERANCE, Steps, kernel_signs, steps_of
from mapper.compiler.integer.formulas import Multiplier, Requantisation, multiplier, requantise
from mapper.compiler.integer.levels import levels_of
from mapper.compiler.quantise.parameters import Scaling

MOST_OFFSET = (1 << 31) - 1
MOST_LEVEL = 127  # of weights
MOST_TRIED = 1 << 22  # sums of a layer, channels times values
ENDS = Sign | Levels

Kernels = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Whole weights, and the real number that 1 stands for, of each output."""


class Chain(NamedTuple):
    """A layer whose sums go, perhaps pooled, to a sign or to levels, and to nothing else."""

    pools: list[Node]
    end: Node

    @property
    def nodes(self) -> list[Node]:
        return [*self.pools, self.end]


class ExactLayers:
    """What of a float graph is exact in integers.

    chains : by id of the layer that they begin behind
    scales : of tensors whose levels the model gives, and of what only moves them
    hosted : inputs of the model that the host makes levels of
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chains = {
            id(node): chain
            for node in graph.nodes
            if isinstance(node.operator, Conv | Dense) and (chain := _chain(graph, node))
        }
        self.scales: dict[Tensor, Scaling] = {}
        for node in graph.nodes:
            found = {self.scales.get(tensor) for tensor in node.inputs}
            pool = isinstance(node.operator, Pool) and node.operator.kind == "max"
            moves = isinstance(node.operator, Concat | Slice | Upsample) or pool
            if isinstance(node.operator, ENDS):
                scale = node.operator.scale
                zero = 0 if isinstance(node.operator, Sign) else node.operator.stored_zero
                self.scales[node.output] = Scaling(scale, zero)
                continue
            scaling = next(iter(found)) if len(found) == 1 else None
            if scaling is not None and (moves or _clips_at_levels(node, scaling)):
                self.scales[node.output] = scaling
        self.hosted = {
            view.tensor
            for view in graph.inputs.values()
            if graph.users(view.tensor)
            and all(isinstance(node.operator, ENDS) for node in graph.users(view.tensor))
        }

    def covered(self) -> set[int]:
        """Ids of the nodes that belong to the layer before them."""
        return {id(node) for chain in self.chains.values() for node in chain.nodes}

    def kernels(self, node: Node) -> Kernels | None:
        """Weights as whole numbers, where that loses nothing: of layers that take levels, or make
        signs of kernels with one magnitude. None of others."""
        if not isinstance(node.operator, Conv | Dense):
            return None
        weights, taken = node.inputs[1].value, node.inputs[0] in self.scales
        if weights is None or not (taken or id(node) in self.chains):
            return None
        return kernel_signs(weights) or (whole_kernels(weights) if taken else None)

    def whole_scale(self, node: Node) -> float | None:
        """The scale of the sums of an exact layer whose result only the host takes; None if cores
        take it, or if its kernels have scales of their own, or a bias."""
        found = self.kernels(node)
        if found is None or node.inputs[0] not in self.scales or id(node) in self.chains:
            return None
        users = self.graph.users(node.output)
        if not all(isinstance(user.operator, Host) for user in users):
            return None
        biased = len(node.inputs) > 2 and np.any(node.inputs[2].value)
        scales = (found[1] * self.scales[node.inputs[0]].scale).astype(np.float32)
        return None if biased or np.unique(scales).size > 1 or not scales[0] else float(scales[0])

    def notes(self) -> list[str]:
        """What models may not expect: that zero is +1, and layers of signs that are not binary."""
        count = sum(isinstance(node.operator, Sign) for node in self.graph.nodes)
        told = [f"signs of zero are +1 ({count} signs), which ONNX leaves at 0"] if count else []
        return told + [
            f"{node.label}: takes signs, but its kernels have weights of several magnitudes: it is "
            "computed in 8 bit"
            for node in self.graph.nodes
            if isinstance(node.operator, Conv | Dense)
            and (maker := self.graph.maker(node.inputs[0])) is not None
            and isinstance(maker.operator, Sign)
            and node.inputs[1].value is not None
            and kernel_signs(node.inputs[1].value) is None
        ]


def _clips_at_levels(node: Node, scaling: Scaling) -> bool:
    """Whether a node is an activation that only clips, at multiples of a scale or not at all."""
    operator = node.operator
    if not isinstance(operator, Activation) or len(node.inputs) > 1:
        return False
    ends = np.array([operator.low, operator.high]) / scaling.scale
    whole = np.isinf(ends) | (ends == np.rint(ends))
    return operator.slope in (0.0, 1.0) and bool(whole.all())


def _chain(graph: Graph, layer: Node) -> Chain | None:
    pools: list[Node] = []
    node = graph.only_user(layer.output)
    while node is not None and isinstance(node.operator, Pool) and node.operator.kind == "max":
        if pools or any(node.operator.window.pad):
            return None  # sums are pooled on the tile that makes them, or not at all
        pools.append(node)
        node = graph.only_user(node.output)
    return Chain(pools, node) if node is not None and isinstance(node.operator, ENDS) else None


def exact_tails(graph: Graph) -> dict[str, str]:
    """ONNX nodes between an exact layer and the end of a model that only scale its sums: the host
    does that in floating point, where a core would round. By name, why."""
    layers = ExactLayers(graph)
    found: dict[str, str] = {}
    for node in graph.nodes:
        if layers.kernels(node) is None or node.inputs[0] not in layers.scales:
            continue
        stop: list[Node] = []
        one = graph.only_user(node.output)
        while one is not None and isinstance(one.operator, Affine | Activation):
            stop.append(one)
            last, one = one.output, graph.only_user(one.output)
        if stop and (graph.is_output(last) or _only_host(graph, last)):
            names = (name for one in stop for name in one.sources)
            found |= dict.fromkeys(names, "it only scales whole sums, which a core would round")
    return found


def _only_host(graph: Graph, tensor: Tensor) -> bool:
    users = graph.users(tensor)
    return bool(users) and all(isinstance(user.operator, Host) for user in users)


def whole_kernels(weights: NDArray[np.floating]) -> Kernels | None:
    """Weights as whole multiples, of at most 8 bits, of one number for each output; of all such
    numbers the largest. None if there is none.

    weights : shape (outputs, ...)
    """
    flat = np.asarray(weights, np.float64).reshape(weights.shape[0], -1)
    most = np.abs(flat).max(1, initial=0.0)
    if not np.isfinite(most).all():
        return None
    whole, scales = np.zeros(flat.shape, np.int64), np.zeros(len(flat))
    open_ = np.flatnonzero(most > 0)
    for level in range(1, MOST_LEVEL + 1):
        if not open_.size:
            break
        unit = most[open_] / level
        ratio = flat[open_] / unit[:, None]
        fits = (np.abs(ratio - np.rint(ratio)) <= TOLERANCE).all(1)
        whole[open_[fits]] = np.rint(ratio[fits]).astype(np.int64)
        scales[open_[fits]] = unit[fits]
        open_ = open_[~fits]
    return None if open_.size else (whole.reshape(weights.shape), scales)


def end_steps(end: Node, unit: NDArray[np.float64], bias: NDArray[np.float64] | float) -> Steps:
    """From a sum in whole numbers to the real number that signs or levels are made of."""
    return [(unit, np.broadcast_to(np.asarray(bias, np.float64), unit.shape)), *steps_of(end)]


def as_requantisation(steps: Steps, end: Levels, where: str) -> Requantisation:
    """What makes stored levels of whole sums."""
    factor, offset = np.ones(()), np.zeros(())
    for by, more in steps:
        factor, offset = factor * by, offset * by + more
    factor, offset = np.broadcast_arrays(factor / end.divisor, offset / end.divisor)
    scaled, c = scaled_offset(factor, offset, where)
    return Requantisation(
        scaled, end.stored_zero, end.stored_low, end.stored_high, end.rounding, offset=c
    )


def scaled_offset(
    factor: NDArray[np.float64], offset: NDArray[np.float64], where: str
) -> tuple[Multiplier, NDArray[np.int64]]:
    """factor * x + offset as (m0 * x + c) * 2^-n, for each channel.

    m0 has 24 bits, or as many fewer as c, which has 32, needs.
    """
    m0, n = (np.array(part) for part in np.broadcast_arrays(*multiplier(factor, where)))
    n = np.where(m0 == 0, 20, n)
    c = np.rint(np.ldexp(offset, n))
    while (np.abs(c) > MOST_OFFSET).any():
        large = np.abs(c) > MOST_OFFSET
        n = n - large
        m0 = np.where(large, np.rint(np.ldexp(factor, n)), m0).astype(np.int64)
        c = np.rint(np.ldexp(offset, n))
    return Multiplier(m0.astype(np.int64), n.astype(np.int64)), c.astype(np.int64)


def differences(how: Requantisation, steps: Steps, end: Levels, bounds: NDArray[np.int64]) -> str:
    """How many of all possible sums of a layer become another level than float64 gives them, in
    words; nothing if none does.

    bounds : the most that sums can be in magnitude, shape (channels,)
    """
    most = int(bounds.max(initial=0))
    if (2 * most + 1) * bounds.size > MOST_TRIED:
        return ""
    sums = np.arange(-most, most + 1)[:, None] + np.zeros_like(bounds)
    exact = levels_of(sums, steps, end)
    other = int(((requantise(sums, how) != exact) & (np.abs(sums) <= bounds)).sum())
    if not other:
        return ""
    return f"{other} of {int((2 * bounds + 1).sum()):,} possible sums are rounded otherwise"
