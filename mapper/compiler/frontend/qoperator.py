"""Read integer operators (QLinearConv, QGemm, ...) as ONNX defines them: dequantise, compute,
quantise.

`mapper.compiler.quantisation.join` then joins each of these into one integer node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mapper.compiler.frontend.builder import Value
from mapper.compiler.frontend.float import activation, arithmetic, conv, pool
from mapper.compiler.frontend.functions import function
from mapper.compiler.frontend.layout import concat, cut, pad, same, split, upsample
from mapper.compiler.frontend.matrix import gemm, matmul
from mapper.compiler.frontend.onnx import Handler, Made, Reader
from mapper.compiler.frontend.quantised import (
    dequantised,
    kind_of_whole,
    quantised,
    require_same,
    stored_whole,
)
from mapper.compiler.frontend.transposed import depth_to_space
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.stored import (
    OFFSET,
    WIDE_WEIGHTS,
    Scale,
    Stored,
    is_wide,
    scale_of,
    stored_constant,
)
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode

FLOAT32, INT32 = 1, 6  # ONNX type numbers
NEAREST = b"nearest"
NOT_OF_ONNX = {"channels_last", "opset"}  # attributes that the operators of real numbers lack


def filled(inputs: list[Any], size: int) -> list[Any]:
    """Return the inputs, padded with None for omitted trailing inputs."""
    return inputs + [None] * (size - len(inputs))


def plain(node: OnnxNode, kind: str) -> OnnxNode:
    """Return the operator of real numbers that corresponds to a node; its results get other
    names."""
    from onnx import helper

    taken, made = (
        [one and f"{one}.real" for one in ends] for ends in (node.proto.input, node.proto.output)
    )
    kept = {name: value for name, value in node.attributes.items() if name not in NOT_OF_ONNX}
    proto = helper.make_node(kind, taken, made, node.name, **kept)
    return OnnxNode(proto, node.attributes)


def computed(
    reader: Reader, node: OnnxNode, kind: str, compute: Handler, inputs: list[Any]
) -> View:
    """Return a real value, computed by a node on the cores, or else on the host."""
    made = None if node.name in reader.keep else compute(reader, plain(node, kind), inputs)
    if isinstance(made, View):
        return made
    if isinstance(made, str):
        reader.why = made
    kept = {k: v for k, v in node.attributes.items() if k not in NOT_OF_ONNX}
    return reader.host(kind, node, inputs, kept)


def real(reader: Reader, node: OnnxNode, data: Any, how: Scale) -> View:
    """Return a stored map in real numbers."""
    if not isinstance(data, View) or data.tensor.type == "float32":
        raise MapperError("takes a map that is not quantised; put QuantizeLinear before it")
    require_same(data, how)
    return seen(reader, node, data)


def seen(reader: Reader, node: OnnxNode, data: View) -> View:
    """Return a stored map in real numbers, with a unique name, as nodes may use different shapes of
    it.
    """
    return dequantised(reader, node, data, f"{data.tensor.name}.seen{len(reader.graph.nodes)}")


def constant(values: Any, scale: Any, zero_point: Any, axis: int) -> tuple[Any, Stored]:
    """Return a constant in real numbers, and in stored form."""
    if isinstance(values, View):
        raise MapperError("its weights are not constant: export with constant folding")
    axis = axis if np.size(scale) > 1 else 0
    stored = stored_constant([values, scale, zero_point], axis)
    shape = [1] * values.ndim
    if stored.scale.size > 1:
        shape[axis] = -1
    wide = values.astype(np.int64) - np.reshape(
        np.broadcast_to(stored.zero_point.reshape(-1), stored.scale.shape).astype(np.int64), shape
    )
    return wide.astype(np.float32) * stored.scale.reshape(shape), stored


def remember(reader: Reader, begun: int, **stored: Stored | None) -> None:
    """Record, by role, the stored form of constants of the nodes added since `begun`."""
    for node in reader.graph.nodes[begun:]:
        for tensor in node.inputs[1:]:
            found = stored.get(tensor.name.rsplit(".", 1)[-1])
            if tensor.value is not None and found is not None:
                reader.graph.quantised[tensor] = found


def weighted(
    reader: Reader, node: OnnxNode, inputs: Sequence[Any], axis: int, bias: Any, result: Scale,
    operator: tuple[str, Handler],
) -> View:  # fmt: skip
    """Read a layer with inputs (x, scale, zero point, w, scale, zero point, ...).

    operator : name of the operator of real numbers, and its handler
    axis : output axis of the weights; bias : int32, or None
    """
    x, x_scale, x_zero, w, w_scale, w_zero = inputs[:6]
    how = scale_of(x_scale, x_zero)
    data = real(reader, node, x, how)
    weights, stored = constant(w, w_scale, w_zero, axis)
    whole: Stored | None = None
    if bias is not None:
        unit = np.float32(how.scale) * stored.scale
        whole = Stored(bias, unit)
        bias = (bias.reshape(-1) * unit.astype(np.float64)).astype(np.float32)
    begun = len(reader.graph.nodes)
    made = computed(reader, node, *operator, [data, weights, *([] if bias is None else [bias])])
    remember(reader, begun, weights=stored, bias=whole)
    return quantised(reader, node, made, result)


def qlinear(
    axis: int, kind: str, compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]
) -> Made:
    """Read QLinearConv or QLinearMatMul. axis : output axis of the weights"""
    inputs = filled(inputs, 9)
    how = scale_of(inputs[6], inputs[7])
    if isinstance(inputs[3], View):
        maps = [real(reader, node, inputs[at], scale_of(*inputs[at + 1 : at + 3])) for at in (0, 3)]
        return quantised(reader, node, computed(reader, node, kind, compute, maps), how)
    return weighted(reader, node, inputs, axis, inputs[8], how, (kind, compute))


def qgemm(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    inputs = filled(inputs, 9)
    if node.number("alpha", 1.0) != 1.0:
        raise MapperError(f"alpha is {node.number('alpha', 1.0):g}; cores take 1")
    if inputs[7] is None:
        raise MapperError("its result is real; give a scale in y_scale")
    axis = 0 if node.flag("transB") else 1
    how = scale_of(inputs[7], inputs[8])
    return weighted(reader, node, inputs, axis, inputs[6], how, ("Gemm", gemm))


def two(kind: str, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read (a, its scale and zero point, b, the same, then scale and zero point of the result)."""
    inputs = filled(inputs, 8)
    operands: list[Value] = []
    for at in (0, 3):
        value, scale, zero = inputs[at : at + 3]
        if isinstance(value, View):
            operands.append(real(reader, node, value, scale_of(scale, zero)))
        else:
            operands.append(np.asarray(constant(np.asarray(value), scale, zero, 0)[0]))
    made = computed(reader, node, kind, arithmetic, operands)
    return quantised(reader, node, made, scale_of(inputs[6], inputs[7]))


