"""ONNX models: reading, and constant folding.

A value of the graph is an array of constants, or a `Signal`: an array of neuron ids, while nodes
only move elements. ONNX Runtime applies such nodes (Reshape, Transpose, Slice, Concat, ...) to the
ids, and evaluates all nodes with constant inputs, so that each version of an operator behaves as
defined by the standard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.budget import declared_bytes, require_room
from storage.errors import BadInputError
from storage.extras import require
from storage.files import read_input
from storage.formats.layers.onnxcheck import (
    Kinds,
    arrays_of,
    check_names,
    check_node,
    check_order,
    check_types,
)
from storage.formats.layers.onnxexpanded import STANDARD
from storage.formats.layers.onnxruns import NodeSession, limited_memory, model_of_node, runtime

MOST_MODEL = 1 << 31  # bytes
MOST_VERSION = 1 << 31  # opset versions
MOST_MADE = 1 << 30  # bytes of folded constants
SHARE = 4  # folded constants use at most 1/SHARE of the memory
DEFAULT_MEMORY = SHARE * MOST_MADE
MOST_SHAPE = 1 << 12  # elements of a constant used for shape inference
NONE = -1  # in arrays of ids: a constant, such as padding
_ANY_FAULT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Signal:
    """A tensor of neurons.

    ids : ndarray[int64], shape of the tensor: id of the neuron of each element, or `NONE`
    fresh : number of the population whose input sums these are, in order, before any activation;
        None otherwise
    """

    ids: NDArray[np.int64]
    fresh: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A value computed from the result only for the user, such as the name of a class."""


