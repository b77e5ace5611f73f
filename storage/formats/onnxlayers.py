"""Operators of ONNX as layers of neurons: one function for each kind of operator.

`Builder` goes through a model node by node. Nodes that combine elements make neurons, one for each
element of their result, and `Join`s to them; all others only pass signals on. See `onnxfile`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.layers import (
    Convolution,
    Dense,
    Layer,
    Pooling,
    Same,
    Windows,
    same_pads,
)
from storage.formats.onnxgraph import NONE, LeftOut, Model, Node, Signal, Value, elements
from storage.graph import MAX_VERTICES

Array = NDArray[Any]
Ids = NDArray[np.int64]

PASSING = frozenset(  # what changes each element by itself: the connections stay the same
    """Abs BipolarQuant Cast CastLike Ceil Celu Clip Cos DequantizeLinear Dropout
    DynamicQuantizeLinear Elu Erf Exp Floor Gelu HardSigmoid HardSwish Hardmax Identity
    ImageScaler InstanceNormalization LRN LayerNormalization LeakyRelu Log LogSoftmax
    LpNormalization MeanVarianceNormalization Mish Neg Not PRelu QLinearLeakyRelu QLinearSigmoid
    QLinearSoftmax Quant QuantizeLinear Reciprocal Relu RequantShift Round Selu Shrink Sigmoid
    Sign Sin Softmax Softplus Softsign Sqrt Swish Tanh ThresholdedRelu Trunc""".split()
)
LINEAR = frozenset({"Cast", "DequantizeLinear", "Dropout", "Identity", "QuantizeLinear"})
MOVING = frozenset(
    """Concat DepthToSpace Expand Flatten Gather Reshape Slice SpaceToDepth Split Squeeze Tile
    Transpose Unsqueeze""".split()
)
MEASURING = frozenset({"Shape", "Size"})
ENDING = frozenset({"ArgMax", "ArgMin", "ArrayFeatureExtractor", "TopK", "ZipMap"})
PAIRING = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"})


@dataclass(slots=True)
class Join:
    """A layer between neurons.

    sources : shape (layer.inputs,), id of the neuron behind each input, or -1
    targets : shape (layer.outputs,)
    population : number of the population that the targets are
    """

    layer: Layer
    sources: Ids
    targets: Ids
    population: int


@dataclass(slots=True)
class Population:
    """Neurons `first` to `first` + `size` - 1; `gain` is None or what their inputs count."""

    name: str
    first: int
    size: int
    gain: Array | None = None


class Builder:
    """The populations and joins of a model; neurons are counted through in order."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.populations: list[Population] = []
        self.joins: list[Join] = []
        self.left_out: list[str] = []
        self._values: dict[str, Value] = dict(model.constants)
        self._names: set[str] = set()
        for name, shape in model.inputs:
            self._values[name] = Signal(self._neurons(name, shape))
        for node in model.nodes:
            try:
                made = self._visit(node, [self._value(name) for name in node.proto.input])
            except BadInputError as error:
                raise BadInputError(f"node {node.name!r} ({node.kind}): {error}") from error
            except (ValueError, IndexError, TypeError) as error:  # by numpy, of shapes and axes
                reason = " ".join(str(error).split())[:120]
                raise BadInputError(f"node {node.name!r} ({node.kind}): {reason}") from error
            for name, value in zip(node.proto.output, made, strict=False):
                self._values[name] = value

    @property
    def neurons(self) -> int:
        last = self.populations[-1] if self.populations else None
        return 0 if last is None else last.first + last.size

    def _value(self, name: str) -> Value:
        if not name:
            return None
        if name not in self._values:
            raise BadInputError(f"its input {name!r} is made by no node before it")
        return self._values[name]

    def _neurons(self, name: str, shape: Sequence[int]) -> Ids:
        """Ids of a new population, of the given shape."""
        first, size = self.neurons, elements(shape)
        if first + size > MAX_VERTICES:
            raise BadInputError(f"{name!r} of shape {tuple(shape)}: beyond {MAX_VERTICES} neurons")
        unique = name
        while unique in self._names:  # names of nodes need not differ
            unique = f"{name}#{len(self.populations)}"
            name += "#"
        self._names.add(unique)
        self.populations.append(Population(unique, first, size))
        return np.arange(first, first + size).reshape(shape)

    def _joined(self, node: Node, shape: Sequence[int], *parts: tuple[Layer, Ids]) -> Signal:
        """New neurons of the given shape, one layer to them from each of the sources."""
        ids = self._neurons(node.name, shape)
        signal = Signal(ids, len(self.populations) - 1)
        for layer, sources in parts:
            self._join(layer, sources, ids)
        return signal

    def _join(self, layer: Layer, sources: Ids, targets: Ids) -> None:
        if layer.inputs != sources.size or layer.outputs != targets.size:
            raise BadInputError(f"its weights take {layer.inputs} inputs, and {sources.size} come")
        join = Join(layer, sources.ravel(), targets.ravel(), len(self.populations) - 1)
        self.joins.append(join)

    def _visit(self, node: Node, inputs: list[Value]) -> Sequence[Value]:
        signals = [value for value in inputs if isinstance(value, Signal)]
        if node.kind in ENDING or any(isinstance(value, LeftOut) for value in inputs):
            self.left_out.append(node.name)
            return [LeftOut()] * len(node.proto.output)
        if not signals:
            return self.model.evaluate(node, [_constant(value) for value in inputs])
        if node.kind in PASSING:
            kept = _signal(inputs, 0)
            passed = kept if node.kind in LINEAR else Signal(kept.ids)
            return [passed, *[LeftOut()] * (len(node.proto.output) - 1)]
        if node.kind in MOVING:
            return [Signal(ids) for ids in self._moved(node, inputs)]
        if node.kind in MEASURING:
            return self.model.evaluate(node, [signals[0].ids])
        if node.kind in PAIRING:
            return [self._paired(node, inputs)]
        if node.kind in ("QLinearAdd", "QLinearMul"):  # each with scale and zero point
            return [self._paired(node, [inputs[0], inputs[3]])]
        operator = OPERATORS.get(node.kind)
        if operator is None:
            raise BadInputError("this operator is not supported")
        # a second output, as the places of maxima, is for other nodes than layers
        return [operator(self, node, inputs), *[LeftOut()] * (len(node.proto.output) - 1)]

    def _moved(self, node: Node, inputs: Sequence[Value]) -> list[Array]:
        """Ids where a node that moves elements puts them."""
        data = len(inputs) if node.kind == "Concat" else 1
        arrays = [value.ids if isinstance(value, Signal) else _constant(value) for value in inputs]
        for place, value in enumerate(inputs):
            if place >= data and isinstance(value, Signal):
                raise BadInputError("where elements go depends on neurons; it must be constant")
            if place < data and isinstance(value, np.ndarray):  # a constant among signals
                arrays[place] = np.full(value.shape, NONE, np.int64)
        return self.model.evaluate(node, arrays)

    def _paired(self, node: Node, inputs: Sequence[Value]) -> Signal:
        """Element by element of several tensors: new neurons, unless only one is a signal."""
        arrays = [value.ids if isinstance(value, Signal) else _constant(value) for value in inputs]
        shape = np.broadcast_shapes(*(array.shape for array in arrays if array is not None))
        signals = [value for value in inputs if isinstance(value, Signal)]
        if len(signals) > 1:
            size = elements(shape)
            parts = [(Same(size), np.broadcast_to(value.ids, shape)) for value in signals]
            return self._joined(node, shape, *parts)
        kept = Signal(np.broadcast_to(signals[0].ids, shape))
        constants = [value for value in inputs if isinstance(value, np.ndarray)]
        if signals[0].ids.shape != shape:
            return kept
        if node.kind == "Mul" and constants:
            self._scale(node, signals[0], constants[0])
        elif node.kind == "Div" and constants and isinstance(inputs[0], Signal):
            with np.errstate(divide="ignore"):
                self._scale(node, signals[0], 1 / constants[0])
        elif node.kind in ("Max", "Min", "Pow", "Div"):
            return kept
        return Signal(kept.ids, signals[0].fresh)

    def _scale(self, node: Node, signal: Signal, factors: Array) -> None:
        """Multiply the weights of fresh neurons, if nobody else takes their sums as they are."""
        if signal.fresh is None or self.model.uses.get(self._name_of(node, signal), 0) != 1:
            return
        population = self.populations[signal.fresh]
        gain = np.broadcast_to(factors, signal.ids.shape).ravel().astype(np.float64)
        population.gain = gain if population.gain is None else population.gain * gain

    def _name_of(self, node: Node, signal: Signal) -> str:
        return next(name for name in node.proto.input if self._values.get(name) is signal)