def one_map(kind: str, compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read (x, scale, zero point, result scale, result zero point)."""
    x, x_scale, x_zero, y_scale, y_zero = filled(inputs, 5)
    if node.flag("channels_last"):
        raise MapperError("has its channels last; export it with channels on axis 1")
    data = real(reader, node, x, scale_of(x_scale, x_zero))
    made = computed(reader, node, kind, compute, [data])
    return quantised(reader, node, made, scale_of(y_scale, y_zero))


def on_host(*_: Any) -> Made:
    """Leave a node to the host, which computes in real numbers."""
    return None


def qlinear_concat(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read inputs (scale, zero point, then x, scale and zero point of each part)."""
    parts = [
        real(reader, node, inputs[at], scale_of(inputs[at + 1], inputs[at + 2]))
        for at in range(2, len(inputs), 3)
    ]
    made = computed(reader, node, "Concat", concat, parts)
    return quantised(reader, node, made, scale_of(inputs[0], inputs[1]))


def whole_sums(
    axis: int, kind: str, compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]
) -> Made:
    """Read ConvInteger or MatMulInteger: int32 sums, as a map of scale 1.

    The scale of the weights cancels the scale of the input.
    """
    x, w, x_zero, w_zero = filled(inputs, 4)
    if not isinstance(x, View) or isinstance(w, View) or isinstance(w_zero, View):
        return "its weights are not constant: export with constant folding"
    if x.tensor.type == "float32":
        return _sums_of_host(axis, kind, compute, reader, node, inputs)
    zero = np.zeros((), np.uint8) if x_zero is None else x_zero
    if isinstance(zero, View) or x.tensor.zero_point != _whole(zero):
        raise MapperError("its zero point differs from the zero point of its input")
    data = seen(reader, node, x)
    weights, stored = constant(w, np.float32(1) / np.float32(x.tensor.scale), w_zero, axis)
    if is_wide(np.rint(weights * np.float32(x.tensor.scale))):
        raise MapperError(WIDE_WEIGHTS)
    begun = len(reader.graph.nodes)
    made = computed(reader, node, kind, compute, [data, weights])
    remember(reader, begun, weights=stored)
    return quantised(reader, node, made, Scale(1.0, 0, "int32"))