Value = NDArray[Any] | Signal | LeftOut | None  # None: an omitted optional input


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node of the graph with its attributes as Python values."""

    proto: Any
    attributes: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.proto.op_type)

    @property
    def name(self) -> str:
        """Return the node's name, or the name of its first output."""
        return str(self.proto.name or next(iter(self.proto.output), ""))

    def number(self, name: str, default: float) -> float:
        return float(self.attributes.get(name, default))

    def flag(self, name: str, default: int = 0) -> bool:
        return bool(self.attributes.get(name, default))

    def numbers(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
        """Return a list of whole numbers; raise `BadInputError` unless as long as the default."""
        found = tuple(int(value) for value in self.attributes.get(name, default))
        if len(found) != len(default):
            raise BadInputError(f"{name} has {len(found)} values; it needs {len(default)}")
        return found


def library(path: Path) -> Any:
    """Return the package onnx; raise `BadInputError` with the extra to install if it, or ONNX
    Runtime, is missing."""
    found = require("onnx", "onnx", path, "ONNX models")
    try:
        runtime()
    except ImportError:
        require("onnxruntime", "onnx", path, "ONNX models")
    return found


def whole_model(path: Path) -> bytes:
    """Return a serialised model including its external weights."""
    onnx = library(path)
    data = read_input(path, MOST_MODEL)
    model = onnx.load_model_from_string(data)
    if not any(
        onnx.external_data_helper.uses_external_data(one) for one in model.graph.initializer
    ):
        return data
    return bytes(onnx.load(str(path)).SerializeToString(deterministic=True))


Sort = tuple[tuple[int, ...], np.dtype[Any]]
"""Shape and type of a tensor."""


class Model:
    """An ONNX model with its constants.

    nodes : in the order of the file, which must be topological
    inputs : name and shape of each input; the first axis is 1 if the model leaves it open
    types : number types of the inputs, by name; None for inputs without numbers
    outputs : names of the outputs; declared : number types of outputs, None without numbers
    constants : by name
    uses : number of nodes and outputs that read a value
    """

    def __init__(self, path: Path, data: bytes | None = None, memory: int = DEFAULT_MEMORY) -> None:
        """data : the serialised model, instead of the file
        memory : bytes; constants that nodes compute use at most 1/SHARE of them

        Raises `BadInputError` if the file is damaged, or not a model of a neural network.
        """
        self._onnx = library(path)
        self._most_made = self._left = min(MOST_MADE, memory // SHARE)
        decoding = import_module("google.protobuf.message").DecodeError
        try:
            whole = read_input(path, MOST_MODEL) if data is None else data
            model = self._onnx.load_model_from_string(whole)
        except decoding as error:
            raise BadInputError(
                "not a valid ONNX file: damaged or not a model; export it again"
            ) from error
        graph = model.graph
        if not graph.node and not graph.input:
            raise BadInputError("contains no graph; is this an ONNX model?")
        self._check_versions(model)
        check_names(graph)
        self.constants: dict[str, NDArray[Any]] = arrays_of(graph, path.parent)
        self._opsets = list(model.opset_import)
        self._versions = {str(o.domain): int(o.version) for o in self._opsets}
        self.nodes = [self._node(proto) for proto in graph.node]
        given = dict.fromkeys(one.name for one in graph.input)
        if len(given) < len(graph.input) or "" in given:
            raise BadInputError(
                "has inputs with missing or duplicate names; export the model again"
            )
        check_order(self.nodes, given | dict.fromkeys(self.constants))
        self.inputs = [
            (str(given.name), _shape(given))
            for given in graph.input
            if given.name not in self.constants
        ]
        self.types = {str(given.name): self._type(given) for given in graph.input}
        self.outputs = [str(given.name) for given in graph.output]
        self.declared = {
            str(one.name): self._type(one) for one in graph.output if one.type.tensor_type.elem_type
        }
        self.uses: dict[str, int] = {}
        for name in [name for node in graph.node for name in node.input]:
            self.uses[name] = self.uses.get(name, 0) + 1
        for given in graph.output:
            self.uses[given.name] = self.uses.get(given.name, 0) + 1

    @property
    def opsets(self) -> list[tuple[str, int]]:
        """Return domain and version of each operator set."""
        return [(str(opset.domain), int(opset.version)) for opset in self._opsets]

    def is_known(self, node: OnnxNode) -> bool:
        """Return whether ONNX defines the operator, in any version."""
        return bool(self._onnx.defs.has(node.kind, node.proto.domain))

    def _type(self, given: Any) -> np.dtype[Any] | None:
        try:
            kind = np.dtype(
                self._onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
            )
        except _ANY_FAULT:
            return None
        return kind if kind.kind in "biuf" else None

    def _check_versions(self, model: Any) -> None:
        """Raise `BadInputError` if the installed library does not support the model's versions."""
        newest = int(self._onnx.IR_VERSION)
        if not 1 <= model.ir_version <= newest:
            raise BadInputError(
                f"ONNX IR version {model.ir_version} is not supported (1 to {newest} are); "
                "update onnx, or export the model for an older one"
            )
        if not len(model.opset_import):
            raise BadInputError("declares no opset; export the model again")
        newest = int(self._onnx.defs.onnx_opset_version())
        for opset in model.opset_import:
            if opset.domain in STANDARD and not 1 <= opset.version <= newest:
                raise BadInputError(
                    f"opset {opset.version} is not supported (1 to {newest} are); update onnx, or "
                    "export the model for an older one"
                )
            if not 1 <= opset.version < MOST_VERSION:
                raise BadInputError(
                    f"opset {opset.version} of domain {opset.domain!r} is not valid; export the "
                    "model again"
                )

    def _node(self, proto: Any) -> OnnxNode:
        try:
            found = {a.name: self._onnx.helper.get_attribute_value(a) for a in proto.attribute}
            if any(value is None for value in found.values()):
                raise ValueError("an attribute has no value")
            for value in found.values():
                if isinstance(value, bytes):
                    value.decode()
        except _ANY_FAULT as error:
            raise BadInputError(
                f"node {proto.name!r} ({proto.op_type}): its attributes are damaged"
            ) from error
        try:
            check_node(proto, found, self._version(proto))
        except BadInputError as error:
            raise BadInputError(f"node {proto.name!r} ({proto.op_type}): {error}") from error
        return OnnxNode(proto, found)

    def _version(self, proto: Any) -> int:
        """Return the version of a node's operator set."""
        same = STANDARD if proto.domain in STANDARD else (proto.domain,)
        return next((self._versions[one] for one in same if one in self._versions), 1)

    def check_types(self, node: OnnxNode, inputs: Sequence[Kinds | None]) -> None:
        """Raise `BadInputError` for an input of a type that a node does not accept."""
        check_types(node.proto, self._version(node.proto), inputs)

    def inferred(self, node: OnnxNode, inputs: Sequence[NDArray[Any] | Sort | None]) -> list[Sort]:
        """Return inferred shape and type of each output of a node; empty if inference fails.

        inputs : arrays of constants; shapes and types of other inputs
        """
        inference = import_module("onnx.shape_inference")
        checking = import_module("onnx.checker").ValidationError
        helper, version = self._onnx.helper, self._version(node.proto)
        domain = "" if node.proto.domain in STANDARD else str(node.proto.domain)
        types, data = {}, {}
        for name, given in zip(node.proto.input, inputs, strict=False):
            if given is None:
                continue
            shape, kind = (given.shape, given.dtype) if isinstance(given, np.ndarray) else given
            element = helper.np_dtype_to_tensor_dtype(kind)
            types[name] = helper.make_tensor_type_proto(element, shape)
            if (
                isinstance(given, np.ndarray) and given.size <= MOST_SHAPE
            ):  # large constants are weights, not shapes
                data[name] = self._onnx.numpy_helper.from_array(given, name)
        try:
            schema = self._onnx.defs.get_schema(node.kind, version, domain)
            found = inference.infer_node_outputs(
                schema, node.proto, types, data, opset_imports=self._opsets
            )
            made = []
            for name in filter(None, node.proto.output):
                tensor = found[name].tensor_type
                dims = tensor.shape.dim
                if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in dims):
                    return []
                kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
                made.append((tuple(int(d.dim_value) for d in dims), np.dtype(kind)))
        except (*_ANY_FAULT, self._onnx.defs.SchemaError, checking, inference.InferenceError):
            return []
        return made

    def evaluate(
        self, node: OnnxNode, inputs: Sequence[NDArray[Any] | None], kept: bool = False
    ) -> list[NDArray[Any]]:
        """Evaluate a node on arrays; raise `BadInputError` if that fails, `MemoryShortError` if it
        needs more than the byte limit.

        kept : outputs become constants of the model, which share the limit
        """
        self._require_room(node, inputs, kept)
        if (quantiser := _QUANTISERS.get(node.kind)) is not None:
            return [quantiser(node, inputs)]
        feeds = {f"i{k}": array for k, array in enumerate(inputs) if array is not None}
        try:
            copy = type(node.proto)()
            copy.CopyFrom(node.proto)
            copy.input[:] = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
            sorts = {name: (array.dtype, array.shape) for name, array in feeds.items()}
            model = model_of_node(copy, sorts, {}, self.opsets)
        except _ANY_FAULT as error:
            reason = " ".join(str(error).split())[:120]
            raise BadInputError(f"is not a valid node: {reason}") from error
        with limited_memory(self._most_made):
            return NodeSession(model, limited=True).run(feeds)

    def _require_room(
        self, node: OnnxNode, inputs: Sequence[NDArray[Any] | None], kept: bool
    ) -> None:
        """Raise `MemoryShortError` if the outputs of a node would exceed the byte limit."""
        made = self.inferred(node, inputs)
        if node.kind == "NonZero" and inputs[0] is not None:  # as large as its data decide
            made = [((2, inputs[0].ndim, inputs[0].size), np.dtype(np.int64))]
        size = sum(declared_bytes(shape, kind.itemsize) for shape, kind in made)
        require_room("its constant result", size, self._left if kept else self._most_made)
        if kept:
            self._left -= size


def _shape(given: Any) -> tuple[int, ...]:
    """Return the shape of an input; raise `BadInputError` if any axis but the first is dynamic."""
    if not given.type.HasField("tensor_type") or not given.type.tensor_type.HasField("shape"):
        raise BadInputError(f"input {given.name!r} has no shape; export the model with shapes")
    sizes = []
    for axis, dim in enumerate(given.type.tensor_type.shape.dim):
        size = int(dim.dim_value) if dim.HasField("dim_value") else 0
        if size < 1 and axis > 0:
            raise BadInputError(
                f"input {given.name!r}: axis {axis} has a dynamic size; only the batch axis may be "
                "dynamic"
            )
        sizes.append(max(size, 1))
    return tuple(sizes)


def _quant(node: OnnxNode, inputs: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Evaluate QONNX Quant: round to integers of `bits` bits, and scale back."""
    values, scale, zero, bits = (np.asarray(array, np.float64) for array in inputs[:4])
    signed, narrow = node.flag("signed", 1), node.flag("narrow")
    width = float(bits.max())
    low = -(2.0 ** (width - 1)) + narrow if signed else 0.0
    high = 2.0 ** (width - 1) - 1 if signed else 2.0**width - 1 - narrow
    mode = node.attributes.get("rounding_mode", b"ROUND").decode().upper()
    rounded = {"CEIL": np.ceil, "FLOOR": np.floor, "ROUND_TO_ZERO": np.trunc}.get(mode, np.rint)
    whole = np.clip(rounded(values / scale + zero), low, high)
    return np.asarray((whole - zero) * scale, np.float32)


def _bipolar(_: OnnxNode, inputs: Sequence[NDArray[Any] | None]) -> NDArray[Any]:
    """Evaluate QONNX BipolarQuant: plus or minus the scale; zero counts as positive."""
    values, scale = (np.asarray(array, np.float64) for array in inputs[:2])
    return np.asarray(np.where(values >= 0, 1.0, -1.0) * scale, np.float32)


def dequantised(
    values: NDArray[Any], scale: NDArray[Any] | None, zero: NDArray[Any] | None, axis: int
) -> NDArray[Any]:
    """Return (values - zero) * scale; both scalar, along an axis, or of the shape of values."""

    def along(numbers: NDArray[Any] | None, default: float) -> NDArray[Any]:
        numbers = np.asarray(default if numbers is None else numbers, np.float64)
        if numbers.size == 1:
            return numbers.reshape(())
        if numbers.ndim != 1:
            return numbers
        return np.expand_dims(
            numbers, [at for at in range(values.ndim) if at != axis % values.ndim]
        )

    return np.asarray((values.astype(np.float64) - along(zero, 0.0)) * along(scale, 1.0))


_QUANTISERS = {"Quant": _quant, "BipolarQuant": _bipolar}


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a tensor; raise `BadInputError` if there are none."""
    if any(size < 1 for size in shape):
        raise BadInputError(f"outputs an empty tensor of shape {tuple(shape)}")
    return math.prod(int(size) for size in shape)
