"""Convert nodes of floating-point models to nodes of the compiler's graph."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.functions import FUNCTIONS
from mapper.compiler.frontend.layout import (
    concat,
    cut,
    pad,
    reshape,
    same,
    sizes,
    split,
    transpose,
    upsample,
)
from mapper.compiler.frontend.matrix import gemm, matmul, per_channel
from mapper.compiler.frontend.onnx import Handler, Made, Reader, is_map, kernel_refusal
from mapper.compiler.frontend.qonnx import QONNX
from mapper.compiler.frontend.transposed import depth_to_space, transposed
from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import CHANNELS_FIRST, View
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.numerics.windows import pixels
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode


def window(node: OnnxNode, size: tuple[int, int], shape: tuple[int, ...], axes: int) -> Window:
    """Return the window of a node's kernel on a map of a given shape; 1D kernels have one row.

    Raises `MapperError` if the length of an attribute does not match the number of axes (1 or 2).
    """

    def numbers(name: str, default: int, ends: int = 1) -> tuple[int, ...]:
        found = node.attributes.get(name, (default,) * axes * ends)
        return require_numbers(name, found, axes * ends, default)

    def pair(name: str) -> tuple[int, int]:
        found = (1, *numbers(name, 1))
        return found[-2], found[-1]

    stride, dilation = pair("strides"), pair("dilations")
    given = numbers("pads", 0, 2)
    top, left, bottom, right = (0, given[0], 0, given[1]) if axes == 1 else given
    found = Window(size, stride, Pad(top, bottom, left, right), dilation)
    auto = node.attributes.get("auto_pad", b"NOTSET").decode()
    if auto.startswith("SAME"):
        sides = []
        for length, step, reach in zip(shape[1:3], stride, found.reach, strict=True):
            missing = max(0, (-(-length // step) - 1) * step + reach - length)
            less, more = missing // 2, missing - missing // 2
            sides += [less, more] if auto == "SAME_UPPER" else [more, less]
        found = Window(size, stride, Pad(*sides), dilation)
    elif auto == "VALID":
        found = Window(size, stride, Pad(), dilation)
    if min(found.results(shape[1], shape[2])) < 1:
        raise MapperError(
            f"a kernel of {size[0]}x{size[1]} is larger than its padded map of "
            f"{shape[1]}x{shape[2]}; check kernel_shape and pads"
        )
    return found


def require_numbers(name: str, given: Any, count: int, least: int) -> tuple[int, ...]:
    """Return a numeric attribute; raise `MapperError` for a wrong count or values below `least`."""
    found = tuple(int(value) for value in given)
    if len(found) != count or min(found) < least:
        raise MapperError(f"{name} is {found}; give {count} numbers, {least} or more")
    return found


def conv(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, weights, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if why := kernel_refusal(data, weights, bias):
        return why
    if weights.ndim not in (3, 4):
        return f"its kernels have {weights.ndim - 2} axes; cores take 1 or 2"
    if weights.ndim != len(data.shape):
        raise MapperError(
            f"its map has {len(data.shape)} axes, its kernels {weights.ndim}; use the same "
            "number of axes"
        )
    groups = int(node.attributes.get("group", 1))
    weights = weights if weights.ndim == 4 else weights[:, :, None, :]
    outputs, taken = weights.shape[0], weights.shape[1] * groups
    tensor = data.tensor
    if tensor.channels != taken:
        raise MapperError(
            f"its map has {tensor.channels} channels, its kernels take {taken} "
            f"({weights.shape[1]} in {groups} groups)"
        )
    if groups < 1 or outputs % groups:
        raise MapperError(f"{outputs} kernels do not divide into {groups} groups")
    declared = tuple(node.attributes.get("kernel_shape", weights.shape[2:]))
    if (1, *declared)[-2:] != weights.shape[2:]:
        raise MapperError(f"kernel_shape is {declared}, its kernels are {weights.shape[2:]}")
    if bias is not None and bias.shape != (outputs,):
        raise MapperError(f"its bias has shape {bias.shape}, it has {outputs} kernels")
    axes = 2 if len(data.shape) == 4 else 1
    size = weights.shape[2], weights.shape[3]
    how = op.Conv(window(node, size, tensor.shape, axes), groups)
    rows, columns = how.window.results(tensor.height, tensor.width)
    constants = [reader.constant(node, "weights", weights.transpose(0, 2, 3, 1).astype(np.float32))]
    if bias is not None:
        constants.append(reader.constant(node, "bias", bias.reshape(-1).astype(np.float32)))
    shape = (1, outputs, rows, columns) if len(data.shape) != 3 else (1, outputs, columns)
    return reader.add(how, [tensor, *constants], node, shape)


def arithmetic(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Add, Sub, Mul, Div of two maps or of a map and a constant."""
    a, b = inputs
    if isinstance(a, View) and isinstance(b, View):
        if node.kind == "Mul":
            return product(reader, node, a, b)
        if node.kind not in ("Add", "Sub"):
            return f"cores add and multiply maps; they have no {node.kind} of two maps"
        if (a.order, a.shape, a.tensor.shape) != (b.order, b.shape, b.tensor.shape):
            return f"it adds maps of different shapes, {a.shape} and {b.shape}"
        if node.kind == "Sub":
            ones = np.ones(b.tensor.channels, np.float32)
            b = affine(reader, node, b, -ones, np.zeros_like(ones))
            b.tensor.name += ".negative"
        return reader.like(op.Add(), [a.tensor, b.tensor], node, a)
    data, constant = (a, b) if isinstance(a, View) else (b, a)
    turned = data is b
    numbers = per_channel(data, constant)
    if numbers is None:
        return "its constant varies within a channel"
    one, zero = np.ones_like(numbers), np.zeros_like(numbers)
    if node.kind == "Div" and (turned or not numbers.all()):
        return "it divides by a map, or by zero"
    divisor = np.where(numbers == 0, one, numbers)
    changes: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "Add": (one, numbers),
        "Sub": (-one, numbers) if turned else (one, -numbers),
        "Mul": (numbers, zero),
        "Div": (np.float32(1) / divisor, zero),
    }
    return affine(reader, node, data, *changes[node.kind])


