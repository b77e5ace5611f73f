"""Select which tensors of a graph are stored as integers, their widths, scales and shared
scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.term import Term
from mapper.compiler.layer_bits import Bits
from mapper.compiler.numerics.functions import value_of
from mapper.compiler.quantisation.exact import ExactLayers
from mapper.compiler.quantisation.parameters import HEADROOM, Precision, Scaling, scaling
from mapper.compiler.quantisation.ranges import Ends, Range

SAMPLES = 4097  # of a function over the range of its input
COMPUTES = (op.Conv, op.Dense, op.Add, op.Product)
COMPUTES_8 = (op.Conv, op.Dense, op.Product, op.Function)
"""Operators whose precision is the precision of their inputs."""
NARROWED = ".narrowed"
"""Suffix of names of copies in 8 bits."""
AnyRange = TypeVar("AnyRange", bound=Range | Ends)


def maps_of(node: Node) -> list[Tensor]:
    """Return the inputs of a node that are no constants."""
    return [tensor for tensor in node.inputs if tensor.value is None]


def is_mean(node: Node) -> bool:
    return isinstance(node.operator, op.Pool) and node.operator.kind == "average"


class ScalePlan:
    """Storage plan of a floating-point graph.

    source : graph, in which each activation follows its layer
    covered : by id of each node, the activation that is part of its requantisation, or None
    members : for each tensor, the tensors that share its scale
    wide : tensors of 16 bits where others have 8
    narrowed : for tensors of 16 bits that layers of 8 bits also read, their copies in 8 bits
    """

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self.source = graph
        self.precision = precision
        self.exact = ExactLayers(graph)
        self.covered = {id(node): self._activation(node) for node in graph.nodes}
        self.members = self._sharing()
        self.wide = self._wide()
        self.narrowed = self._narrowed()

    def quantised_tensors(self) -> list[Tensor]:
        """Return the tensors of the floating-point graph whose ranges are needed."""
        inputs = [
            view.tensor
            for view in self.source.inputs.values()
            if view.tensor not in self.exact.hosted
        ]
        for node in self.source.nodes_of(op.Host):
            inputs += self.from_host(node)
        return inputs + [
            self.result(node)
            for node in self.own_nodes()
            if self.result(node) not in self.exact.scales and self.exact.whole_scale(node) is None
        ]

    def from_host(self, node: Node) -> list[Tensor]:
        """Return the results of a host node that cores read."""
        taken = {tensor for own in self.own_nodes() for tensor in own.inputs}
        return [tensor for tensor in node.outputs if tensor in taken]

    def own_nodes(self) -> list[Node]:
        """Return the nodes that make stored integers; activations belong to the nodes before
        them."""
        followers = {id(one) for one in self.covered.values() if one is not None}
        followers |= self.exact.covered()
        return [
            node
            for node in self.source.nodes
            if id(node) not in followers and not isinstance(node.operator, op.Host)
        ]

    def _activation(self, node: Node) -> Node | None:
        """Return the activation that is part of a node's requantisation, None if there is none."""
        if not isinstance(node.operator, COMPUTES) and not is_mean(node):
            return None
        user = self.source.only_user(node.output, op.Activation)
        if user is None:
            return None
        assert isinstance(user.operator, op.Activation)
        plain = len(user.inputs) == 1 and user.operator.slope in (0.0, 1.0)
        return user if plain or isinstance(node.operator, op.Conv | op.Dense) else None

    def result(self, node: Node) -> Tensor:
        if chain := self.exact.chains.get(id(node)):
            return chain.end.output
        follower = self.covered[id(node)]
        return node.output if follower is None else follower.output

    def _sharing(self) -> dict[Tensor, list[Tensor]]:
        """Return, for each tensor, the tensors that share its scale: nodes that only move or
        select.
        """
        group: dict[Tensor, list[Tensor]] = {}
        for node in self.own_nodes():
            result = self.result(node)
            group.setdefault(result, [result])
            moves = isinstance(node.operator, op.MOVES | op.Activation)
            if moves or node.is_max_pool:
                joins = isinstance(node.operator, op.Concat)
                for tensor in node.inputs if joins else node.inputs[:1]:
                    merged = group.setdefault(tensor, [tensor])
                    if merged is not group[result]:
                        merged += group[result]
                        for one in group[result]:
                            group[one] = merged
        return group

    def layer_bits(self, node: Node) -> int:
        """Return the bits of the activations and weights of a layer."""
        return self.precision.of_layer(self.sources(node))

    def raisable(self) -> list[Node]:
        """Return the layers whose results 16 bits would change: they compute, from maps whose
        scales are free."""
        return [
            node
            for node in self.own_nodes()
            if (isinstance(node.operator, (*COMPUTES, op.Function)) or is_mean(node))
            and not self.exact.scales.keys() >= set(maps_of(node))
        ]

    def sources(self, node: Node) -> tuple[str, ...]:
        """Return the ONNX nodes of a layer and of its activation."""
        follower = self.covered[id(node)]
        return node.sources + (follower.sources if follower else ())

    def _wide(self) -> set[Tensor]:
        """Return the tensors of 16 bits: inputs of layers of 16 bits, their results that leave the
        cores, and tensors of the same scale.

        Other results of these layers have 8 bits, as their readers require: the requantisation of
        the layer converts them.
        """
        if not self.precision.is_mixed:
            return set()
        leaving = {view.tensor for view in self.source.outputs.values()}
        leaving |= {tensor for node in self.source.nodes_of(op.Host) for tensor in node.inputs}
        found: set[Tensor] = set()
        for node in self.own_nodes():
            if self.layer_bits(node) == 8:
                continue
            for tensor in maps_of(node):
                found |= set(self.members.get(tensor, [tensor]))
            made = set(self.members[self.result(node)])
            if made & leaving:
                found |= made
        return found - self.exact.scales.keys()

    def _narrowed(self) -> dict[Tensor, Tensor]:
        """Return, for each tensor of 16 bits that layers of 8 bits read, a tensor for its copy in 8
        bits.

        Nodes that move numbers keep their bits, and sums of two maps accept both.
        """
        found: dict[Tensor, Tensor] = {}
        for node in self.own_nodes():
            if self._reads_copies(node):
                for tensor in maps_of(node):
                    if tensor in self.wide and tensor not in found:
                        found[tensor] = Tensor(f"{tensor.name}{NARROWED}", tensor.shape)
        return found

    def _reads_copies(self, node: Node) -> bool:
        """Return whether a layer reads maps of 16 bits as copies in 8 bits."""
        return isinstance(node.operator, COMPUTES_8) and self.layer_bits(node) == 8

    def with_copies(self, ranges: Mapping[Tensor, AnyRange]) -> dict[Tensor, AnyRange]:
        """Return ranges, also of copies in 8 bits."""
        copied = {copy: ranges[one] for one, copy in self.narrowed.items() if one in ranges}
        return {**copied, **ranges}

    def bits_of(self, tensor: Tensor) -> Bits:
        """Return the bits of the stored integers of a tensor."""
        if self.precision.is_mixed:
            return 16 if tensor in self.wide else 8
        return self.precision.bits

    def scalings(self, ranges: Mapping[Tensor, Range | Ends]) -> dict[Tensor, Scaling]:
        """Return the scaling of each tensor with a range.

        Outputs, and tensors that share their scale, have more headroom.
        """
        found = {}
        inputs = {view.tensor for view in self.source.inputs.values()}
        last = {view.tensor for view in self.source.outputs.values()}
        last |= {tensor for node in self.source.nodes_of(op.Host) for tensor in node.inputs}
        for tensor in ranges:
            bits = self.bits_of(tensor)
            inside, outside = HEADROOM[bits]
            members = [one for one in self.members.get(tensor, [tensor]) if one in ranges]
            factor = outside if last & set(members) else inside
            if inputs & set(members):
                factor = 1.0
            factor *= self.precision.headroom
            low = min(ranges[one].low for one in members) * factor
            high = max(ranges[one].high for one in members) * factor
            found[tensor] = scaling(low, high, bits, self.precision.scheme)
        for node in self.source.nodes_of(op.Function):
            data, result = node.inputs[0], found.get(self.result(node))
            if data in ranges and result is not None and self._is_only_for(node, data):
                low, high = (end * self.precision.headroom for end in ranges[data][:2])
                assert isinstance(node.operator, op.Function)
                ends = steep_part(node.operator.term, low, high, result.scale)
                found[data] = scaling(*ends, self.bits_of(data), self.precision.scheme)
        return found

    def _is_only_for(self, node: Node, data: Tensor) -> bool:
        """Return whether only a function reads a map whose scale it does not share."""
        return self.source.only_user(data) is node and self.members.get(data, [data]) == [data]


def steep_part(term: Term, low: float, high: float, step: float) -> tuple[float, float]:
    """Return the part of a range, with 0, outside which a function stays within a quarter of a step
    of its value at the nearer end: a sigmoid is 1 from there on, for example."""
    x = np.linspace(low, high, SAMPLES)
    y = value_of(term, x)

    def flat(values: NDArray[np.float64]) -> int:
        """Return the last place up to which values differ by less than a quarter of a step."""
        spread = np.maximum.accumulate(values) - np.minimum.accumulate(values)
        return int(np.flatnonzero(spread <= step / 4).max(initial=0))

    return min(float(x[flat(y)]), 0.0), max(float(x[-1 - flat(y[::-1])]), 0.0)