def _constant(value: Value) -> Array | None:
    assert value is None or isinstance(value, np.ndarray)
    return value


def _signal(inputs: Sequence[Value], place: int) -> Signal:
    value = inputs[place] if place < len(inputs) else None
    if not isinstance(value, Signal):
        raise BadInputError(f"input {place} must depend on neurons")
    return value


def _weights(inputs: Sequence[Value], place: int) -> Array:
    value = inputs[place] if place < len(inputs) else None
    if not isinstance(value, np.ndarray):
        raise BadInputError(f"input {place} must be constant weights, not computed")
    return value


def _given(inputs: Sequence[Value], place: int, default: Array) -> Array:
    """An optional constant input."""
    value = inputs[place] if place < len(inputs) else None
    return value if isinstance(value, np.ndarray) else default


def _dequantised(
    inputs: Sequence[Value], place: int, scale: int | None, zero: int, axis: int
) -> Array:
    """Weights at `place`, less the zero point, times the scale; both may go along an axis."""
    weight = _weights(inputs, place).astype(np.float64)

    def along(values: Array) -> Array:
        if values.ndim != 1 or values.size == 1:
            return values.reshape(()) if values.size == 1 else values
        return values.reshape([-1 if at == axis % weight.ndim else 1 for at in range(weight.ndim)])

    weight = weight - along(_given(inputs, zero, np.zeros(())).astype(np.float64))
    return weight if scale is None else weight * along(_weights(inputs, scale))


