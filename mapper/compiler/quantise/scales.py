"""Which tensors of a float graph become stored integers, which of them share a scale, which have 16
bits, and the scales by their ranges."""

from __future__ import annotations

from collections.abc import Mapping

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import (
    Activation,
    Add,
    Concat,
    Conv,
    Dense,
    Host,
    Node,
    Pool,
    Slice,
    Upsample,
)
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.quantise.exact import ExactLayers
from mapper.compiler.quantise.parameters import HEADROOM, Precision, Scaling, scaling
from mapper.compiler.quantise.ranges import Ends, Range

COMPUTES = (Conv, Dense, Add)


def is_mean(node: Node) -> bool:
    return isinstance(node.operator, Pool) and node.operator.kind == "average"


class ScalePlan:
    """What of a float graph is stored, and how.

    source : the graph, whose activations follow what they belong to
    covered : by id of each node, the activation that is part of its requantisation, or None
    members : of each tensor those that share its scale
    wide : the tensors of 16 bits where others have 8
    """

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self.source = graph
        self.precision = precision
        self.exact = ExactLayers(graph)
        self.covered = {id(node): self._activation(node) for node in graph.nodes}
        self.members = self._sharing()
        self.wide = self._wide()

    def quantised_tensors(self) -> list[Tensor]:
        """The tensors of the float graph whose ranges are needed."""
        inputs = [
            view.tensor
            for view in self.source.inputs.values()
            if view.tensor not in self.exact.hosted
        ]
        return (
            inputs
            + [
                tensor
                for node in self.source.nodes
                for tensor in (self.from_host(node) if isinstance(node.operator, Host) else ())
            ]
            + [
                self.result(node)
                for node in self.own_nodes()
                if self.result(node) not in self.exact.scales
                and self.exact.whole_scale(node) is None
            ]
        )

    def from_host(self, node: Node) -> list[Tensor]:
        """What cores take of a node of the host."""
        taken = {tensor for own in self.own_nodes() for tensor in own.inputs}
        return [tensor for tensor in node.outputs if tensor in taken]

    def own_nodes(self) -> list[Node]:
        """The nodes that make stored integers; activations belong to the nodes before them."""
        followers = {id(one) for one in self.covered.values() if one is not None}
        followers |= self.exact.covered()
        return [
            node
            for node in self.source.nodes
            if id(node) not in followers and not isinstance(node.operator, Host)
        ]

    def _activation(self, node: Node) -> Node | None:
        """The activation that is part of a node's requantisation."""
        if not isinstance(node.operator, COMPUTES) and not is_mean(node):
            return None
        user = self.source.only_user(node.output)
        if user is None or not isinstance(user.operator, Activation):
            return None
        plain = len(user.inputs) == 1 and user.operator.slope in (0.0, 1.0)
        return user if plain or isinstance(node.operator, Conv | Dense) else None

    def result(self, node: Node) -> Tensor:
        if chain := self.exact.chains.get(id(node)):
            return chain.end.output
        follower = self.covered[id(node)]
        return node.output if follower is None else follower.output

    def _sharing(self) -> dict[Tensor, list[Tensor]]:
        """The tensors that share a scale with each: what only moves, or picks, stored integers."""
        group: dict[Tensor, list[Tensor]] = {}
        for node in self.own_nodes():
            result = self.result(node)
            group.setdefault(result, [result])
            moves = isinstance(node.operator, Concat | Slice | Upsample | Activation)
            if moves or (isinstance(node.operator, Pool) and not is_mean(node)):
                for tensor in (
                    node.inputs[:1] if not isinstance(node.operator, Concat) else node.inputs
                ):
                    merged = group.setdefault(tensor, [tensor])
                    if merged is not group[result]:
                        merged += group[result]
                        for one in group[result]:
                            group[one] = merged
        return group

    def _wide(self) -> set[Tensor]:
        """The tensors of 16 bits where others have 8: what wide nodes take and make, and what
        shares a scale with it."""
        found: set[Tensor] = set()
        for node in self.own_nodes():
            follower = self.covered[id(node)]
            sources = node.sources + (follower.sources if follower else ())
            if not set(sources) & set(self.precision.wide):
                continue
            maps = [tensor for tensor in node.inputs if tensor.value is None]
            for tensor in (*maps, self.result(node)):
                found |= set(self.members.get(tensor, [tensor]))
        return found

    def bits_of(self, tensor: Tensor) -> int:
        """Of the stored integers of a tensor of the float graph."""
        return 16 if tensor in self.wide else self.precision.bits

    def scalings(self, ranges: Mapping[Tensor, Range | Ends]) -> dict[Tensor, Scaling]:
        """Of each tensor with a range; those of outputs, and of what shares with them, have more
        headroom."""
        found = {}
        inputs = {view.tensor for view in self.source.inputs.values()}
        last = {view.tensor for view in self.source.outputs.values()}
        last |= {t for n in self.source.nodes if isinstance(n.operator, Host) for t in n.inputs}
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
        return found
