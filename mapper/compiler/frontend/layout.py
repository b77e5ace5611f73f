"""Read nodes that join, split, pad, enlarge or reshape maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.onnx import Made, Reader, is_map
from mapper.compiler.frontend.rows import scatters
from mapper.compiler.ir.graph import CHANNELS_FIRST, View
from mapper.compiler.ir.node import Concat, Conv, PadMap, Slice, Upsample, Window
from mapper.compiler.ir.node import Node as GraphNode
from mapper.compiler.ir.tensor import Pad, Tensor, constant
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode


def shuffle_weights(order: NDArray[np.int64]) -> Tensor:
    """Return 1x1 kernels that permute channels."""
    weights = np.eye(len(order), dtype=np.float32)[order].reshape(len(order), 1, 1, -1)
    return constant("shuffle", weights)


def concat(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    first = inputs[0]
    if not all(is_map(value) and len(value.shape) == len(first.shape) for value in inputs):
        return "it joins constants, or maps without their channels on axis 1"
    axis = int(node.attributes.get("axis", 1)) % len(first.shape)
    if axis == 0:
        return "it joins frames"
    shape = list(first.shape)
    shape[axis] = sum(value.shape[axis] for value in inputs)
    for value in inputs:
        if any(
            a != b for at, (a, b) in enumerate(zip(value.shape, shape, strict=True)) if at != axis
        ):
            raise MapperError(f"shapes {first.shape} and {value.shape} do not match")
    operator = Concat(CHANNELS_FIRST[_onnx_axis(axis, first.shape)])
    return reader.add(operator, [value.tensor for value in inputs], node, shape)


def split(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Split: one part of the map per result."""
    data = inputs[0]
    if not is_map(data):
        return "it splits a value without its channels on axis 1"
    axis = int(node.attributes.get("axis", 0)) % len(data.shape)
    sizes = list(node.attributes.get("split", ()))
    if len(inputs) > 1 and inputs[1] is not None:
        if not isinstance(inputs[1], np.ndarray):
            return "the sizes of its parts are not constant"
        sizes = [int(size) for size in inputs[1]]
    names = list(node.proto.output)
    if not sizes:
        each = -(-data.shape[axis] // len(names))
        sizes = [min(each, data.shape[axis] - each * at) for at in range(len(names))]
    if len(sizes) != len(names) or sum(sizes) != data.shape[axis] or min(sizes) < 1:
        raise MapperError(
            f"parts of {sizes} do not add up to the {data.shape[axis]} of axis {axis}"
        )
    if axis == 0:
        return "it splits frames"
    begins = np.cumsum([0, *sizes]).tolist()
    return [
        _part(reader, node, data, (axis, begin, size), name)
        for begin, size, name in zip(begins, sizes, names, strict=False)
    ]


def cut(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Slice of consecutive pixels or channels on one axis."""
    data, rest = inputs[0], inputs[1:]
    if not is_map(data) or any(isinstance(value, View) for value in rest):
        return "it slices a value without its channels on axis 1, or at computed positions"
    probe = np.arange(np.prod(data.shape)).reshape(data.shape)
    made = reader.model.evaluate(node, [probe, *rest])[0]
    axes = [at for at in range(len(data.shape)) if made.shape[at] != data.shape[at]]
    if not axes and np.array_equal(made, probe):
        return data
    if len(axes) != 1 or axes[0] == 0 or not made.size:
        return "it slices frames, several axes, or nothing"
    axis, size = axes[0], made.shape[axes[0]]
    begin = int(made.flat[0]) // int(np.prod(data.shape[axis + 1 :])) % data.shape[axis]
    if not np.array_equal(made, probe.take(range(begin, begin + size), axis, mode="clip")):
        return "it selects pixels or channels that are not contiguous"
    return _part(reader, node, data, (axis, begin, size), str(node.proto.output[0]))


def _part(
    reader: Reader, node: OnnxNode, data: View, part: tuple[int, int, int], name: str
) -> View:
    """Add a node for a part of a map: part is the ONNX axis, the begin and the size."""
    axis, begin, size = part
    shape = [size if at == axis else n for at, n in enumerate(data.shape)]
    made = reader.view(name, shape)
    operator = Slice(CHANNELS_FIRST[_onnx_axis(axis, data.shape)], begin)
    reader.graph.nodes.append(GraphNode(operator, [data.tensor], [made.tensor], (node.name,)))
    return made


def _onnx_axis(axis: int, shape: tuple[int, ...]) -> int:
    """Return the axis in a map of four axes; the last of three axes is the columns."""
    return axis if len(shape) == 4 or axis == 1 else 3


def pad(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data = inputs[0]
    if node.attributes.get("mode", b"constant") != b"constant":
        return "cores pad with a constant"
    pads: list[int] = list(node.attributes.get("pads", node.attributes.get("paddings", ())))
    value = node.number("value", 0.0)
    if len(inputs) > 1:
        if not isinstance(inputs[1], np.ndarray):
            return "its pads are not constant"
        pads = inputs[1].tolist()
        if len(inputs) > 2 and isinstance(inputs[2], View):
            return "its padding value is not constant"
        if len(inputs) > 2 and inputs[2] is not None:
            value = float(np.asarray(inputs[2]).reshape(()))
    if not is_map(data) or len(data.shape) != 4 or len(pads) != 8 or len(inputs) > 3:
        return "it pads axes other than rows and columns of a map"
    before, after = pads[:4], pads[4:]
    if any((*before[:2], *after[:2])) or min(pads) < 0:
        return "it pads frames or channels, or crops"
    if value and not _before_pooling(reader, node):
        return "cores pad with zeros"
    around = Pad(before[2], after[2], before[3], after[3])
    shape = [n + a + b for n, a, b in zip(data.shape, before, after, strict=True)]
    return reader.add(PadMap(around, value), [data.tensor], node, shape)


def _before_pooling(reader: Reader, node: OnnxNode) -> bool:
    """Return whether max pooling is the only user: its padding is the least value."""
    name = node.proto.output[0]
    users = [one.kind for one in reader.model.nodes if name in one.proto.input]
    return users == ["MaxPool"] and reader.model.uses[name] == 1


def upsample(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Resize and Upsample: nearest neighbour, twice the size."""
    data = inputs[0]
    if not is_map(data) or len(data.shape) != 4:
        return "it resizes axes other than rows and columns of a map"
    mode = node.attributes.get("mode", b"nearest")
    made = reader.model.evaluate(node, [np.zeros(data.shape, np.float32), *inputs[1:]])[0]
    if mode != b"nearest" or made.shape != (*data.shape[:2], 2 * data.shape[2], 2 * data.shape[3]):
        return "cores double the size by repeating pixels"
    probe = np.arange(made.size // 4, dtype=np.float32).reshape(data.shape)
    copy = reader.model.evaluate(node, [probe, *inputs[1:]])[0]
    if not np.array_equal(copy, probe.repeat(2, 2).repeat(2, 3)):
        return "it repeats pixels unevenly; cores repeat each one twice"
    return reader.add(Upsample(), [data.tensor], node, made.shape)


def reshape(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read nodes that change only the shape of their first input."""
    data = inputs[0]
    if not isinstance(data, View) or any(isinstance(value, View) for value in inputs[1:]):
        return "its shape is not constant"
    made = reader.model.evaluate(node, [np.zeros(data.shape, np.float32), *inputs[1:]])[0]
    if made.shape[0] != 1:
        return f"its result has a batch axis of {made.shape[0]}"
    return data._replace(shape=made.shape)


def sizes(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Shape and Size, which are known at compile time."""
    (made,) = reader.model.evaluate(node, [np.zeros(inputs[0].shape, np.float32)])
    return made


def transpose(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data = inputs[0]
    last = tuple(range(len(data.shape)))[::-1]
    perm = tuple(int(axis) for axis in node.attributes.get("perm", last))
    if sorted(perm) != sorted(last):
        raise MapperError(f"perm is {perm}, but its value has {len(last)} axes")
    shape = tuple(data.shape[axis] for axis in perm)
    moved = [axis for axis in perm if data.shape[axis] > 1]
    if moved == sorted(moved):
        return data._replace(shape=shape)  # only axes of size 1 move
    if (order := _channel_order(data, perm)) is not None:
        tensor = Tensor(str(node.proto.output[0]), data.tensor.shape)
        inputs_ = [data.tensor, shuffle_weights(order)]
        reader.graph.nodes.append(GraphNode(Conv(Window((1, 1))), inputs_, [tensor], (node.name,)))
        return View(tensor, shape=shape)
    groups = data.groups
    if groups is None or perm[0] != 0:
        return "it permutes the axes of a reshaped value"
    merged = (axis for at in perm[1:] for axis in groups[at - 1])
    made = data._replace(order=(0, *merged), shape=shape)
    size = reader.vector_size(str(node.proto.output[0]))
    if size is not None and data.tensor.type == "float32" and scatters(made, size):
        return f"its result holds vectors of {size} numbers, in another order than its map"
    return made


def _channel_order(data: View, perm: tuple[int, ...]) -> NDArray[np.int64] | None:
    """Return the channel order that reshape, transpose and reshape produce; None if pixels move."""
    tensor = data.tensor
    if tensor.type != "float32" or data.order != CHANNELS_FIRST or data.shape == data.ordered:
        return None
    pixels = tensor.height * tensor.width
    probe = np.arange(pixels * tensor.channels).reshape(data.shape).transpose(perm)
    rows = probe.reshape(tensor.channels, pixels)
    moved = (rows == rows[:, :1] + np.arange(pixels)).all() and (rows[:, 0] % pixels == 0).all()
    return rows[:, 0] // pixels if moved and perm[0] == 0 else None


def same(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read nodes that do not change values at inference."""
    value: View = inputs[0]
    training = inputs[2] if node.kind == "Dropout" and len(inputs) > 2 else None
    if training is not None and (isinstance(training, View) or np.any(training)):
        raise MapperError("is in training mode; export the model for inference")
    kind = reader.types.get(value.tensor.name, np.dtype(np.float32))
    if node.kind == "Cast" and (
        kind.kind != "f" or int(node.attributes.get("to", 1)) not in (1, 10, 11)
    ):
        return "it converts from or to numbers other than floating point"
    return value