def product(reader: Reader, node: OnnxNode, a: View, b: View) -> Made:
    """Add a product of two maps, or of a map and one pixel with a number per channel."""
    if a.tensor.height * a.tensor.width < b.tensor.height * b.tensor.width:
        a, b = b, a
    pixel = (1, 1, 1, a.tensor.channels)
    alike = a.shape == b.shape and a.tensor.shape == b.tensor.shape
    if a.order != b.order or not (alike or (b.tensor.shape == pixel and a.whole and b.whole)):
        return f"it multiplies maps of different shapes, {a.shape} and {b.shape}"
    if not alike and len(a.shape) != len(b.shape):
        return f"it multiplies maps of different shapes, {a.shape} and {b.shape}"
    return reader.like(op.Product(), [a.tensor, b.tensor], node, a)


def extreme(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Max or Min of a map and one constant as a Clip."""
    views = [one for one in inputs if isinstance(one, View)]
    numbers = [one for one in inputs if not isinstance(one, View)]
    if len(views) != 1 or any(np.size(one) != 1 for one in numbers):
        return f"cores compute {node.kind} of a map and one number"
    bounds = [float(np.reshape(one, ())) for one in numbers]
    how = op.Activation(1.0, low=max(bounds, default=float("-inf")))
    if node.kind == "Min":
        how = op.Activation(1.0, high=min(bounds, default=float("inf")))
    return reader.like(how, [views[0].tensor], node, views[0])


def summed(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Sum of several maps of one shape as consecutive additions."""
    views = [one for one in inputs if isinstance(one, View)]
    first = views[0]
    if len(views) < len(inputs):
        return "it adds constants to maps: export with constant folding"
    if any((one.order, one.shape, one.tensor.shape) != (first.order, first.shape,
           first.tensor.shape) for one in views):  # fmt: skip
        return "it adds maps of different shapes"
    for number, other in enumerate(views[1:], 1):
        first = reader.like(op.Add(), [first.tensor, other.tensor], node, first)
        if number < len(views) - 1:
            first.tensor.name += f".{number}"
    return first


def affine(
    reader: Reader, node: OnnxNode, data: View, factor: NDArray[Any], offset: NDArray[Any]
) -> View:
    constants = [
        reader.constant(node, "factor", factor),
        reader.constant(node, "offset", offset),
    ]
    return reader.like(op.Affine(), [data.tensor, *constants], node, data)


def normalisation(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read BatchNormalization with its running mean and variance."""
    if node.flag("training_mode"):
        raise MapperError("is in training mode; export the model for inference")
    data, *constants = inputs
    if not is_map(data) or not all(isinstance(value, np.ndarray) for value in constants[:4]):
        return "its parameters are not constant"
    if any(value.shape != (data.tensor.channels,) for value in constants[:4]):
        raise MapperError(f"its parameters are not {data.tensor.channels} numbers each")
    gamma, beta, mean, variance = (value.astype(np.float64) for value in constants[:4])
    factor = gamma / np.sqrt(variance + node.number("epsilon", 1e-5))
    return affine(reader, node, data, factor, beta - mean * factor)


def image_scaler(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read ImageScaler of early ONNX models: one factor, and an offset per channel."""
    data = inputs[0]
    offset = np.asarray(node.attributes.get("bias", ()), np.float32)
    if not is_map(data) or offset.shape != (data.tensor.channels,):
        raise MapperError(f"its bias has {offset.size} values; each channel needs one")
    return affine(reader, node, data, np.full_like(offset, node.number("scale", 1.0)), offset)


def activation(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, *rest = inputs
    if node.kind == "Relu":
        return reader.like(op.Activation(low=0.0), [data.tensor], node, data)
    if node.kind == "LeakyRelu":
        slope = node.number("alpha", 0.01)
        return reader.like(op.Activation(slope=slope), [data.tensor], node, data)
    if node.kind == "PRelu":
        slopes = per_channel(data, rest[0]) if isinstance(rest[0], np.ndarray) else None
        if slopes is None:
            return "its slopes are not constant, or vary within a channel"
        constant = reader.constant(node, "slopes", slopes)
        return reader.like(op.Activation(), [data.tensor, constant], node, data)
    bounds = [node.attributes.get("min"), node.attributes.get("max")]
    for at, value in enumerate(rest[:2]):
        if isinstance(value, View):
            return "its bounds are not constant"
        bounds[at] = bounds[at] if value is None else value
    low = float("-inf") if bounds[0] is None else float(np.asarray(bounds[0]).reshape(()))
    high = float("inf") if bounds[1] is None else float(np.asarray(bounds[1]).reshape(()))
    if not low < high:
        raise MapperError(f"min ({low:g}) is not less than max ({high:g})")
    return reader.like(op.Activation(slope=1.0, low=low, high=high), [data.tensor], node, data)


def pool(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data = inputs[0]
    if not is_map(data) or len(node.proto.output) > 1:
        return "its map does not have its channels on axis 1, or it returns indices"
    kind: Literal["max", "average"] = "max" if "Max" in node.kind else "average"
    tensor = data.tensor
    if node.kind.startswith("Global"):
        how = op.Pool(kind, Window((tensor.height, tensor.width)))
        return reader.add(how, [tensor], node, (1, tensor.channels, 1, 1)[: len(data.shape)])
    axes = len(data.shape) - 2
    if axes not in (1, 2):
        raise MapperError(f"pools a value of {len(data.shape)} axes; a map has 3 or 4")
    size = require_numbers("kernel_shape", node.attributes.get("kernel_shape", ()), axes, 1)
    found = window(node, (1, *size)[-2:], tensor.shape, axes)  # type: ignore[arg-type]
    if (
        max(found.pad.top, found.pad.bottom) >= found.size[0]
        or max(found.pad.left, found.pad.right) >= found.size[1]
    ):
        raise MapperError(
            f"pads {list(node.attributes['pads'])} reach the size of its window, {list(size)}; "
            "pad by less"
        )
    rows, columns = found.results(tensor.height, tensor.width, node.flag("ceil_mode"))
    if node.flag("ceil_mode"):
        # ONNX drops windows that begin after the map and its padding; other windows get more
        # padding
        edges = (tensor.height + found.pad.top, tensor.width + found.pad.left)
        rows -= (rows - 1) * found.stride[0] >= edges[0]
        columns -= (columns - 1) * found.stride[1] >= edges[1]
        reach = found.reach
        bottom = (rows - 1) * found.stride[0] + reach[0] - edges[0]
        right = (columns - 1) * found.stride[1] + reach[1] - edges[1]
        more = (bottom > found.pad.bottom, right > found.pad.right)
        if kind == "average" and node.flag("count_include_pad") and any(more):
            return "its windows extend past the padding, which its mean counts"
        pad = found.pad._replace(bottom=max(0, bottom), right=max(0, right))
        found = Window(found.size, found.stride, pad, found.dilation)
    counted = node.flag("count_include_pad")
    if kind == "average" and not counted:
        count = pixels(tensor.height, tensor.width, found)
        if count.min() == 0:
            return "an averaging window contains no pixel of the map"
    how = op.Pool(kind, found, counted)
    shape = (1, tensor.channels, rows, columns)
    return reader.add(how, [tensor], node, shape if len(data.shape) == 4 else (*shape[:2], columns))


def mean(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read ReduceMean over the rows and columns of a map, in any axis order."""
    data = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else node.attributes.get("axes")
    groups = data.groups if isinstance(data, View) else None
    if groups is None or axes is None or isinstance(axes, View):
        return "it is not a mean over rows and columns of a map"
    tensor, count = data.tensor, len(data.shape)
    taken = {int(axis) % count for axis in axes}
    merged = {axis for at in taken - {0} for axis in groups[at - 1] if tensor.shape[axis] > 1}
    channels = any(3 in groups[at - 1] for at in taken - {0})
    if 0 in taken or channels or merged != {axis for axis in (1, 2) if tensor.shape[axis] > 1}:
        return "it is not a mean over rows and columns of a map"
    operator = op.Pool("average", Window((tensor.height, tensor.width)))
    made = Tensor(str(node.proto.output[0]), (1, 1, 1, tensor.channels))
    reader.graph.nodes.append(Node(operator, [tensor], [made], (node.name,)))
    if node.flag("keepdims", 1):
        kept = tuple(1 if axis in taken else size for axis, size in enumerate(data.shape))
        return data._replace(tensor=made, shape=kept)
    return View(made, CHANNELS_FIRST, (1, tensor.channels))


def sign(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Add a Sign node: results are +1 or -1; zero, which ONNX keeps as 0, becomes +1 in one bit."""
    data: View = inputs[0]
    return reader.like(op.Sign(), [data.tensor], node, data)


FLOAT: dict[str, Handler] = {
    "Conv": conv,
    "ConvTranspose": transposed,
    "Gemm": gemm,
    "MatMul": matmul,
    "BatchNormalization": normalisation,
    "ImageScaler": image_scaler,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), arithmetic),
    **dict.fromkeys(("Relu", "LeakyRelu", "PRelu", "Clip"), activation),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), pool),
    **dict.fromkeys(("Max", "Min"), extreme),
    "Sum": summed,
    "ReduceMean": mean,
    "Concat": concat,
    "Split": split,
    "Slice": cut,
    "Pad": pad,
    **dict.fromkeys(("Resize", "Upsample"), upsample),
    "DepthToSpace": depth_to_space,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), reshape),
    "Transpose": transpose,
    **dict.fromkeys(("Shape", "Size"), sizes),
    "Sign": sign,
    **FUNCTIONS,
    **QONNX,
    **dict.fromkeys(("Identity", "Dropout", "Cast"), same),
}
"""Handlers of floating-point nodes, by ONNX operator name."""
