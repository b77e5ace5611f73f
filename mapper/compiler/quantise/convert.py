"""A float graph as a graph of integers, by ranges of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph, View
from mapper.compiler.graph.node import (
    Activation,
    Add,
    Clamp,
    Concat,
    Conv,
    Dense,
    Host,
    Levels,
    Node,
    Operator,
    Pool,
    Quantise,
    Requantise,
    Sign,
    Slice,
    Threshold,
    Upsample,
)
from mapper.compiler.graph.tensor import Tensor, Type
from mapper.compiler.integer.binary import thresholds
from mapper.compiler.integer.formulas import (
    Requantisation,
    Rounding,
    add_factors,
    folded_bias,
    half_away,
    multiplier,
)
from mapper.compiler.quantise.exact import (
    ExactLayers,
    as_requantisation,
    differences,
    end_steps,
    scaled_offset,
)
from mapper.compiler.quantise.layers import ACCUMULATOR, Layer, require_whole_sums
from mapper.compiler.quantise.operators import bounds_of, mean_nodes, slope_of
from mapper.compiler.quantise.parameters import (
    HEADROOM,
    Scaling,
    Scheme,
    quantised_weights,
    scaling,
)
from mapper.compiler.quantise.ranges import Ends, Range
from mapper.errors import MapperError

COMPUTES = (Conv, Dense, Add)


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are stored.

    headroom : multiplies that of inner tensors and of outputs
    rounding : of all shifts
    zero_point : added behind the "shift", or in the "bias" of layers that have one and no leaky
        activation, which must see sums without it
    wide : ONNX nodes whose maps, results and weights have 16 bits where others have 8
    """

    bits: int = 8
    scheme: Scheme = "asym"
    per_channel: bool = True
    headroom: float = 1.0
    rounding: Rounding = "away"
    zero_point: Literal["shift", "bias"] = "shift"
    wide: tuple[str, ...] = ()


def is_mean(node: Node) -> bool:
    return isinstance(node.operator, Pool) and node.operator.kind == "average"


