"""Binary layers of a float graph as integers: nothing of them is rounded.

A layer is binary if its map holds signs and each of its kernels one magnitude. Its sums are whole
numbers, of which a threshold makes signs again, or a requantisation stored integers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Concat, Conv, Dense, Host, Node, Pool, Sign, Slice, Upsample
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.binary import Steps, kernel_signs, steps_of
from mapper.compiler.integer.formulas import Multiplier, multiplier

MOST_OFFSET = (1 << 31) - 1


class Chain(NamedTuple):
    """A layer whose sums go, perhaps pooled, to a sign and to nothing else."""

    pools: list[Node]
    sign: Node

    @property
    def nodes(self) -> list[Node]:
        return [*self.pools, self.sign]


class BinaryLayers:
    """What of a float graph is exact in integers.

    chains : by id of the layer that they begin behind
    exact : tensors of signs, and what only moves them, stored as +1 and -1 with scale 1
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chains = {
            id(node): chain
            for node in graph.nodes
            if isinstance(node.operator, Conv | Dense) and (chain := _chain(graph, node))
        }
        self.exact: set[Tensor] = set()
        for node in graph.nodes:
            pool = isinstance(node.operator, Pool) and node.operator.kind == "max"
            moves = isinstance(node.operator, Concat | Slice | Upsample) or pool
            if isinstance(node.operator, Sign) or (moves and set(node.inputs) <= self.exact):
                self.exact |= set(node.outputs)

    def covered(self) -> set[int]:
        """Ids of the nodes that belong to the layer before them."""
        return {id(node) for chain in self.chains.values() for node in chain.nodes}

    def kernels(self, node: Node) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Weights as +1 and -1, and their magnitudes, where that loses nothing: of layers that take
        or make signs. None of others, and of kernels with more than one magnitude."""
        if not isinstance(node.operator, Conv | Dense):
            return None
        weights = node.inputs[1].value
        signs = node.inputs[0] in self.exact or id(node) in self.chains
        return kernel_signs(weights) if signs and weights is not None else None

    def is_binary(self, node: Node) -> bool:
        """Whether a layer multiplies signs by signs."""
        return node.inputs[0] in self.exact and self.kernels(node) is not None

    def whole_scale(self, node: Node) -> float | None:
        """The scale of the sums of a binary layer whose result only the host takes; None if cores
        take it, or if its kernels have scales of their own, or a bias."""
        if not self.is_binary(node) or id(node) in self.chains:
            return None
        users = self.graph.users(node.output)
        if not all(isinstance(user.operator, Host) for user in users):
            return None
        found = self.kernels(node)
        assert found is not None
        biased = len(node.inputs) > 2 and np.any(node.inputs[2].value)
        scales = found[1].astype(np.float32)
        return None if biased or np.unique(scales).size > 1 or not scales[0] else float(scales[0])

    def notes(self) -> list[str]:
        """Layers of signs that are not binary."""
        return [
            f"{node.label}: takes signs, but its kernels have weights of several magnitudes: it is "
            "computed in 8 bit"
            for node in self.graph.nodes
            if isinstance(node.operator, Conv | Dense)
            and node.inputs[0] in self.exact
            and self.kernels(node) is None
        ]


def _chain(graph: Graph, layer: Node) -> Chain | None:
    pools: list[Node] = []
    node = graph.only_user(layer.output)
    while node is not None and isinstance(node.operator, Pool) and node.operator.kind == "max":
        pools.append(node)
        node = graph.only_user(node.output)
    return Chain(pools, node) if node is not None and isinstance(node.operator, Sign) else None


def sign_steps(sign: Node, unit: NDArray[np.float64], bias: NDArray[np.float64] | float) -> Steps:
    """From a sum in whole numbers to the real number whose sign is taken."""
    return [(unit, np.broadcast_to(np.asarray(bias, np.float64), unit.shape)), *steps_of(sign)]


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
