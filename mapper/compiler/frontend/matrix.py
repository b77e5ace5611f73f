"""Read products of a map and a constant matrix, and constants with one number per channel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.onnx import Made, Reader
from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode

NOT_CONSTANT = "its weights are not constant: export with constant folding"


def dense(reader: Reader, node: OnnxNode, data: Any, weights: Any, bias: Any = None) -> Made:
    """Add a layer data[1, inputs] @ weights[inputs, outputs] + bias."""
    if not isinstance(data, View) or not isinstance(weights, np.ndarray) or isinstance(bias, View):
        return NOT_CONSTANT
    if len(data.shape) != 2 or data.shape[0] != 1 or weights.ndim != 2:
        return "it is not a product of one vector and a matrix"
    _require_inputs(data, weights)
    outputs = weights.shape[1]
    if bias is not None:
        row = bias.shape[-1] if bias.ndim else 1
        if bias.size != row or row not in (1, outputs):
            raise MapperError(f"its bias has shape {bias.shape}, it has {outputs} outputs")
        bias = np.broadcast_to(bias.reshape(-1), (outputs,)).astype(np.float32)
    # one kernel as large as the map: matrix rows are in the order of the tensor's axes
    kernels = weights.T.reshape(outputs, *data.ordered[1:])
    kernels = kernels.transpose(0, *(int(axis) for axis in np.argsort(data.order)[1:]))
    constants = [reader.constant(node, "weights", np.ascontiguousarray(kernels, np.float32))]
    if bias is not None:
        constants.append(reader.constant(node, "bias", bias))
    return reader.add(op.Dense(), [data.tensor, *constants], node, (1, outputs))


def _require_inputs(data: View, weights: NDArray[Any]) -> None:
    """Raise `MapperError` unless a matrix has a row for each number on the last axis of a map."""
    if data.shape[-1] != weights.shape[-2]:
        raise MapperError(f"takes {data.shape[-1]} values, its weights have {weights.shape[-2]}")


def gemm(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, weights, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if node.flag("transA") or not isinstance(weights, np.ndarray):
        return NOT_CONSTANT
    if node.flag("transB"):
        weights = weights.T
    if isinstance(bias, np.ndarray):
        bias = bias * np.float32(node.number("beta", 1.0))
    return dense(reader, node, data, weights * np.float32(node.number("alpha", 1.0)), bias)


def matmul(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read a product of a map and a matrix, which is a 1x1 convolution if each pixel is a row."""
    data, weights = inputs
    if isinstance(data, View) and isinstance(weights, View):
        return "it multiplies two maps; cores multiply a map by constant weights"
    if not isinstance(data, View):
        return "it multiplies a constant by a map; cores multiply a map by constant weights"
    if len(data.shape) < 3:
        return dense(reader, node, data, weights)
    rows = len(data.shape) - 1
    if weights.ndim < 2 or weights.ndim > len(data.shape) or set(weights.shape[:-2]) - {1}:
        return "it multiplies parts of a map by different weights"
    _require_inputs(data, weights)
    if data.channel_axis != rows:
        return "its map does not have its channels on the last axis"
    tensor, outputs = data.tensor, weights.shape[-1]
    kernels = weights.reshape(-1, outputs).T.reshape(outputs, 1, 1, -1)
    constant = reader.constant(node, "weights", np.ascontiguousarray(kernels, np.float32))
    made = Tensor(str(node.proto.output[0]), (*tensor.shape[:3], outputs))
    operator = op.Conv(Window((1, 1)))
    reader.graph.nodes.append(Node(operator, [tensor, constant], [made], (node.name,)))
    return data._replace(tensor=made, shape=(*data.shape[:rows], outputs))


def per_channel(data: View, constant: NDArray[Any]) -> NDArray[np.float32] | None:
    """Return a constant as one number per channel, None if it varies within a channel."""
    axes = len(data.shape)
    if constant.size == 1 and constant.ndim <= axes:
        return np.full(data.tensor.channels, constant.reshape(()), np.float32)
    axis = data.channel_axis
    if axis is None or constant.ndim > axes or constant.size != data.tensor.channels:
        return None
    if (*(1,) * (axes - constant.ndim), *constant.shape)[axis] != constant.size:
        return None
    return constant.reshape(-1).astype(np.float32)
