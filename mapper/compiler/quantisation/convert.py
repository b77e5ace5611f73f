"""Convert a floating-point graph to a graph of integers, from the ranges of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import Node, Operator
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Tensor, Type
from mapper.compiler.numerics.binary import thresholds
from mapper.compiler.numerics.formulas import (
    LEAST_FACTOR,
    add_factors,
    folded_bias,
    half_away,
    multiplier,
)
from mapper.compiler.quantisation.exact import (
    as_requantisation,
    differences,
    end_steps,
    scaled_offset,
)
from mapper.compiler.quantisation.layers import (
    ACCUMULATOR,
    WeightLayer,
    bounds_of,
    constants_of,
    finite_weights,
    mean_nodes,
    product_nodes,
    real_bias,
    requantised,
    require_whole_sums,
    scales_for_bias,
    slope_of,
    table_node,
)
from mapper.compiler.quantisation.parameters import Precision, Scaling, quantised_weights
from mapper.compiler.quantisation.ranges import Ends, Range
from mapper.compiler.quantisation.scales import ScalePlan, is_mean, maps_of
from mapper.errors import MapperError


class Converter(ScalePlan):
    """Builds the integer graph node by node.

    layers : layers with weights of the integer graph that `convert` built, in order
    """

    def __init__(self, graph: Graph, precision: Precision) -> None:
        super().__init__(graph, precision)
        self.made = Graph()
        self.stored: dict[Tensor, Tensor] = {}
        self.copies: dict[Tensor, Tensor] = {}
        self.layers: list[WeightLayer] = []
        self.notes: list[str] = []

    def convert(self, ranges: Mapping[Tensor, Range | Ends]) -> Graph:
        """Return the integer graph; raise `MapperError` that names a layer that cannot be
        converted.
        """
        scales = self.scalings(self.with_copies(ranges))
        for name, view in self.source.inputs.items():
            if view.tensor in self.exact.hosted:
                self.made.inputs[name] = view
                self.stored[view.tensor] = view.tensor
                continue
            self.made.inputs[name] = view._replace(tensor=self._store(view.tensor, scales))
        own = {id(node) for node in self.own_nodes()}
        for node in self.source.nodes:
            if isinstance(node.operator, op.Host):
                self._host(node, scales)
            elif id(node) in own:
                self._narrow(node, scales)
                result = self._stored_result(node, scales)
                self._convert(node, self.covered[id(node)], result, self.sources(node))
        self.made.outputs = {name: self._view(view) for name, view in self.source.outputs.items()}
        return self.made

    def _stored_result(self, node: Node, scales: dict[Tensor, Scaling]) -> Tensor:
        tensor = self.result(node)
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

    def _narrow(self, node: Node, scales: dict[Tensor, Scaling]) -> None:
        """Add copies in 8 bits of the maps of 16 bits that a layer of 8 bits reads."""
        for tensor in maps_of(node):
            copy = self.narrowed.get(tensor)
            if copy is None or copy in self.copies or not self._reads_copies(node):
                continue
            data = self.stored[tensor]
            made = self.copies[copy] = Tensor(
                copy.name, copy.shape, "int8", *scales[copy], stored=True
            )
            bounds, rounding = (made.low, made.high), self.precision.rounding
            maker = self.source.maker(tensor)
            sources = node.sources if maker is None else maker.sources
            self.made.nodes.append(requantised(data, made, bounds, sources, rounding))

    def _given(self, node: Node) -> list[Tensor]:
        """Return the stored integers that a node reads."""
        maps = maps_of(node)
        if self._reads_copies(node):
            maps = [self.narrowed.get(tensor, tensor) for tensor in maps]
        return [self.copies.get(tensor) or self.stored[tensor] for tensor in maps]

    def _view(self, view: View) -> View:
        """Return a view of stored integers, or of real numbers that the host computed."""
        if self.source.maker(view.tensor, op.Host) is not None:
            return view
        return view._replace(tensor=self.stored[view.tensor])

    def _host(self, node: Node, scales: dict[Tensor, Scaling]) -> None:
        operator = node.operator
        assert isinstance(operator, op.Host)
        given = tuple(self._view(one) if isinstance(one, View) else one for one in operator.given)
        inputs = [one.tensor for one in given if isinstance(one, View)]
        made = replace(operator, given=given)
        self.made.nodes.append(Node(made, inputs, node.outputs, node.sources))
        for tensor in self.from_host(node):
            stored = self._store(tensor, scales)
            self.made.nodes.append(Node(op.Quantise(), [tensor], [stored], node.sources))

    def _convert(
        self, node: Node, follower: Node | None, result: Tensor, sources: tuple[str, ...]
    ) -> None:
        if self._exact(node, result, sources):
            return
        low, high = bounds_of(follower, result)
        inputs = self._given(node)
        if isinstance(node.operator, op.Conv | op.Dense):
            self._conv(node, follower, result, sources)
        elif isinstance(node.operator, op.Add):
            a, b = ((tensor.scale, tensor.zero_point) for tensor in inputs)
            bits = max(result.bits, *(tensor.bits for tensor in inputs))
            factors = add_factors(a, b, result.scale, bits, node.label)
            made = op.Add(factors, low, high, self.precision.rounding)
            self.made.nodes.append(Node(made, inputs, [result], sources))
        elif isinstance(node.operator, op.Product):
            how = (low, high), self.precision.rounding
            self.made.nodes += product_nodes((inputs[0], inputs[1]), result, *how, sources)
        elif isinstance(node.operator, op.Function):
            rounding = self.precision.rounding
            made_ = table_node(node.operator.term, inputs[0], result, sources, rounding)
            self.made.nodes.append(made_)
        elif is_mean(node):
            self.made.nodes += mean_nodes(
                node.operator, inputs[0], result, (low, high), self.precision.rounding, sources
            )
        elif isinstance(node.operator, op.Activation):
            if len(node.inputs) > 1 or node.operator.slope not in (0.0, 1.0):
                raise MapperError(f"{node.label}: a leaky activation needs a convolution before it")
            low, high = bounds_of(node, result)
            if inputs[0].same_scale(result):
                made_ = Node(op.Clamp(low, high), inputs, [result], sources)
            else:
                rounding = self.precision.rounding
                made_ = requantised(inputs[0], result, (low, high), sources, rounding)
            self.made.nodes.append(made_)
        elif isinstance(node.operator, op.Pool | op.MOVES):
            inputs = [self._rescaled(data, result, sources) for data in inputs]
            self.made.nodes.append(Node(node.operator, inputs, [result], sources))
        else:
            raise MapperError(
                f"{node.label}: no core computes it here; keep {node.sources[0]!r} on the host"
            )

    def _rescaled(self, data: Tensor, result: Tensor, sources: tuple[str, ...]) -> Tensor:
        """Return data with the scale of the result, where signs or levels meet other maps."""
        if data.same_scale(result):
            return data
        made = replace(result, name=f"{data.name}.as {result.name}", shape=data.shape)
        bounds = result.low, result.high
        self.made.nodes.append(requantised(data, made, bounds, sources, self.precision.rounding))
        return made

    def _exact(self, node: Node, result: Tensor, sources: tuple[str, ...]) -> bool:
        """Convert a node that makes signs, or sums of levels; return whether it was one."""
        if isinstance(node.operator, op.Sign | op.Levels):
            data = self._given(node)[0]
            if data.type == "float32":
                taken = [data, *node.inputs[1:]]
                self.made.nodes.append(Node(op.Quantise(node.operator), taken, [result], sources))
                return True
            unit = np.full(data.channels, data.scale)
            bounds = np.full(data.channels, max(-data.low, data.high))
            self._end(node, unit, -unit * data.zero_point, bounds, (data, result))
            return True
        chain, found = self.exact.chains.get(id(node)), self.exact.kernels(node)
        if chain is None and (found is None or slope_of(self.covered[id(node)]) is not None):
            return False
        data, weights = self._given(node)[0], finite_weights(node)
        if found is None:
            stored, scales = quantised_weights(weights, data.bits, self.precision.per_channel)
            found = stored, scales.astype(np.float64)
        bias = real_bias(node)
        stored, unit = found[0], data.scale * found[1]
        whole = folded_bias(np.zeros(stored.shape[0]), stored, data.zero_point)
        bounds = require_whole_sums(stored, whole, data.bits, node.label)
        sums = Tensor(f"{result.name}.sums", node.output.shape, "int32", 1.0)
        last = sums if chain is not None or result.type != "int32" else result
        self.made.nodes.append(
            Node(
                node.operator,
                [data, *constants_of(node, stored, whole, data.type, "int32")],
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
            self.made.nodes.append(Node(op.Requantise(how), [sums], [result], sources))
        return True

    def _end(
        self, end: Node, unit: Any, bias: Any, bounds: Any, where: tuple[Tensor, Tensor]
    ) -> None:
        """Add signs or levels of whole numbers, which stand for unit * number + bias.

        bounds : largest magnitude of the numbers, per channel; where : the numbers and the result
        """
        steps = end_steps(end, unit, bias)
        made: Operator
        if isinstance(end.operator, op.Sign):
            made = op.Threshold(*thresholds(steps, end.label))
        else:
            assert isinstance(end.operator, op.Levels)
            how = as_requantisation(steps, end.operator, end.label)
            made = op.Requantise(how)
            if told := differences(how, steps, end.operator, bounds):
                self.notes.append(f"{end.label}: {told}")
        self.made.nodes.append(Node(made, [where[0]], [where[1]], end.sources))

    def _conv(
        self, node: Node, follower: Node | None, result: Tensor, sources: tuple[str, ...]
    ) -> None:
        data = self._given(node)[0]
        weights, bits = finite_weights(node), data.bits
        stored, scales = quantised_weights(weights, bits, self.precision.per_channel)
        bias = real_bias(node)
        least = scales_for_bias(bias, data, result, stored[0].size)
        coarser = int((least > scales).sum())
        # Channels without effect, as training leaves them, would need a shift beyond the largest.
        # Half of this factor also has a multiplier, so rounding of scales does not fall below the
        # limit.
        least = np.maximum(least, 2 * LEAST_FACTOR * result.scale / data.scale)
        if self.precision.per_channel and (least > scales).any():
            stored, scales = quantised_weights(weights, bits, True, least)
            if coarser and stored.any():
                self.notes.append(
                    f"{node.label}: weights of some channels ({coarser}) are tiny compared with "
                    "their bias and get larger steps, so that the bias fits an accumulator"
                )
        if not stored.any():
            largest = float(np.abs(weights).max(initial=0))
            self.notes.append(
                f"layer {node.sources[0]!r}: its weights "
                + (f"of {largest:.3g} or less quantise to zero" if largest else "are zero")
                + " and make it constant"
            )
        unit = np.float64(data.scale) * scales.astype(np.float64)
        bias = bias / unit
        if not (np.abs(bias) < 2.0 ** ACCUMULATOR[bits]).all():
            raise MapperError(f"{node.label}: its bias does not fit an accumulator")
        whole = folded_bias(half_away(bias), stored, data.zero_point)
        wide: Type = "int32" if bits == 8 else "int64"
        sums = Tensor(f"{result.name}.sums", node.output.shape, wide)
        constants = constants_of(node, stored, whole, data.type, wide)
        conv = Node(node.operator, [data, *constants], [sums], sources)
        low, high = bounds_of(follower, result)
        slope, rounding = slope_of(follower), self.precision.rounding
        zero_point = result.zero_point
        if self.precision.zero_point == "bias" and slope is None:
            whole = whole + half_away(zero_point * result.scale / unit)
            zero_point = 0
        how = Requantisation(multiplier(0.0, node.label), zero_point, low, high, rounding)
        requantise = Node(op.Requantise(how), [sums], [result], sources)
        layer = WeightLayer(self.result(node), conv, requantise, unit, slope)
        layer.set_bias(whole)
        self.layers.append(layer)
        self.made.nodes += [conv, requantise]
