"""Read numbers that a model stores as integers: QuantizeLinear and DequantizeLinear.

uint8 becomes int8 exactly, with a zero point 128 lower. A quantised value is a tensor of integers;
operations on it stay in real numbers here, after a Dequantise node.
`mapper.compiler.quantisation.join` converts them to integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.frontend.onnx import Handler, Made, Reader
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Dequantise, Levels, Node, Quantise
from mapper.compiler.ir.stored import OFFSET, STORED, Scale, scale_of
from mapper.compiler.ir.tensor import Tensor, constant
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode


def stored_like(tensor: Tensor, how: Scale) -> Tensor:
    """Return a tensor of integers that stores a map of real numbers."""
    return Tensor(
        f"{tensor.name}.stored", tensor.shape, how.type, how.scale, how.zero_point, stored=True
    )


def quantised(reader: Reader, node: OnnxNode, data: View, how: Scale) -> View:
    """Quantise a map; return a view of its integers."""
    made = stored_like(data.tensor, how)
    made.name = str(node.proto.output[0])
    reader.graph.nodes.append(Node(Quantise(), [data.tensor], [made], (node.name,)))
    return data._replace(tensor=made)


def dequantised(reader: Reader, node: OnnxNode, data: View, name: str) -> View:
    """Dequantise a map; return a view of its real numbers."""
    made = Tensor(name, data.tensor.shape)
    reader.graph.nodes.append(Node(Dequantise(), [data.tensor], [made], (node.name,)))
    return data._replace(tensor=made)


def kind_of_whole(reader: Reader, data: View) -> np.dtype[Any] | None:
    """Return the integer type of an input or host value if cores can store it, else None."""
    kind = reader.types.get(data.tensor.name)
    return kind if data.tensor.type == "float32" and kind in STORED else None


def stored_whole(
    reader: Reader, node: OnnxNode, data: View, how: Scale, kind: np.dtype[Any]
) -> View:
    """Return a view of stored integers from a model input or the host.

    how : scale and zero point of the integers
    """
    shift = OFFSET.get(kind, 0)
    made = stored_like(data.tensor, how)
    made.name = f"{data.tensor.name}.{node.name}"
    levels = Levels(how.scale, 1.0, how.zero_point, made.low, made.high)
    zero = -float(how.zero_point + shift)
    constants = [
        constant(f"{made.name}.{name}", np.array([value]))
        for name, value in (("factor", 1.0), ("offset", zero))
    ]
    taken = [data.tensor, *constants]
    reader.graph.nodes.append(Node(Quantise(levels), taken, [made], (node.name,)))
    return data._replace(tensor=made)


def require_same(data: View, how: Scale) -> None:
    """Raise `MapperError` if a node reads integers with another scale than they were stored
    with."""
    tensor = data.tensor
    if (tensor.scale, tensor.zero_point) != (how.scale, how.zero_point):
        raise MapperError(
            f"reads {tensor.name!r} with scale {how.scale:g} and zero point {how.zero_point}; it "
            f"was stored with {tensor.scale:g} and {tensor.zero_point}"
        )


def quantize_linear(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, scale, *zero_point = inputs
    if not isinstance(data, View):
        return None
    return quantised(reader, node, data, scale_of(scale, zero_point[0] if zero_point else None))


def dequantize_linear(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, scale, *zero_point = inputs
    if not isinstance(data, View):
        return None
    if isinstance(scale, View) or (zero_point and isinstance(zero_point[0], View)):
        return "its scale is computed at run time; cores need constant scales"
    kind = kind_of_whole(reader, data)
    if data.tensor.type == "float32" and kind is None:
        return "it dequantises a value that was not quantised"
    how = scale_of(scale, zero_point[0] if zero_point else np.zeros((), kind))
    if kind is not None:
        data = stored_whole(reader, node, data, how, kind)
    require_same(data, how)
    return dequantised(reader, node, data, str(node.proto.output[0]))


QUANTISED: dict[str, Handler] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}