class Converter:
    """Makes the graph of integers, node by node.

    graph : of floats, whose activations follow what they belong to
    layers : those with weights, in order, of the graph of integers that `convert` made
    """

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self.source = graph
        self.precision = precision
        self.made = Graph()
        self.stored: dict[Tensor, Tensor] = {}
        self.layers: list[Layer] = []
        self.exact = ExactLayers(graph)
        self.notes: list[str] = []
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
                for tensor in (self._from_host(node) if isinstance(node.operator, Host) else ())
            ]
            + [
                self._result(node)
                for node in self._own_nodes()
                if self._result(node) not in self.exact.scales
                and self.exact.whole_scale(node) is None
            ]
        )

    def _from_host(self, node: Node) -> list[Tensor]:
        """What cores take of a node of the host."""
        taken = {tensor for own in self._own_nodes() for tensor in own.inputs}
        return [tensor for tensor in node.outputs if tensor in taken]

    def _own_nodes(self) -> list[Node]:
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

    def _result(self, node: Node) -> Tensor:
        if chain := self.exact.chains.get(id(node)):
            return chain.end.output
        follower = self.covered[id(node)]
        return node.output if follower is None else follower.output

    def _sharing(self) -> dict[Tensor, list[Tensor]]:
        """The tensors that share a scale with each: what only moves, or picks, stored integers."""
        group: dict[Tensor, list[Tensor]] = {}
        for node in self._own_nodes():
            result = self._result(node)
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
        for node in self._own_nodes():
            follower = self.covered[id(node)]
            sources = node.sources + (follower.sources if follower else ())
            if not set(sources) & set(self.precision.wide):
                continue
            maps = [tensor for tensor in node.inputs if tensor.value is None]
            for tensor in (*maps, self._result(node)):
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

    def convert(self, ranges: Mapping[Tensor, Range | Ends]) -> Graph:
        """The graph of integers; raises `MapperError` that names the layer that has none."""
        scales = self.scalings(ranges)
        for name, view in self.source.inputs.items():
            if view.tensor in self.exact.hosted:
                self.made.inputs[name] = view
                self.stored[view.tensor] = view.tensor
                continue
            self.made.inputs[name] = view._replace(tensor=self._store(view.tensor, scales))
        own = {id(node) for node in self._own_nodes()}
        for node in self.source.nodes:
            if isinstance(node.operator, Host):
                self._host(node, scales)
            elif id(node) in own:
                follower = self.covered[id(node)]
                result = self._stored_result(node, scales)
                sources = node.sources + (follower.sources if follower else ())
                self._convert(node, follower, result, sources)
        self.made.outputs = {name: self._view(view) for name, view in self.source.outputs.items()}
        return self.made

    def _stored_result(self, node: Node, scales: dict[Tensor, Scaling]) -> Tensor:
        tensor = self._result(node)
        whole = self.exact.whole_scale(node)
        given = self.exact.scales.get(tensor)
        if whole is None and given is None:
            return self._store(tensor, scales)
        if whole is not None:
            made = Tensor(tensor.name, tensor.shape, "int32", whole, stored=True)
        else:
            made = Tensor(tensor.name, tensor.shape, "int8", *given, stored=True)  # type: ignore[misc]
        self.stored[tensor] = made
        return made

    def _store(self, tensor: Tensor, scales: dict[Tensor, Scaling]) -> Tensor:
        made = Tensor(
            tensor.name, tensor.shape, "int8" if self.bits_of(tensor) == 8 else "int16",
            *scales[tensor], stored=True,
        )  # fmt: skip
        self.stored[tensor] = made
        return made

    def _view(self, view: View) -> View:
        """Of stored integers, or of real numbers that the host made."""
        maker = self.source.maker(view.tensor)
        if maker is not None and isinstance(maker.operator, Host):
            return view
        return view._replace(tensor=self.stored[view.tensor])

    def _host(self, node: Node, scales: dict[Tensor, Scaling]) -> None:
        operator = node.operator
        assert isinstance(operator, Host)
        given = tuple(self._view(one) if isinstance(one, View) else one for one in operator.given)
        inputs = [one.tensor for one in given if isinstance(one, View)]
        made = replace(operator, given=given)
        self.made.nodes.append(Node(made, inputs, node.outputs, node.sources))
        for tensor in self._from_host(node):
            stored = self._store(tensor, scales)
            self.made.nodes.append(Node(Quantise(), [tensor], [stored], node.sources))

    def _convert(
        self, node: Node, follower: Node | None, result: Tensor, sources: tuple[str, ...]
    ) -> None:
        if self._exact(node, result, sources):
            return
        low, high = bounds_of(follower, result)
        inputs = [self.stored[tensor] for tensor in node.inputs if tensor.value is None]
        if isinstance(node.operator, Conv | Dense):
            self._conv(node, follower, result, sources)
        elif isinstance(node.operator, Add):
            a, b = ((tensor.scale, tensor.zero_point) for tensor in inputs)
            bits = max(result.bits, *(tensor.bits for tensor in inputs))
            factors = add_factors(a, b, result.scale, bits, node.label)
            made = Add(factors, low, high, self.precision.rounding)
            self.made.nodes.append(Node(made, inputs, [result], sources))
        elif is_mean(node):
            operator = node.operator
            assert isinstance(operator, Pool)
            rounding = self.precision.rounding
            self.made.nodes += mean_nodes(
                operator, inputs[0], result, (low, high), rounding, sources
            )
        elif isinstance(node.operator, Activation):
            if len(node.inputs) > 1 or node.operator.slope not in (0.0, 1.0):
                raise MapperError(f"{node.label}: a leaky activation needs a convolution before it")
            low, high = bounds_of(node, result)
            self.made.nodes.append(Node(Clamp(low, high), inputs, [result], sources))
        elif isinstance(node.operator, Pool | Concat | Slice | Upsample):
            self.made.nodes.append(Node(node.operator, inputs, [result], sources))
        else:
            raise MapperError(
                f"{node.label}: no core does this here; keep {node.sources[0]!r} on the host"
            )

    def _exact(self, node: Node, result: Tensor, sources: tuple[str, ...]) -> bool:
        """Whether a node makes signs, or whole numbers of signs, which is done then."""
        if isinstance(node.operator, Sign | Levels):
            data = self.stored[node.inputs[0]]
            if data.type == "float32":
                taken = [data, *node.inputs[1:]]
                self.made.nodes.append(Node(Quantise(node.operator), taken, [result], sources))
                return True
            unit = np.full(data.channels, data.scale)
            bounds = np.full(data.channels, max(-data.low, data.high))
            self._end(node, unit, -unit * data.zero_point, bounds, (data, result))
            return True
        chain, found = self.exact.chains.get(id(node)), self.exact.kernels(node)
        if chain is None and (found is None or slope_of(self.covered[id(node)]) is not None):
            return False
        data, weights, bias = self.stored[node.inputs[0]], node.inputs[1], np.zeros(())
        assert weights.value is not None
        if not np.isfinite(weights.value).all():
            raise MapperError(f"{node.label}: its weights are not finite")
        if found is None:
            stored, scales = quantised_weights(weights.value, data.bits, self.precision.per_channel)
            found = stored, scales.astype(np.float64)
        if len(node.inputs) > 2:
            bias = np.asarray(node.inputs[2].value, np.float64)
        stored, unit = found[0], data.scale * found[1]
        whole = folded_bias(np.zeros(stored.shape[0]), stored, data.zero_point)
        bounds = require_whole_sums(stored, whole, data.bits, node.label)
        sums = Tensor(f"{result.name}.sums", node.output.shape, "int32", 1.0)
        last = sums if chain is not None or result.type != "int32" else result
        self.made.nodes.append(
            Node(
                node.operator,
                [
                    data,
                    Tensor(weights.name, stored.shape, data.type, value=stored),
                    Tensor(f"{node.sources[0]}.bias", whole.shape, "int32", value=whole),
                ],
                [last],
                node.sources,
            )
        )
        if chain is not None:
            for pool in chain.pools:
                pooled = Tensor(f"{pool.output.name}.sums", pool.output.shape, "int32")
                self.made.nodes.append(Node(pool.operator, [sums], [pooled], pool.sources))
                sums = pooled
            self._end(chain.end, unit, bias, bounds, (sums, result))
        elif result.type != "int32":
            low, high = bounds_of(self.covered[id(node)], result)
            factor, offset = scaled_offset(
                unit / result.scale, np.broadcast_to(bias, unit.shape) / result.scale, node.label
            )
            how = Requantisation(
                factor, result.zero_point, low, high, self.precision.rounding, offset=offset
            )
            self.made.nodes.append(Node(Requantise(how), [sums], [result], sources))
        return True

    def _end(
        self, end: Node, unit: Any, bias: Any, bounds: Any, where: tuple[Tensor, Tensor]
    ) -> None:
        """Signs or levels of whole numbers, which stand for unit * number + bias.

        bounds : of the numbers, by channel; where : the numbers, and what is made of them
        """
        steps = end_steps(end, unit, bias)
        made: Operator
        if isinstance(end.operator, Sign):
            made = Threshold(*thresholds(steps, end.label))
        else:
            assert isinstance(end.operator, Levels)
            how = as_requantisation(steps, end.operator, end.label)
            made = Requantise(how)
            if told := differences(how, steps, end.operator, bounds):
                self.notes.append(f"{end.label}: {told}")
        self.made.nodes.append(Node(made, [where[0]], [where[1]], end.sources))

    def _conv(
        self, node: Node, follower: Node | None, result: Tensor, sources: tuple[str, ...]
    ) -> None:
        data = self.stored[node.inputs[0]]
        weights, bits = node.inputs[1], data.bits
        assert weights.value is not None
        if not np.isfinite(weights.value).all():
            raise MapperError(f"{node.label}: its weights are not finite")
        stored, scales = quantised_weights(weights.value, bits, self.precision.per_channel)
        unit = np.float64(data.scale) * scales.astype(np.float64)
        bias: NDArray[Any] = np.zeros(stored.shape[0])
        if len(node.inputs) > 2:
            assert node.inputs[2].value is not None
            bias = node.inputs[2].value.astype(np.float64) / unit
        if not (np.abs(bias) < 2.0 ** ACCUMULATOR[bits]).all():
            raise MapperError(f"{node.label}: its bias does not fit an accumulator")
        whole = folded_bias(half_away(bias), stored, data.zero_point)
        wide: Type = "int32" if bits == 8 else "int64"
        sums = Tensor(f"{result.name}.sums", node.output.shape, wide)
        constants = [
            Tensor(weights.name, stored.shape, data.type, value=stored),
            Tensor(f"{node.sources[0]}.bias", whole.shape, wide, value=whole),
        ]
        conv = Node(node.operator, [data, *constants], [sums], sources)
        low, high = bounds_of(follower, result)
        slope, rounding = slope_of(follower), self.precision.rounding
        zero_point = result.zero_point
        if self.precision.zero_point == "bias" and slope is None:
            whole = whole + half_away(zero_point * result.scale / unit)
            zero_point = 0
        how = Requantisation(multiplier(0.0, node.label), zero_point, low, high, rounding)
        requantise = Node(Requantise(how), [sums], [result], sources)
        layer = Layer(self._result(node), conv, requantise, unit, slope)
        layer.set_bias(whole)
        self.layers.append(layer)
        self.made.nodes += [conv, requantise]
