"""Find layers of a floating-point graph that integers compute exactly, with the scales of the
model.

A layer is exact if its input has a fixed set of levels (signs included), and each kernel consists
of whole multiples of one number. Then its sums are whole: a threshold makes signs of them, or a
requantisation the next levels, with the batch normalisation between as its factor and offset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.binary import TOLERANCE, Steps, kernel_signs, levels_of, steps_of
from mapper.compiler.numerics.formulas import multiplier, requantise
from mapper.compiler.quantisation.parameters import Scaling

MOST_OFFSET = (1 << 31) - 1
MOST_LEVEL = 127  # largest weight in levels
MOST_TRIED = 1 << 22  # sums tried per layer: channels times values

Kernels = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Integer weights, and the real number that 1 stands for, per output."""


class Chain(NamedTuple):
    """A layer whose sums, optionally pooled, are read only by a sign or levels node."""

    pools: list[Node]
    end: Node

    @property
    def nodes(self) -> list[Node]:
        return [*self.pools, self.end]


class ExactLayers:
    """Exact layers of a floating-point graph.

    chains : chains by id of their first layer
    scales : scales of tensors whose levels the model gives, and of tensors that only move them
    hosted : inputs of the model whose levels the host computes
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chains = {
            id(node): chain
            for node in graph.nodes
            if isinstance(node.operator, op.Conv | op.Dense) and (chain := _chain(graph, node))
        }
        self.scales: dict[Tensor, Scaling] = {}
        for node in graph.nodes:
            found = {self.scales.get(tensor) for tensor in node.inputs}
            moves = isinstance(node.operator, op.MOVES)
            moves |= node.is_max_pool
            if isinstance(node.operator, op.ENDS):
                scale = node.operator.scale
                zero = 0 if isinstance(node.operator, op.Sign) else node.operator.stored_zero
                self.scales[node.output] = Scaling(scale, zero)
                continue
            scaling = next(iter(found)) if len(found) == 1 else None
            if scaling is not None and (moves or _clips_at_levels(node, scaling)):
                self.scales[node.output] = scaling
        self.hosted = {
            view.tensor
            for view in graph.inputs.values()
            if graph.users(view.tensor)
            and all(isinstance(node.operator, op.ENDS) for node in graph.users(view.tensor))
        }

    def covered(self) -> set[int]:
        """Return the ids of nodes that belong to the layer before them."""
        return {id(node) for chain in self.chains.values() for node in chain.nodes}

    def kernels(self, node: Node) -> Kernels | None:
        """Return lossless integer weights, None if there are none.

        They exist for layers that read levels, or whose signs come from kernels of one magnitude.
        """
        if not isinstance(node.operator, op.Conv | op.Dense):
            return None
        weights, taken = node.inputs[1].value, node.inputs[0] in self.scales
        if weights is None or not (taken or id(node) in self.chains):
            return None
        return kernel_signs(weights) or (whole_kernels(weights) if taken else None)

    def whole_scale(self, node: Node) -> float | None:
        """Return the scale of the sums of an exact layer whose result only the host reads.

        None if cores read it, or if its kernels have different scales, or a bias.
        """
        found = self.kernels(node)
        if found is None or node.inputs[0] not in self.scales or id(node) in self.chains:
            return None
        users = self.graph.users(node.output)
        if not all(isinstance(user.operator, op.Host) for user in users):
            return None
        biased = len(node.inputs) > 2 and np.any(node.inputs[2].value)
        scales = (found[1] * self.scales[node.inputs[0]].scale).astype(np.float32)
        return None if biased or np.unique(scales).size > 1 or not scales[0] else float(scales[0])

    def notes(self) -> list[str]:
        """Return notes on unexpected results: zero becomes +1, and layers of signs that are not
        binary.
        """
        count = sum(isinstance(node.operator, op.Sign) for node in self.graph.nodes)
        told = [f"signs of zero are +1 ({count} signs); ONNX gives 0"] if count else []
        return told + [
            f"{node.label}: reads signs, but its kernels have weights of several magnitudes; "
            "it is computed in 8 bit"
            for node in self.graph.nodes
            if isinstance(node.operator, op.Conv | op.Dense)
            and (maker := self.graph.maker(node.inputs[0])) is not None
            and isinstance(maker.operator, op.Sign)
            and node.inputs[1].value is not None
            and kernel_signs(node.inputs[1].value) is None
        ]


def _clips_at_levels(node: Node, scaling: Scaling) -> bool:
    """Return whether a node is an activation that only clips at multiples of a scale, or not at
    all.
    """
    operator = node.operator
    if not isinstance(operator, op.Activation) or len(node.inputs) > 1:
        return False
    ends = np.array([operator.low, operator.high]) / scaling.scale
    whole = np.isinf(ends) | (ends == np.rint(ends))
    return operator.slope in (0.0, 1.0) and bool(whole.all())


def _chain(graph: Graph, layer: Node) -> Chain | None:
    pools: list[Node] = []
    node = graph.only_user(layer.output)
    while node is not None and isinstance(node.operator, op.Pool) and node.is_max_pool:
        if pools or any(node.operator.window.pad):
            return None  # sums can only be pooled on their tile
        pools.append(node)
        node = graph.only_user(node.output)
    return Chain(pools, node) if node is not None and isinstance(node.operator, op.ENDS) else None


def exact_tails(graph: Graph) -> dict[str, str]:
    """Return ONNX nodes between an exact layer and an output that only scale its sums, with a
    reason.

    The host computes them in floating point, where a core would round.
    """
    layers = ExactLayers(graph)
    found: dict[str, str] = {}
    for node in graph.nodes:
        if layers.kernels(node) is None or node.inputs[0] not in layers.scales:
            continue
        stop: list[Node] = []
        last = node.output
        while (one := graph.only_user(last, op.Affine | op.Activation)) is not None:
            stop.append(one)
            last = one.output
        if stop and (graph.is_output(last) or _only_host(graph, last)):
            names = (name for one in stop for name in one.sources)
            found |= dict.fromkeys(names, "it only scales whole sums, which a core would round")
    return found


def _only_host(graph: Graph, tensor: Tensor) -> bool:
    users = graph.users(tensor)
    return bool(users) and all(isinstance(user.operator, op.Host) for user in users)


def whole_kernels(weights: NDArray[np.floating]) -> Kernels | None:
    """Return weights as multiples, within 8 bits, of the largest possible number per output.

    None if there is no such number.

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
    """Return the steps from an integer sum to the real number before the sign or levels."""
    return [(unit, np.broadcast_to(np.asarray(bias, np.float64), unit.shape)), *steps_of(end)]


def as_requantisation(steps: Steps, end: op.Levels, where: str) -> Requantisation:
    """Return the requantisation from integer sums to stored levels."""
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
    """Return factor * x + offset as (m0 * x + c) * 2^-n, per channel.

    m0 has 24 bits, or fewer if c needs more than its 32 bits otherwise.
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


def differences(
    how: Requantisation, steps: Steps, end: op.Levels, bounds: NDArray[np.int64]
) -> str:
    """Return as text how many possible sums of a layer round to another level than in float64.

    Empty if there are none, or too many sums to try.
    bounds : largest magnitude of the sums, shape (channels,)
    """
    most = int(bounds.max(initial=0))
    if (2 * most + 1) * bounds.size > MOST_TRIED:
        return ""
    sums = np.arange(-most, most + 1)[:, None] + np.zeros_like(bounds)
    exact = levels_of(sums, steps, end)
    other = int(((requantise(sums, how) != exact) & (np.abs(sums) <= bounds)).sum())
    if not other:
        return ""
    return f"{other} of {int((2 * bounds + 1).sum()):,} possible sums round to another level"
