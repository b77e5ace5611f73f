"""Builds populations of neurons, and the layers between them, from an ONNX model.

`Builder` visits a model node by node. Nodes that combine elements create neurons, one for each
element of their output, and `Join`s to them; all others only pass signals on. See `onnxfile`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.budget import require_room
from storage.errors import BadInputError, MemoryShortError, with_place
from storage.formats.layers.linear import LinearLayer, Same
from storage.formats.layers.onnxgraph import NONE, LeftOut, Model, OnnxNode, Signal, Value, elements
from storage.graph import MAX_VERTICES

Array = NDArray[Any]
Ids = NDArray[np.int64]
ID_BYTES = 8

# elementwise operators: the connections stay the same
PASSING = frozenset((
    "Abs", "BipolarQuant", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Cos", "DequantizeLinear",
    "Dropout", "DynamicQuantizeLinear", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Hardmax", "Identity", "ImageScaler", "InstanceNormalization", "LRN",
    "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization",
    "MeanVarianceNormalization", "Mish", "Neg", "Not", "PRelu", "QLinearLeakyRelu",
    "QLinearSigmoid", "QLinearSoftmax", "Quant", "QuantizeLinear", "Reciprocal", "Relu",
    "RequantShift", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus",
    "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu", "Trunc",
))  # fmt: skip
LINEAR = frozenset({"Cast", "DequantizeLinear", "Dropout", "Identity"})
MOVING = frozenset((
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Reshape", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
))  # fmt: skip
MEASURING = frozenset({"Shape", "Size"})
ENDING = frozenset({"ArgMax", "ArgMin", "ArrayFeatureExtractor", "TopK", "ZipMap"})
PAIRING = frozenset({"Add", "Div", "Max", "Mean", "Min", "Mul", "Pow", "Sub", "Sum"})


@dataclass(slots=True)
class Join:
    """A layer between neurons.

    sources : shape (layer.inputs,), id of the neuron of each input, or -1
    targets : shape (layer.outputs,)
    population : number of the population of the targets
    """

    layer: LinearLayer
    sources: Ids
    targets: Ids
    population: int


@dataclass(slots=True)
class Population:
    """Neurons `first` to `first` + `size` - 1; `gain` scales their input weights, or is None."""

    name: str
    first: int
    size: int
    gain: Array | None = None


Operator = Callable[["Builder", OnnxNode, Sequence[Value]], Signal]


class Builder:
    """The populations and joins of a model; neurons are numbered consecutively."""

    def __init__(self, model: Model, operators: Mapping[str, Operator], memory: int) -> None:
        """operators : functions that create neurons or read their weights, by kind of node
        memory : bytes for the ids of neurons

        Raises `BadInputError` that names the first node that cannot be a layer, `MemoryShortError`
        for too many neurons.
        """
        self.model, self._memory = model, memory
        self._operators = operators
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
            except (BadInputError, MemoryShortError) as error:
                raise with_place(f"node {node.name!r} ({node.kind})", error) from error
            except (
                ValueError,
                IndexError,
                TypeError,
            ) as error:  # errors of numpy on shapes and axes
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
            raise BadInputError(f"its input {name!r} is not the output of a previous node")
        return self._values[name]

    def _neurons(self, name: str, shape: Sequence[int]) -> Ids:
        """Return the ids of a new population of the given shape."""
        first, size = self.neurons, elements(shape)
        if first + size > MAX_VERTICES:
            raise BadInputError(f"{name!r} of shape {tuple(shape)}: exceeds {MAX_VERTICES} neurons")
        self.require_ids(f"{name!r} of shape {tuple(shape)}", first + size)
        unique = name
        while unique in self._names:  # names of nodes may repeat
            unique = f"{name}#{len(self.populations)}"
            name += "#"
        self._names.add(unique)
        self.populations.append(Population(unique, first, size))
        return np.arange(first, first + size).reshape(shape)

    def require_ids(self, what: str, count: int) -> None:
        """Raise `MemoryShortError` if ids of neurons exceed the memory."""
        require_room(f"{what}: numbering {count:,} neurons", ID_BYTES * count, self._memory)

    def joined(
        self, node: OnnxNode, shape: Sequence[int], *parts: tuple[LinearLayer, Ids]
    ) -> Signal:
        """Create neurons of the given shape, with one layer to them from each of the sources."""
        ids = self._neurons(node.name, shape)
        signal = Signal(ids, len(self.populations) - 1)
        for layer, sources in parts:
            self.join(layer, sources, ids)
        return signal

    def join(self, layer: LinearLayer, sources: Ids, targets: Ids) -> None:
        if layer.inputs != sources.size or layer.outputs != targets.size:
            raise BadInputError(f"its weights need {layer.inputs} inputs, got {sources.size}")
        join = Join(layer, sources.ravel(), targets.ravel(), len(self.populations) - 1)
        self.joins.append(join)

    def _visit(self, node: OnnxNode, inputs: list[Value]) -> Sequence[Value]:
        """Return the outputs of a node. A second output (mask, indices of maxima) is dropped."""
        signals = [value for value in inputs if isinstance(value, Signal)]
        if any(isinstance(value, LeftOut) for value in inputs) and node.kind in self._operators:
            raise BadInputError(
                "reads the output of a node that selects a class; end the network there"
            )
        if node.kind in ENDING or any(isinstance(value, LeftOut) for value in inputs):
            self.left_out.append(node.name)
            return [LeftOut()] * len(node.proto.output)
        if not signals:
            return self.model.evaluate(node, [constant(value) for value in inputs], kept=True)
        if node.kind in PASSING:
            kept = signal_of(inputs, 0)
            return [Signal(kept.ids, self._fresh(node, kept) if node.kind in LINEAR else None)]
        if node.kind in MOVING:
            return [Signal(ids) for ids in self._moved(node, inputs)]
        if node.kind in MEASURING:
            return self.model.evaluate(node, [signals[0].ids])
        if node.kind in PAIRING:
            return [self._paired(node, inputs)]
        if node.kind in ("QLinearAdd", "QLinearMul"):  # each with scale and zero point
            return [self._paired(node, [inputs[0], inputs[3]])]
        if node.kind not in self._operators:
            raise BadInputError(
                "this operator is not supported; export the part of the model without it"
            )
        return [self._operators[node.kind](self, node, inputs)]

    def _moved(self, node: OnnxNode, inputs: Sequence[Value]) -> list[Array]:
        """Return the ids after a node that only moves elements."""
        data = len(inputs) if node.kind == "Concat" else 1
        arrays = [value.ids if isinstance(value, Signal) else constant(value) for value in inputs]
        for place, value in enumerate(inputs):
            if place >= data and isinstance(value, Signal):
                raise BadInputError(
                    "the positions of elements depend on neurons; they must be constant"
                )
            if place < data and isinstance(value, np.ndarray):  # a constant among signals
                arrays[place] = np.full(value.shape, NONE, np.int64)
        for array in arrays[:data]:  # some are views of one id, which become arrays
            self.require_ids("its map", 0 if array is None else array.size)
        # all moving operators have a float64 kernel, which is exact for all ids
        arrays[:data] = [None if ids is None else ids.astype(np.float64) for ids in arrays[:data]]
        return [made.astype(np.int64) for made in self.model.evaluate(node, arrays)]

    def _paired(self, node: OnnxNode, inputs: Sequence[Value]) -> Signal:
        """Combine tensors element by element: new neurons, unless only one is a signal."""
        arrays = [value.ids if isinstance(value, Signal) else constant(value) for value in inputs]
        shape = np.broadcast_shapes(*(array.shape for array in arrays if array is not None))
        signals = [value for value in inputs if isinstance(value, Signal)]
        if len(signals) > 1:
            size = elements(shape)
            parts = [(Same(size), np.broadcast_to(value.ids, shape)) for value in signals]
            return self.joined(node, shape, *parts)
        signal, constants = signals[0], [v for v in inputs if isinstance(v, np.ndarray)]
        if signal.ids.shape != shape or not constants:
            return Signal(np.broadcast_to(signal.ids, shape))
        if node.kind in ("Add", "Sub", "Sum"):  # a bias
            return Signal(signal.ids, self._fresh(node, signal))
        if node.kind == "Mul":
            return self.scaled(node, signal, constants[0])
        if node.kind == "Div" and inputs[0] is signal:
            with np.errstate(divide="ignore"):  # reported through non-finite weights
                factors = 1 / constants[0].astype(np.float64)
            return self.scaled(node, signal, factors)
        return Signal(signal.ids)

    def scaled(self, node: OnnxNode, signal: Signal, factors: Array) -> Signal:
        """Return the signal times constants, which scale the weights of fresh neurons."""
        fresh = self._fresh(node, signal)
        if fresh is not None:
            population = self.populations[fresh]
            gain = np.broadcast_to(factors, signal.ids.shape).ravel().astype(np.float64)
            population.gain = gain if population.gain is None else population.gain * gain
        return Signal(signal.ids, fresh)

    def _fresh(self, node: OnnxNode, signal: Signal) -> int | None:
        """Return the population of a fresh signal, if no other node reads its sums."""
        names = [name for name in node.proto.input if self._values.get(name) is signal]
        return signal.fresh if self.model.uses.get(names[0], 0) == 1 else None


def constant(value: Value) -> Array | None:
    """Return an input that is constant or omitted."""
    assert value is None or isinstance(value, np.ndarray)
    return value


def signal_of(inputs: Sequence[Value], place: int) -> Signal:
    """Return an input that depends on neurons; raise `BadInputError` if it does not."""
    value = inputs[place] if place < len(inputs) else None
    if not isinstance(value, Signal):
        raise BadInputError(f"input {place} must depend on neurons")
    return value