def _windows(node: Node, size: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows of a convolution or pooling node; raises `BadInputError` for bad attributes."""
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
        raise BadInputError(f"auto_pad is {automatic!r}")
    return Windows(shape, kernel, stride, dilation, before, after, node.flag("ceil_mode"))


def _image(signal: Signal, axes: int) -> tuple[int, ...]:
    """Shape of a single sample: (channels, *size)."""
    shape = signal.ids.shape
    if len(shape) != axes + 2 or axes < 1:
        raise BadInputError(f"takes a tensor of shape {shape}; it must have {axes + 2} axes")
    if shape[0] != 1:
        raise BadInputError(f"takes a batch of {shape[0]}; export the model for a batch of 1")
    return shape[1:]


def _convolve(builder: Builder, node: Node, inputs: Sequence[Value], weight: Array) -> Signal:
    signal, groups = _signal(inputs, 0), int(node.number("group", 1))
    channels, *size = _image(signal, weight.ndim - 2)
    if weight.shape[1] * groups != channels:
        raise BadInputError(
            f"weights of shape {weight.shape} in {groups} groups do not take {channels} channels"
        )
    windows = _windows(node, size, weight.shape[2:])
    layer = Convolution(weight, windows, groups)
    return builder._joined(node, (1, weight.shape[0], *windows.count), (layer, signal.ids))


def _conv(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _weights(inputs, 1))


def _qlinear_conv(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _dequantised(inputs, 3, 4, 5, 0))


def _conv_integer(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    return _convolve(builder, node, inputs, _dequantised(inputs, 1, None, 3, 0))


def _multiply(builder: Builder, node: Node, left: Signal, right: Array) -> Signal:
    """Signals times weights, as `numpy.matmul`."""
    ids = left.ids[None] if left.ids.ndim == 1 else left.ids
    weight = right[:, None] if right.ndim == 1 else right
    if ids.shape[-1] != weight.shape[-2]:
        raise BadInputError(f"weights of shape {right.shape} do not take {left.ids.shape}")
    copies = np.broadcast_shapes(ids.shape[:-2], weight.shape[:-2])
    (rows, into), out = ids.shape[-2:], weight.shape[-1]
    turned = np.swapaxes(weight, -1, -2)[..., None, :, :]
    layer = Dense(np.broadcast_to(turned, (*copies, rows, out, into)))
    shape = (*copies, *((rows,) * (left.ids.ndim > 1)), *((out,) * (right.ndim > 1)))
    return builder._joined(node, shape, (layer, np.broadcast_to(ids, (*copies, rows, into))))


def _multiply_left(builder: Builder, node: Node, left: Array, right: Signal) -> Signal:
    """Weights times signals: the product of both transposed, transposed."""
    if left.ndim < 2 or right.ids.ndim < 2 or left.shape[-1] != right.ids.shape[-2]:
        raise BadInputError(f"weights of shape {left.shape} do not take {right.ids.shape}")
    copies = np.broadcast_shapes(left.shape[:-2], right.ids.shape[:-2])
    (out, into), columns = left.shape[-2:], right.ids.shape[-1]
    layer = Dense(np.broadcast_to(left[..., None, :, :], (*copies, columns, out, into)))
    signal = builder._joined(node, (*copies, out, columns))
    sources = np.broadcast_to(np.swapaxes(right.ids, -1, -2), (*copies, columns, into))
    builder._join(layer, sources, np.swapaxes(signal.ids, -1, -2))
    return signal


def _matmul(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    left, right = inputs[:2]
    if isinstance(left, Signal) and isinstance(right, Signal):
        raise BadInputError("both factors depend on neurons; one must be constant weights")
    if isinstance(left, Signal):
        return _multiply(builder, node, left, _weights(inputs, 1))
    return _multiply_left(builder, node, _weights(inputs, 0), _signal(inputs, 1))


def _gemm(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    factors: list[Value] = []
    for value, flag in zip(inputs[:2], ("transA", "transB"), strict=True):
        turn: Callable[[Array], Array] = np.transpose if node.flag(flag) else np.asarray
        if isinstance(value, Signal):
            factors.append(Signal(turn(value.ids)))
        elif isinstance(value, np.ndarray):
            factors.append(turn(value) * node.number("alpha", 1.0))
    made = _matmul(builder, node, factors)
    # the sum with another layer, in place of a bias
    if len(inputs) > 2 and isinstance(inputs[2], Signal):
        added = np.broadcast_to(inputs[2].ids, made.ids.shape)
        beta = np.full(made.ids.size, node.number("beta", 1.0))
        builder._join(Same(made.ids.size, beta), added, made.ids)
    return made


def _qgemm(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    weight = _dequantised(inputs, 3, 4, 5, 0 if node.flag("transB") else 1)
    return _gemm(builder, node, [inputs[0], weight])


def _qlinear_matmul(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    return _multiply(builder, node, _signal(inputs, 0), _dequantised(inputs, 3, 4, 5, -1))


def _matmul_integer(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    return _multiply(builder, node, _signal(inputs, 0), _dequantised(inputs, 1, None, 3, -1))


def _pool(builder: Builder, node: Node, inputs: Sequence[Value], average: bool) -> Signal:
    signal = _signal(inputs, 0)
    kernel = tuple(int(k) for k in node.attributes.get("kernel_shape", ()))
    if not kernel:
        raise BadInputError("attribute kernel_shape is missing")
    if node.flag("channels_last"):
        raise BadInputError("channels_last is not supported; put the channels first")
    channels, *size = _image(signal, len(kernel))
    windows = _windows(node, size, kernel)
    mean = ("kernel" if node.flag("count_include_pad") else "inside") if average else ""
    layer = Pooling(channels, windows, mean)
    return builder._joined(node, (1, channels, *windows.count), (layer, signal.ids))


def _reduce(
    builder: Builder, node: Node, inputs: Sequence[Value], average: bool, whole: bool = False
) -> Signal:
    """One neuron for all that it sums, averages or takes the largest of.

    whole : over all axes behind the channels, as the global poolings
    """
    signal = _signal(inputs, 0)
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
    return builder._joined(node, shape, (Dense(weight), moved))


def _normalise(builder: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    """BatchNormalization: a factor for each channel, multiplied into the weights before it."""
    signal = _signal(inputs, 0)
    scale, variance = _weights(inputs, 1), _weights(inputs, 4)
    factors = scale / np.sqrt(variance.astype(np.float64) + node.number("epsilon", 1e-5))
    shape = [-1 if axis == 1 else 1 for axis in range(max(signal.ids.ndim, 2))]
    builder._scale(node, signal, factors.reshape(shape[: signal.ids.ndim]))
    return signal


def _pad(_: Builder, node: Node, inputs: Sequence[Value]) -> Signal:
    signal = _signal(inputs, 0)
    listed = node.attributes.get("pads", node.attributes.get("paddings", ()))
    pads = _given(inputs, 1, np.asarray(listed, np.int64)).ravel().tolist()
    axes = _given(inputs, 3, np.arange(signal.ids.ndim)).ravel().tolist()
    if len(pads) != 2 * len(axes) or min(pads, default=0) < 0:
        raise BadInputError(f"pads are {pads}; they must be two for each axis, and not negative")
    width = [(0, 0)] * signal.ids.ndim
    for axis, low, high in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        width[axis] = int(low), int(high)
    mode = node.attributes.get("mode", b"constant").decode("ascii", "replace")
    if mode == "constant":
        return Signal(np.pad(signal.ids, width, constant_values=NONE))
    if mode not in ("edge", "reflect", "wrap"):
        raise BadInputError(f"mode is {mode!r}")
    ways: Any = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    return Signal(np.pad(signal.ids, width, mode=ways[mode]))


OPERATORS: dict[str, Callable[[Builder, Node, Sequence[Value]], Signal]] = {
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
