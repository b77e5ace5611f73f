"""Integer nodes of elementwise operators between Dequantise and Quantise nodes."""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.elementwise import term_of
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor, constant
from mapper.compiler.numerics.formulas import saturating_multiplier
from mapper.compiler.quantisation.layers import (
    bounds_of,
    product_nodes,
    requantised,
    requantised_table,
    slope_of,
    table_node,
)
from mapper.compiler.quantisation.place import ROUNDING, Made, Place, Sources, behind


def clipped(data: Tensor, result: Tensor, bounds: tuple[int, int], sources: Sources) -> Node:
    """Return a node that clips stored integers, and changes their scale if it differs."""
    if data.same_scale(result):
        return Node(op.Clamp(*bounds), [data], [result], sources)
    return requantised(data, result, bounds, sources)


def product(graph: Graph, place: Place) -> Made:
    if slope_of(place.activation) is not None:
        return "a leaky activation follows it"
    a, b = place.data
    made = product_nodes((a, b), place.result, place.bounds, ROUNDING, place.sources)
    if place.how is not None:
        made[1] = Node(op.Requantise(place.how), made[1].inputs, [place.result], place.sources)
    return made


def function(graph: Graph, place: Place) -> Made:
    (data,), term = place.data, term_of(place.node)
    if term is None:
        return "its constants vary between channels"
    if place.activation is not None:
        after = term_of(place.activation)
        if after is None:
            return "an activation with slopes per channel follows it"
        term = after(term)
    if data.type != "int8" or place.result.type != "int8":
        return "its maps have other types than bytes"
    if place.how is not None:
        entries = requantised_table(term, data, place.how)
        if entries is None:
            return "the factors of its RequantShift vary between channels"
        return [Node(op.Lookup(entries), [data], [place.result], behind(graph, place))]
    return [table_node(term, data, place.result, place.sources, ROUNDING)]


def activation(_: Graph, place: Place) -> Made:
    """Return a separate activation of a map."""
    if place.activation is not None:
        return "an activation follows it"
    (data,), result = place.data, place.result
    bounds, slope = bounds_of(place.node, result), slope_of(place.node)
    if slope is None:
        return [clipped(data, result, bounds, place.sources)]
    # the sign applies to data minus zero point: use a depthwise convolution by 1
    channels = data.channels
    ones = np.ones((channels, 1, 1, 1), np.int64)
    bias = np.full(channels, -data.zero_point)
    sums = Tensor(f"{result.name}.sums", data.shape, "int32")
    factor = np.float32(data.scale) / np.float32(result.scale)
    both: list[Multiplier] = [
        saturating_multiplier(one, place.node.label) for one in (factor, factor * slope)
    ]
    how = Requantisation(both[0], result.zero_point, *bounds, ROUNDING, negative=both[1])
    name = place.node.sources[0]
    constants = [
        constant(f"{name}.weights", ones, data.type),
        constant(f"{name}.bias", bias, "int32"),
    ]
    conv = op.Conv(Window((1, 1)), groups=channels)
    return [
        Node(conv, [data, *constants], [sums], place.sources),
        Node(op.Requantise(how), [sums], [result], place.sources),
    ]
