"""ONNX operators that create neurons: one function per kind of operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.layers.linear import (
    Convolution,
    Dense,
    Pooling,
    Same,
    WindowPositions,
    same_pads,
)
from storage.formats.layers.onnxbuild import Builder, Operator, signal_of
from storage.formats.layers.onnxgraph import NONE, OnnxNode, Signal, Value, dequantised

Array = NDArray[Any]


def _weights(inputs: Sequence[Value], place: int) -> Array:
    value = inputs[place] if place < len(inputs) else None
    if not isinstance(value, np.ndarray):
        raise BadInputError(f"input {place} must be constant weights, not computed")
    return value


def _given(inputs: Sequence[Value], place: int, default: Array) -> Array:
    """Return an optional constant input."""
    value = inputs[place] if place < len(inputs) else None
    return value if isinstance(value, np.ndarray) else default


def _dequantised(
    inputs: Sequence[Value], place: int, scale: int | None, zero: int, axis: int
) -> Array:
    """Return dequantised weights at `place`; their scale and zero point are also inputs."""
    factors = None if scale is None else _weights(inputs, scale)
    given = inputs[zero] if zero < len(inputs) else None
    point = given if isinstance(given, np.ndarray) else None
    return dequantised(_weights(inputs, place), factors, point, axis)


def _windows(node: OnnxNode, size: Sequence[int], kernel: Sequence[int]) -> WindowPositions:
    """Return the windows of a convolution or pooling; raise `BadInputError` if invalid."""
    axes = len(size)
    shape, kernel = tuple(size), tuple(kernel)
    stride = node.numbers("strides", (1,) * axes)
    dilation = node.numbers("dilations", (1,) * axes)
    pads = node.numbers("pads", (0,) * (2 * axes))
    before, after = pads[:axes], pads[axes:]
    automatic = node.attributes.get("auto_pad", b"NOTSET").decode("ascii", "replace")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        if min(stride) < 1:
            raise BadInputError(f"strides are {stride}; they must be positive")
        before, after = same_pads(shape, kernel, stride, dilation)
        if automatic == "SAME_LOWER":
            before, after = after, before
    elif automatic == "VALID":
        before = after = (0,) * axes
    elif automatic != "NOTSET":
        raise BadInputError(f"unknown auto_pad {automatic!r}")
    return WindowPositions(shape, kernel, stride, dilation, before, after, node.flag("ceil_mode"))


def _image(signal: Signal, axes: int) -> tuple[int, ...]:
    """Return the shape of a single sample: (channels, *size)."""
    shape = signal.ids.shape
    if len(shape) != axes + 2 or axes < 1:
        raise BadInputError(f"its input has shape {shape}; it must have {axes + 2} axes")
    if shape[0] != 1:
        raise BadInputError(
            f"its input is a batch of {shape[0]}; export the model for a batch of 1"
        )
    return shape[1:]


def _convolve(builder: Builder, node: OnnxNode, inputs: Sequence[Value], weight: Array) -> Signal:
    signal, groups = signal_of(inputs, 0), int(node.number("group", 1))
    channels, *size = _image(signal, weight.ndim - 2)
    if weight.shape[1] * groups != channels:
        raise BadInputError(
            f"weights of shape {weight.shape} in {groups} groups do not match {channels} channels"
        )
    windows = _windows(node, size, weight.shape[2:])
    layer = Convolution(weight, windows, groups)
    return builder.joined(node, (1, weight.shape[0], *windows.count), (layer, signal.ids))


def _conv(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _weights(inputs, 1))


def _qlinear_conv(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _dequantised(inputs, 3, 4, 5, 0))


def _conv_integer(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _dequantised(inputs, 1, None, 3, 0))


def _multiply(builder: Builder, node: OnnxNode, left: Signal, right: Array) -> Signal:
    """Multiply signals by weights, like `numpy.matmul`."""
    ids = left.ids[None] if left.ids.ndim == 1 else left.ids
    weight = right[:, None] if right.ndim == 1 else right
    if ids.shape[-1] != weight.shape[-2]:
        raise BadInputError(f"weights of shape {right.shape} do not match input {left.ids.shape}")
    copies = np.broadcast_shapes(ids.shape[:-2], weight.shape[:-2])
    (rows, into), out = ids.shape[-2:], weight.shape[-1]
    turned = np.swapaxes(weight, -1, -2)[..., None, :, :]
    layer = Dense(np.broadcast_to(turned, (*copies, rows, out, into)))
    shape = (*copies, *((rows,) * (left.ids.ndim > 1)), *((out,) * (right.ndim > 1)))
    return builder.joined(node, shape, (layer, np.broadcast_to(ids, (*copies, rows, into))))


def _multiply_left(builder: Builder, node: OnnxNode, left: Array, right: Signal) -> Signal:
    """Multiply weights by signals: the transpose of the product of both transposed."""
    if left.ndim < 2 or right.ids.ndim < 2 or left.shape[-1] != right.ids.shape[-2]:
        raise BadInputError(f"weights of shape {left.shape} do not match input {right.ids.shape}")
    copies = np.broadcast_shapes(left.shape[:-2], right.ids.shape[:-2])
    (out, into), columns = left.shape[-2:], right.ids.shape[-1]
    layer = Dense(np.broadcast_to(left[..., None, :, :], (*copies, columns, out, into)))
    signal = builder.joined(node, (*copies, out, columns))
    sources = np.broadcast_to(np.swapaxes(right.ids, -1, -2), (*copies, columns, into))
    builder.join(layer, sources, np.swapaxes(signal.ids, -1, -2))
    return signal


def _matmul(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    left, right = inputs[:2]
    if isinstance(left, Signal) and isinstance(right, Signal):
        raise BadInputError("both factors depend on neurons; one must be constant weights")
    if isinstance(left, Signal):
        return _multiply(builder, node, left, _weights(inputs, 1))
    return _multiply_left(builder, node, _weights(inputs, 0), signal_of(inputs, 1))


def _gemm(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    factors: list[Value] = []
    for value, flag in zip(inputs[:2], ("transA", "transB"), strict=True):
        turn: Callable[[Array], Array] = np.transpose if node.flag(flag) else np.asarray
        if isinstance(value, Signal):
            factors.append(Signal(turn(value.ids)))
        elif isinstance(value, np.ndarray):
            factors.append(turn(value) * node.number("alpha", 1.0))
    made = _matmul(builder, node, factors)
    # a signal in place of the bias: sum with another layer
    if len(inputs) > 2 and isinstance(inputs[2], Signal):
        added = np.broadcast_to(inputs[2].ids, made.ids.shape)
        beta = np.full(made.ids.size, node.number("beta", 1.0))
        builder.join(Same(made.ids.size, beta), added, made.ids)
    return made


def _qgemm(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    weight = _dequantised(inputs, 3, 4, 5, 0 if node.flag("transB") else 1)
    return _gemm(builder, node, [inputs[0], weight])


def _qlinear_matmul(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    return _multiply(builder, node, signal_of(inputs, 0), _dequantised(inputs, 3, 4, 5, -1))


def _matmul_integer(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    return _multiply(builder, node, signal_of(inputs, 0), _dequantised(inputs, 1, None, 3, -1))


def _pool(builder: Builder, node: OnnxNode, inputs: Sequence[Value], average: bool) -> Signal:
    signal = signal_of(inputs, 0)
    kernel = tuple(int(k) for k in node.attributes.get("kernel_shape", ()))
    if not kernel:
        raise BadInputError("attribute kernel_shape is missing")
    if node.flag("channels_last"):
        raise BadInputError("channels_last is not supported; put the channels first")
    channels, *size = _image(signal, len(kernel))
    windows = _windows(node, size, kernel)
    mean = ("kernel" if node.flag("count_include_pad") else "inside") if average else ""
    layer = Pooling(channels, windows, mean)
    return builder.joined(node, (1, channels, *windows.count), (layer, signal.ids))


def _reduce(
    builder: Builder, node: OnnxNode, inputs: Sequence[Value], average: bool, whole: bool = False
) -> Signal:
    """Create one neuron per sum, average or maximum over some axes.

    whole : reduce all axes after the channels, like global pooling
    """
    signal = signal_of(inputs, 0)
    count = signal.ids.ndim
    if whole:
        _image(signal, count - 2)
        axes: Iterable[int] = range(2, count)
    else:
        listed = _given(inputs, 1, np.asarray(node.attributes.get("axes", ()), np.int64))
        axes = listed.ravel().tolist()
        if not axes and node.flag("noop_with_empty_axes"):
            return Signal(signal.ids)
        axes = axes or range(count)
    gone = sorted({range(count)[axis] for axis in axes})
    moved = np.moveaxis(signal.ids, gone, range(count - len(gone), count))
    size = math.prod(signal.ids.shape[axis] for axis in gone)
    weight = np.broadcast_to(1 / size if average else 1.0, (signal.ids.size // size, 1, size))
    keep = whole or node.flag("keepdims", 1)
    lengths = enumerate(signal.ids.shape)
    shape = [1 if axis in gone else n for axis, n in lengths if keep or axis not in gone]
    return builder.joined(node, shape, (Dense(weight), moved))


def _normalise(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    """Apply BatchNormalization: a factor per channel, multiplied into the preceding weights."""
    signal = signal_of(inputs, 0)
    scale, variance = _weights(inputs, 1), _weights(inputs, 4)
    with np.errstate(divide="ignore", invalid="ignore"):  # reported through non-finite weights
        factors = scale / np.sqrt(variance.astype(np.float64) + node.number("epsilon", 1e-5))
    shape = [-1 if axis == 1 else 1 for axis in range(max(signal.ids.ndim, 2))]
    return builder.scaled(node, signal, factors.reshape(shape[: signal.ids.ndim]))


def _pad(builder: Builder, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
    signal = signal_of(inputs, 0)
    listed = node.attributes.get("pads", node.attributes.get("paddings", ()))
    pads = _given(inputs, 1, np.asarray(listed, np.int64)).ravel().tolist()
    axes = _given(inputs, 3, np.arange(signal.ids.ndim)).ravel().tolist()
    if len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
        raise BadInputError(f"pads are {pads}; they must be two per axis and not negative")
    width = [(0, 0)] * signal.ids.ndim
    for axis, low, high in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        width[axis] = int(low), int(high)
    sizes = [low + size + high for size, (low, high) in zip(signal.ids.shape, width, strict=True)]
    builder.require_ids("its map", math.prod(sizes))
    mode = node.attributes.get("mode", b"constant").decode("ascii", "replace")
    if mode == "constant":
        return Signal(np.pad(signal.ids, width, constant_values=NONE))
    if mode not in ("edge", "reflect", "wrap"):
        raise BadInputError(f"unknown mode {mode!r}")
    ways: Any = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    return Signal(np.pad(signal.ids, width, mode=ways[mode]))


OPERATORS: dict[str, Operator] = {
    "AveragePool": partial(_pool, average=True),
    "BatchNormalization": _normalise,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "Gemm": _gemm,
    "GlobalAveragePool": partial(_reduce, average=True, whole=True),
    "GlobalLpPool": partial(_reduce, average=False, whole=True),
    "GlobalMaxPool": partial(_reduce, average=False, whole=True),
    "LpPool": partial(_pool, average=False),
    "MatMul": _matmul,
    "MatMulInteger": _matmul_integer,
    "MaxPool": partial(_pool, average=False),
    "Pad": _pad,
    "QGemm": _qgemm,
    "QLinearAveragePool": partial(_pool, average=True),
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "ReduceL1": partial(_reduce, average=False),
    "ReduceL2": partial(_reduce, average=False),
    "ReduceMax": partial(_reduce, average=False),
    "ReduceMean": partial(_reduce, average=True),
    "ReduceMin": partial(_reduce, average=False),
    "ReduceSum": partial(_reduce, average=False),
}
