"""Quantise the remaining real numbers of a partly quantised model by calibration.

Its existing integers do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, View, take_instead
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.quantisation.join import join
from mapper.compiler.quantisation.parameters import (
    HEADROOM,
    Precision,
    Scaling,
    quantised_weights,
    scaling,
)
from mapper.compiler.quantisation.ranges import Ends, Range
from mapper.compiler.quantisation.weights import store_weights, stored_weights
from mapper.errors import MapperError

COMPUTED = (
    op.Conv | op.Dense | op.Add | op.Pool | op.MOVES | op.Activation | op.Function | op.Product
)  # fmt: skip
BITS = 8  # bits of the maps that get scales here


def is_in_part(graph: Graph) -> bool:
    """Return whether a graph already has maps of stored integers."""
    return any(isinstance(node.operator, op.Quantise | op.Dequantise) for node in graph.nodes)


def without_scales(graph: Graph) -> list[Tensor]:
    """Return the real maps on cores that have no scale in the model."""
    found: dict[Tensor, None] = {}
    for node in graph.nodes:
        if not isinstance(node.operator, COMPUTED) or node.output.type != "float32":
            continue
        for tensor in node.inputs:
            from_cores = graph.maker(tensor, COMPUTED | op.Dequantise)
            if tensor.value is None and from_cores is None:
                found[tensor] = None
        joined = op.Quantise if _is(node, op.Activation) else op.Activation | op.Quantise
        if graph.only_user(node.output, joined) is None:
            found[node.output] = None
    return list(found)


class Rest:
    """Builds the integer graph of a partly quantised graph.

    source : unchanged input graph; stored : for each of its real maps, the map of the integer graph
    """

    def __init__(self, source: Graph, precision: Precision) -> None:
        self.source, self.precision = source, precision
        self.copies: dict[Tensor, Tensor] = {}
        self.stored: dict[Tensor, Tensor] = {}

    def convert(self, ranges: Mapping[Tensor, Range | Ends]) -> Graph:
        """Return the integer graph; raise `MapperError` that names a node which cannot be
        converted.
        """
        made = self._copied()
        wanted = without_scales(self.source)
        for tensor in wanted:
            copy = self.copies[tensor]
            _between(made, copy, self._scaling(tensor, ranges[tensor]))
        for node in made.nodes:
            weights = node.inputs[1] if isinstance(node.operator, op.Conv | op.Dense) else None
            if weights is None or node.output.type != "float32":
                continue
            if isinstance(stored_weights(made, node), str):
                values, scales = quantised_weights(
                    weights.numbers, BITS, self.precision.per_channel
                )
                store_weights(made, node, values, scales)
        whys: dict[str, str] = {}
        stored = {node.inputs[0]: node.output for node in made.nodes_of(op.Quantise)}
        stored |= {node.output: node.inputs[0] for node in made.nodes_of(op.Dequantise)}
        join(made, whys)
        for node in made.nodes:
            if not isinstance(node.operator, op.Host) and node.output.type == "float32":
                name = node.sources[0]
                why = whys.get(name, "no core computes it here")
                raise MapperError(f"{node.label}: {why}; keep {name!r} on the host with --keep")
        here = {tensor for node in made.nodes for tensor in (*node.inputs, *node.outputs)}
        for tensor, copy in self.copies.items():
            found = stored.get(copy, copy)
            if found in here:
                self.stored[tensor] = found
        for name, view in self.source.inputs.items():
            self.stored[view.tensor] = made.inputs[name].tensor
        return made

    def _scaling(self, tensor: Tensor, found: Range | Ends) -> Scaling:
        user = self.source.only_user(tensor)
        inside, outside = HEADROOM[BITS]
        given = any(view.tensor is tensor for view in self.source.inputs.values())
        last = self.source.is_output(tensor) or (user is not None and _is(user, op.Host))
        factor = self.precision.headroom * (1.0 if given else outside if last else inside)
        return scaling(found.low * factor, found.high * factor, BITS, self.precision.scheme)

    def _copied(self) -> Graph:
        """Return a copy of the source that may be changed."""
        for tensor in self.source.tensors():
            self.copies[tensor] = tensor if tensor.value is not None else replace(tensor)
        made = Graph()
        made.inputs = {name: self._view(view) for name, view in self.source.inputs.items()}
        made.outputs = {name: self._view(view) for name, view in self.source.outputs.items()}
        made.left_out = list(self.source.left_out)
        made.quantised = dict(self.source.quantised)
        for node in self.source.nodes:
            operator = node.operator
            if isinstance(operator, op.Host):
                given, results = (
                    tuple(self._view(one) if isinstance(one, View) else one for one in some)
                    for some in (operator.given, operator.results)
                )
                operator = replace(operator, given=given, results=results)
            taken, results_ = ([self.copies[one] for one in some]
                               for some in (node.inputs, node.outputs))  # fmt: skip
            made.nodes.append(Node(operator, taken, results_, node.sources))
        return made

    def _view(self, view: View) -> View:
        return view._replace(tensor=self.copies[view.tensor])


def _is(node: Node, kind: type) -> bool:
    return isinstance(node.operator, kind)


def _between(graph: Graph, tensor: Tensor, how: Scaling) -> None:
    """Insert Quantise and Dequantise nodes after a map of real numbers."""
    maker = graph.maker(tensor)
    at = 0 if maker is None else graph.nodes.index(maker) + 1
    stored = Tensor(f"{tensor.name}.stored", tensor.shape, "int8", *how, stored=True)
    real = Tensor(f"{tensor.name}.real", tensor.shape)
    users = [node for node in graph.users(tensor) if not _is(node, op.Quantise)]
    outputs = {name: view for name, view in graph.outputs.items() if view.tensor is tensor}
    sources = maker.sources if maker is not None else users[0].sources
    for node in users:
        if isinstance(node.operator, op.Host) and (maker is None or _is(maker, op.Host)):
            continue  # maps from host to host are not stored
        take_instead(node, tensor, real)
    if maker is not None and not _is(maker, op.Host):
        graph.outputs |= {name: view._replace(tensor=real) for name, view in outputs.items()}
    graph.nodes[at:at] = [
        Node(op.Quantise(), [tensor], [stored], sources),
        Node(op.Dequantise(), [stored], [real], sources),
    ]