def _sums_of_host(
    axis: int, kind: str, compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]
) -> Made:
    """Read host integers with a scale computed at run time: sum((q - z) w) = sum(q w) - z sum(w).

    A core computes the first sum; the host subtracts the second in 32 bits.
    """
    x, w, x_zero, w_zero = filled(inputs, 4)
    type_ = kind_of_whole(reader, x)
    begun = len(reader.graph.nodes)
    if type_ is None or type_.itemsize > 1 or node.name in reader.keep:
        return None
    weights, kept = constant(w, np.float32(1), w_zero, axis)
    if is_wide(weights):
        return WIDE_WEIGHTS
    how = Scale(1.0, -OFFSET.get(type_, 0), "int8")
    stored = stored_whole(reader, node, x, how, type_)
    data = seen(reader, node, stored)
    made = compute(reader, plain(node, kind), [data, weights])
    if not isinstance(made, View):
        del reader.graph.nodes[begun:]
        return made
    remember(reader, begun, weights=kept)
    sums = quantised(reader, node, made, Scale(1.0, 0, "int32"))
    sums.tensor.name += ".stored"
    if x_zero is None:
        return sums
    ones = np.ones(x.shape, type_)
    rest = [w, None, w_zero] if w_zero is not None else [w]
    (each,) = reader.model.evaluate(node, [ones, *rest])
    whole = dequantised(reader, node, sums, f"{sums.tensor.name}.whole")
    reader.types[whole.tensor.name] = np.dtype(np.int32)
    less = reader.host("Cast", node, [x_zero], {"to": INT32}, "zero")
    less = reader.host("Mul", node, [less, each.astype(np.int32)], {}, "less")
    return reader.host("Sub", node, [whole, less], {}, "centred")


def _whole(value: Any) -> int:
    """Return the stored form of an integer of the model."""
    found = np.asarray(value)
    return int(found.reshape(())) - OFFSET.get(found.dtype, 0)


def cast(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Cast of sums to real numbers; other casts of stored integers are rejected."""
    (data,) = inputs
    if isinstance(data, View) and data.tensor.type != "float32":
        if data.tensor.type != "int32" or int(node.attributes["to"]) != FLOAT32:
            raise MapperError("casts stored integers; use DequantizeLinear instead")
        return dequantised(reader, node, data, str(node.proto.output[0]))
    return same(reader, node, inputs)


def moving(compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read an operator that selects or copies values, also of stored integers."""
    data = inputs[0]
    if not isinstance(data, View) or data.tensor.type == "float32":
        return compute(reader, node, inputs)
    tensor = data.tensor
    how = Scale(tensor.scale, tensor.zero_point, tensor.type)
    map_ = seen(reader, node, data)
    rest = list(inputs[1:])
    if node.kind in ("Resize", "Upsample") and node.attributes.get("mode", NEAREST) != NEAREST:
        raise MapperError(
            "interpolates stored integers, whose rounding ONNX does not define; put "
            "DequantizeLinear before it"
        )
    if node.kind == "Pad" and node.attributes.get("mode", b"constant") == b"constant":
        rest[1:2] = [_padded_with(rest, how)]
    if len(node.proto.output) == 1:
        made = computed(reader, node, node.kind, compute, [map_, *rest])
        return quantised(reader, node, made, how)
    split_by = reader.host_parts if node.name in reader.keep else partial(compute, reader)
    parts = split_by(plain(node, node.kind), [map_, *rest])
    if not isinstance(parts, list):
        why = parts if isinstance(parts, str) else reader.why
        raise MapperError(f"{why}; put DequantizeLinear before it")
    found: list[Value] = []
    for part, name in zip(parts, node.proto.output, strict=True):
        assert isinstance(part, View)  # part of a map
        stored = quantised(reader, node, part, how)
        stored.tensor.name = name
        found.append(stored)
    return found


def _padded_with(rest: list[Any], how: Scale) -> Any:
    """Return the real number that stored integers are padded with."""
    value = rest[1] if len(rest) > 1 else None
    if value is None or isinstance(value, View):
        raise MapperError("pads stored integers; give the padding integer as a constant")
    return np.full((), how.scale * (_whole(value) - how.zero_point), np.float32)


MOVING = {
    **dict.fromkeys(("MaxPool", "GlobalMaxPool"), partial(moving, pool)),
    **dict.fromkeys(("Resize", "Upsample"), partial(moving, upsample)),
    "Pad": partial(moving, pad),
    "Slice": partial(moving, cut),
    "Split": partial(moving, split),
    "DepthToSpace": partial(moving, depth_to_space),
    "SpaceToDepth": partial(moving, on_host),
}
QOPERATORS: dict[str, Handler] = {
    "QLinearConv": partial(qlinear, 0, "Conv", conv),
    "QLinearMatMul": partial(qlinear, 1, "MatMul", matmul),
    "QGemm": qgemm,
    "QLinearAdd": partial(two, "Add"),
    "QLinearMul": partial(two, "Mul"),
    "QLinearConcat": qlinear_concat,
    "QLinearAveragePool": partial(one_map, "AveragePool", pool),
    "QLinearGlobalAveragePool": partial(one_map, "GlobalAveragePool", pool),
    "QLinearLeakyRelu": partial(one_map, "LeakyRelu", activation),
    "QLinearSigmoid": partial(one_map, "Sigmoid", function),
    "QLinearSoftmax": partial(one_map, "Softmax", on_host),
    "ConvInteger": partial(whole_sums, 0, "Conv", conv),
    "MatMulInteger": partial(whole_sums, 1, "MatMul", matmul),
    "Cast": cast,
}
VIEWS = frozenset(
    {"Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout", "Shape",
     "Size"}
)  # fmt: skip
