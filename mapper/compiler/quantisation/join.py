"""Join the nodes of quantised models into integer operators.

An operator between Dequantise nodes and a Quantise node becomes a q-operator: q.conv2d, q.dense
with q.bias_add and q.requantize, q.relu, q.add, q.pool or q.concat, with the scales of the model.
Halves round to even, like QuantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.reorder import delay_depth_to_space
from mapper.compiler.ir.requantisation import AddFactors, Requantisation
from mapper.compiler.ir.tensor import Tensor, Type, constant
from mapper.compiler.numerics.formulas import folded_bias, saturating_multiplier
from mapper.compiler.quantisation.constants import (
    note_constant,
    sum_factors,
    without_products,
)
from mapper.compiler.quantisation.elementwise import activation, clipped, function, product
from mapper.compiler.quantisation.ends import settle_host, settle_inputs
from mapper.compiler.quantisation.layers import (
    ACCUMULATOR,
    constants_of,
    mean_nodes,
    real_bias,
    requantised,
    required_shift,
    slope_of,
)
from mapper.compiler.quantisation.place import ROUNDING, Made, Place, behind
from mapper.compiler.quantisation.weights import store_weights, stored_bias, stored_weights

LEAST_SUM = -(1 << 15)  # below every sum of two bytes


def join(graph: Graph, whys: dict[str, str]) -> None:
    """Replace operators by integer operators wherever all scales are known.

    whys : filled with the reason why nodes stay in real numbers, by ONNX node name
    """
    delay_depth_to_space(graph)
    _drop_pairs(graph)
    _shift_maps(graph)
    _fold_affine(graph)
    for node in list(graph.nodes):
        place = _place(graph, node)
        if place is None:
            continue
        made = _JOINED[type(node.operator)](graph, place)
        if isinstance(made, str):
            whys.update(dict.fromkeys(node.sources, made))
        else:
            _note_constant(graph, place)
            _put(graph, place, made)
    settle_host(graph)
    settle_inputs(graph)


def _note_constant(graph: Graph, place: Place) -> None:
    """Add a note if a layer is constant because of its scales."""
    if place.how is not None or place.result.type == "int32":
        return
    scales: list[tuple[Tensor, Any]]
    if isinstance(place.node.operator, op.Conv | op.Dense):
        weights = place.node.inputs[1]
        scales = [(place.data[0], place.data[0].scale), (weights, graph.quantised[weights].scale)]
    else:
        largest = max(place.data, key=lambda one: one.scale)
        scales = [(largest, largest.scale)]
    note_constant(graph, place.node.sources[0], scales, place.result)


def _drop_pairs(graph: Graph) -> None:
    """Remove Dequantise and Quantise pairs of equal scale; requantise for different scales."""
    for node in graph.nodes_of(op.Quantise):
        maker = graph.maker(node.inputs[0], op.Dequantise)
        if maker is None:
            continue
        data, result = maker.inputs[0], node.output
        if data.same_scale(result):
            graph.remove(node, data)
        else:
            made = requantised(data, result, (result.low, result.high), node.sources)
            note_constant(graph, node.sources[0], [(data, data.scale)], result)
            graph.nodes[graph.nodes.index(node)] = made
    _drop_unused(graph)


def _shift_maps(graph: Graph) -> None:
    """Fold the zero point of a stored map into the offset of RequantShift."""
    for node in graph.nodes:
        maker = graph.maker(node.inputs[0], op.Dequantise) if node.inputs else None
        if maker is not None and isinstance(node.operator, op.Requantise):
            data, how = maker.inputs[0], node.operator.how
            offset = how.offset - data.zero_point * how.factor.m0
            node.inputs, node.operator = [data], op.Requantise(how._replace(offset=offset))
    _drop_unused(graph)


def _fold_affine(graph: Graph) -> None:
    """Fold constant factors and offsets of a layer's results into its scales and bias.

    Factors that are not positive are kept.
    """
    for layer in graph.nodes_of(op.Conv | op.Dense):
        while (user := graph.only_user(layer.output, op.Affine)) is not None:
            if layer.inputs[1] not in graph.quantised:
                break
            factor, offset = (np.asarray(one.value, np.float64) for one in user.inputs[1:])
            if not (factor > 0).all() or not _scaled_layer(graph, layer, factor, offset):
                break
            layer.sources += user.sources
            layer.outputs = user.outputs
            graph.nodes.remove(user)


def _scaled_layer(
    graph: Graph, layer: Node, factor: NDArray[np.float64], offset: NDArray[np.float64]
) -> bool:
    """Multiply a layer's weight scales and bias by a factor, and add an offset to the bias.

    Returns False if the weights differ from their stored form. factor, offset : shape (outputs,)
    """
    found = stored_weights(graph, layer)
    if isinstance(found, str):
        return False
    values, scales = found
    store_weights(graph, layer, values, (scales * factor).astype(np.float32))
    bias = constant(f"{layer.sources[0]}.bias", real_bias(layer) * factor + offset)
    layer.inputs[2:] = [bias]
    return True


def _drop_unused(graph: Graph) -> None:
    for node in graph.nodes_of(op.Dequantise):
        if not graph.users(node.output) and not graph.is_output(node.output):
            graph.nodes.remove(node)


def _place(graph: Graph, node: Node) -> Place | None:
    """Return the place of an operator if all its inputs and its result are quantised."""
    if type(node.operator) not in _JOINED or node.output.type != "float32":
        return None
    makers = [graph.maker(one, op.Dequantise) for one in node.inputs if one.value is None]
    if not makers or any(maker is None for maker in makers):
        return None
    data = [maker.inputs[0] for maker in makers if maker is not None]
    activation = graph.only_user(node.output, op.Activation)
    user = graph.only_user((activation or node).output)
    if user is not None and isinstance(user.operator, op.Requantise):
        return Place(node, data, activation, user.output, user.operator.how)
    if user is None or not isinstance(user.operator, op.Quantise):
        return None
    return Place(node, data, activation, user.output)


def _put(graph: Graph, place: Place, made: list[Node]) -> None:
    """Replace nodes of real numbers by nodes of integers."""
    quantise = graph.maker(place.result)
    gone = [one for one in (place.node, place.activation, quantise) if one is not None]
    at = graph.nodes.index(place.node)
    graph.nodes[at : at + 1] = made
    for node in gone[1:]:
        graph.nodes.remove(node)
    _drop_unused(graph)


def _conv(graph: Graph, place: Place) -> Made:
    node, (data,), result = place.node, place.data, place.result
    label, bits = node.label, data.bits
    weights = stored_weights(graph, node)
    if isinstance(weights, str):
        return weights
    values, scales = weights
    unit = np.float32(data.scale) * scales
    values, unit = without_products(values, unit, real_bias(node), result)
    bias = stored_bias(graph, node, unit)
    whole = folded_bias(bias, values, data.zero_point)
    shift = required_shift(values, whole, bits, label)
    wide: Type = "int32" if ACCUMULATOR[bits] < 32 else "int64"
    sums = Tensor(f"{result.name}.sums", node.output.shape, wide)
    constants = constants_of(node, values, whole, data.type, wide)
    conv = Node(node.operator, [data, *constants], [sums], node.sources)
    if place.how is not None:
        if place.activation is not None:
            return "an activation precedes RequantShift"
        return [conv, Node(op.Requantise(place.how), [sums], [result], behind(graph, place))]
    with np.errstate(over="ignore"):
        factor = unit / np.float32(result.scale)
    slope = slope_of(place.activation)
    if result.type == "int32":
        return _sums(place, conv, factor)
    how = Requantisation(
        saturating_multiplier(factor * np.float32(2.0**shift), label), result.zero_point,
        *place.bounds, ROUNDING, shift,
        negative=None
        if slope is None
        else saturating_multiplier(factor * slope * 2.0**shift, label),
    )  # fmt: skip
    return [conv, Node(op.Requantise(how), [sums], [result], place.sources)]


def _sums(place: Place, conv: Node, factor: NDArray[np.float32]) -> Made:
    """Return a layer whose int32 sums are its result, stored with the product of its scales."""
    if place.activation is not None or not np.allclose(factor, 1.0, rtol=1e-6, atol=0):
        return "its sums are scaled, and stored in 32 bits"
    conv.outputs = [place.result]
    return [conv]


def _add(graph: Graph, place: Place) -> Made:
    a, b = place.data
    if place.how is not None:
        whole = AddFactors(1, 1, 0, -a.zero_point - b.zero_point)
        sums = Tensor(f"{place.result.name}.sums", place.result.shape, "int32")
        added = op.Add(whole, LEAST_SUM, -LEAST_SUM - 1, ROUNDING)
        return [
            Node(added, [a, b], [sums], place.node.sources),
            Node(op.Requantise(place.how), [sums], [place.result], behind(graph, place)),
        ]
    if slope_of(place.activation) is not None:
        return "a leaky activation follows it"
    result, label = place.result, place.node.label
    factors = sum_factors(a, b, result, label)
    made = op.Add(factors, *place.bounds, ROUNDING)
    return [Node(made, [a, b], [result], place.sources)]


def _map(graph: Graph, place: Place) -> Made:
    """Return pooling, a slice or upsampling of a map."""
    operator, (data,) = place.node.operator, place.data
    if slope_of(place.activation) is not None:
        return "a leaky activation follows it"
    if place.how is not None:
        if not isinstance(operator, op.Pool) or operator.kind != "average":
            return "RequantShift follows it"
        sums = Tensor(f"{place.result.name}.sums", place.result.shape, "int32")
        return [
            Node(operator, [data], [sums], place.node.sources),
            Node(op.Requantise(place.how), [sums], [place.result], behind(graph, place)),
        ]
    if isinstance(operator, op.Pool) and operator.kind == "average":
        return mean_nodes(operator, data, place.result, place.bounds, ROUNDING, place.sources)
    result, bounds = place.result, place.bounds
    if data.same_scale(result) and bounds == (result.low, result.high):
        return [Node(operator, [data], [result], place.node.sources)]
    between = replace(data, name=f"{result.name}.before", shape=result.shape, stored=True)
    moved = Node(operator, [data], [between], place.node.sources)
    return [moved, clipped(between, result, bounds, place.sources)]


def _concat(_: Graph, place: Place) -> Made:
    """Return Concat, with a requantisation of each part of another scale."""
    if place.activation is not None:
        return "an activation follows it"
    result, made, parts = place.result, [], []
    for number, data in enumerate(place.data):
        part = data
        if not data.same_scale(result):
            part = replace(result, name=f"{result.name}.part{number}", shape=data.shape)
            bounds = (result.low, result.high)
            made.append(requantised(data, part, bounds, place.node.sources))
        parts.append(part)
    return [*made, Node(place.node.operator, parts, [result], place.sources)]


_JOINED: dict[Any, Callable[[Graph, Place], Made]] = {
    op.Conv: _conv,
    op.Dense: _conv,
    op.Add: _add,
    op.Pool: _map,
    op.Concat: _concat,
    op.DepthToSpace: _map,
    op.Slice: _map,
    op.Upsample: _map,
    op.Activation: activation,
    op.Affine: function,
    op.Function: function,
    op.Product: product,
}
