"""Read ONNX models as graphs of the compiler.

Maps have axes (frames, rows, columns, channels) from here on. Each value of the model is a `View`
of a tensor; nodes that only move elements need no graph node. ONNX Runtime evaluates nodes of
constants. Nodes that no core computes become host nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from mapper.compiler.frontend.builder import Evaluator, GraphBuilder, Value
from mapper.compiler.ir.graph import CHANNELS_FIRST, Graph, View
from mapper.compiler.ir.node import ASKED, Dequantise, Node
from mapper.compiler.ir.stored import OFFSET, STORED, Stored, stored_constant
from mapper.compiler.ir.tensor import Tensor
from mapper.errors import DoesNotFitError, MapperError
from mapper.monitoring.resources import default_memory
from storage.errors import BadInputError, MemoryShortError
from storage.formats.layers.onnxcheck import Kinds
from storage.formats.layers.onnxexpanded import MICROSOFT
from storage.formats.layers.onnxgraph import Model, OnnxNode
from storage.formats.layers.onnxruns import operator_text


class ModelSource(NamedTuple):
    """A model to read.

    data : serialised model, if it differs from the file
    notes : changes made to it
    signed : whether an input of unspecified type has negative values
    memory : bytes for its constants; None: the default budget
    """

    data: bytes | None = None
    notes: Sequence[str] = ()
    signed: bool = False
    memory: int | None = None


AS_IT_IS = ModelSource()
Made = Value | list[Value] | str | None
Handler = Callable[["Reader", OnnxNode, list[Any]], Made]
"""Adds graph nodes for an ONNX node and its inputs; returns one value per result, or the only
value. If the host computes it, the reason, or None for the usual one.
"""

NAMES_CLASSES = frozenset({"ZipMap"})
"""Operators that only name classes for the user; they are left out."""
REAL: Kinds = frozenset(np.dtype(kind) for kind in ("float16", "float32", "float64"))
OF_WHOLE = frozenset({"RequantShift", "Quant", "BipolarQuant", "Trunc"})
"""Operators whose integers are stored in real types."""
DRAWS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
"""Operators whose results differ from run to run."""
OLDEST = 7  # oldest opset that is read
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
TRANSPOSED = (0, 3, 1, 2)  # permutation of a Transpose from channels last to channels first


class Reader(GraphBuilder):
    """Reader of one model: converts its nodes to a graph."""

    def __init__(
        self, path: Path, handlers: dict[str, Handler], keep: Collection[str] = (),
        evaluators: Mapping[str, Evaluator] = MappingProxyType({}),
        of_integers: Collection[str] = (), source: ModelSource = AS_IT_IS,
    ) -> None:  # fmt: skip
        """Open a model.

        keep : names of nodes that stay on the host, optionally with a reason for each
        of_integers : operators that accept stored integers; others require real numbers
        source : the model, if it was changed after it was read from the file

        Raises `MapperError` that names the file if it is not a model or lacks a node of `keep`.
        """
        require_file(path)
        try:
            model = Model(path, source.data, source.memory or default_memory())
        except BadInputError as error:
            raise MapperError(
                str(error) if str(path) in str(error) else f"{path}: {error}"
            ) from error
        super().__init__(model, evaluators)
        self._require_opset(path)
        self.path = path
        self.handlers = handlers
        self.keep = dict(keep) if isinstance(keep, Mapping) else dict.fromkeys(keep, ASKED)
        missing = self.keep.keys() - {node.name for node in self.model.nodes}
        if missing:
            raise MapperError(
                f"{path}: has no node {sorted(missing)[0]!r} to keep on the host; "
                "use the names of its ONNX nodes"
            )
        self.of_integers = of_integers
        self.graph.notes += source.notes
        # signedness of an input that may be either
        self.signed, self.guessed = source.signed, False
        self._of_whole = any(node.kind in OF_WHOLE for node in self.model.nodes)
        self.unread: set[str] = set()  # results of nodes that are left out
        self.stored: dict[str, Stored] = {}  # dequantised constants by name

    def _require_opset(self, path: Path) -> None:
        """Raise `MapperError` for old opsets, which broadcast constants by other rules."""
        versions = [version for domain, version in self.opsets if domain in ("", "ai.onnx")]
        if min(versions, default=OLDEST) < OLDEST:
            raise MapperError(
                f"{path}: opset {min(versions)} is not supported; convert the model to opset "
                f"{OLDEST} or later with onnx.version_converter"
            )

    def read(self) -> Graph:
        """Return the graph; raise `MapperError` that names file and node."""
        for name, shape in self.model.inputs:
            try:
                self.values[name] = self.graph.inputs[name] = self._input(name, shape)
            except MapperError as error:
                raise MapperError(f"{self.path}: input {error}") from error
        for node in self._needed():
            try:
                with np.errstate(all="ignore"):  # `constant` rejects numbers that are not finite
                    self._take(node)
            except (BadInputError, MapperError, MemoryShortError) as error:
                of = DoesNotFitError if isinstance(error, MemoryShortError) else MapperError
                raise of(f"{self.path}: node {node.name!r} ({node.kind}): {error}") from error
            except FAULTS as error:  # raised by handlers for node contents that they do not check
                raise MapperError(
                    f"{self.path}: node {node.name!r} ({node.kind}): its inputs and attributes are "
                    "inconsistent; check the model with onnx.checker"
                ) from error
        for name in self.model.outputs:
            value = self.values.get(name)
            if value is None and name not in self.unread:
                raise MapperError(f"{self.path}: output {name!r}: no node computes it")
            if isinstance(value, View):
                self._require_declared(name, value)
                self.graph.outputs[name] = self._as_in_model(name, value)
        if not self.graph.outputs:
            raise MapperError(f"{self.path}: no output depends on an input; nothing to compile")
        return self.graph

    def _needed(self) -> list[OnnxNode]:
        """Return the nodes that outputs depend on; note the others as left out."""
        wanted = set(self.model.outputs)
        needed: list[OnnxNode] = []
        rest: list[OnnxNode] = []
        for node in reversed(self.model.nodes):
            taken = not wanted.isdisjoint(node.proto.output)
            (needed if taken else rest).append(node)
            if taken:
                wanted |= set(node.proto.input)
        if rest:
            self.graph.left_out += [node.name for node in rest]
            more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
            self.graph.notes.append(
                f"node {rest[-1].name!r}{more}: left out, as no output depends on it"
            )
        return needed[::-1]

    def _input(self, name: str, shape: tuple[int, ...]) -> View:
        kind = self.model.types[name]
        if kind is None:
            raise MapperError(f"{name!r} holds no numbers; cores compute with numbers only")
        self.types[name] = kind
        if len(shape) < 2 and max(shape, default=1) == 1:
            raise MapperError(f"{name!r} is one number; cores take vectors and maps")
        if shape[0] != 1:
            raise MapperError(
                f"{name!r} has a batch of {shape[0]}; export the model for one sample, or with an "
                "open batch axis"
            )
        if len(shape) == 3 and (found := self.of_vectors(name, shape)) is not None:
            return found
        users = [node for node in self.model.nodes if name in node.proto.input]
        last = len(shape) == 4 and all(
            node.kind == "Transpose" and tuple(node.attributes.get("perm", ())) == TRANSPOSED
            for node in users
        )
        order = (0, 1, 2, 3) if last and users else CHANNELS_FIRST
        return self.view(name, shape, order)

    def _take(self, node: OnnxNode) -> None:
        names = list(node.proto.input)
        missing = [name for name in names if name and name not in self.values]
        if missing:
            raise MapperError(f"reads {missing[0]!r}, which no node computes")
        if node.kind in DRAWS:
            raise MapperError("draws random numbers, so results differ between runs; remove it")
        inputs = [self.values[name] if name else None for name in names]
        self.model.check_types(node, [self._types_of(value) for value in inputs])
        if not any(isinstance(value, View) for value in inputs):
            if node.kind == "DequantizeLinear":
                axis = int(node.attributes.get("axis", 1))
                self.stored[node.proto.output[0]] = stored_constant(inputs, axis)
            self._fold(node, inputs)
            return
        handler = self.handlers.get(node.kind)
        whole = any(_is_whole(value) for value in inputs)
        if node.name in self.keep and not (whole or node.kind == "QuantizeLinear"):
            handler = None
        self.why = f"no core computes {node.kind}"
        if node.name in self.keep:
            self.why = self.keep[node.name]
        if node.kind not in self.of_integers:
            if whole and node.proto.domain == MICROSOFT:
                raise MapperError(
                    "takes stored integers, which neither cores nor the host can compute"
                )
            if whole and not self.model.is_known(node):
                text = operator_text(node.proto, self.opsets)
                raise MapperError(f"no core computes it, and ONNX Runtime has no operator {text}")
            require_real(inputs)
        begun = len(self.graph.nodes)
        made_here = None if handler is None else handler(self, node, inputs)
        self._remember(self.graph.nodes[begun:], names)
        if node.kind in NAMES_CLASSES:
            self.graph.left_out.append(node.name)
            self.unread |= set(node.proto.output)
        elif made_here is None or isinstance(made_here, str):
            self.why = made_here or self.why
            self._host(node, inputs)
        else:
            results = made_here if isinstance(made_here, list) else [made_here]
            self.values |= zip(node.proto.output, results, strict=False)

    def _types_of(self, value: Any) -> Kinds | None:
        """Return the possible types of a value in the model; None if unknown."""
        if isinstance(value, np.ndarray):
            return frozenset({value.dtype})
        if not isinstance(value, View):
            return None
        kind = value.tensor.type
        if kind == "float32":
            known = self.types.get(value.tensor.name)
            return REAL if known is None else frozenset({known})
        if self._of_whole:
            return None  # whole numbers, of a real type in the model
        return frozenset(one for one, stored in STORED.items() if stored == kind) or None

    def _require_declared(self, name: str, value: View) -> None:
        """Raise `MapperError` if the model declares another type of an output."""
        kinds = self._types_of(value)
        if name not in self.model.declared or kinds is None:
            return
        declared = self.model.declared[name]
        if declared is None and all(kind.kind == "O" for kind in kinds):  # names of classes
            return
        if declared not in kinds:
            text = "a type without numbers" if declared is None else str(declared)
            made = " or ".join(sorted(str(one) for one in kinds))
            raise MapperError(
                f"{self.path}: output {name!r} is declared as {text}, but computed as {made}; "
                "export the model again"
            )

    def _as_in_model(self, name: str, value: View) -> View:
        """Return an output; stored integers are real numbers for the user, unless the host
        quantises them again."""
        tensor = value.tensor
        if tensor.type not in STORED.values() or self._of_whole:
            return value
        kind = self._stored_kind(name)
        if kind is None:
            return value
        node = next(one for one in self.model.nodes if name in one.proto.output)
        real = Tensor(f"{name}.real", tensor.shape)
        self.graph.nodes.append(Node(Dequantise(), [tensor], [real], (node.name,)))
        self.why = "it is an output in integers"
        zero = np.array(tensor.zero_point + OFFSET.get(kind, 0), kind)
        taken = [value._replace(tensor=real), np.array(tensor.scale, np.float32), zero]
        return self.host("QuantizeLinear", node, taken, {}, "integers")

    def _stored_kind(self, name: str) -> np.dtype[Any] | None:
        """Return the integer type of a stored map: of the last zero point of its node, or, if it
        moves elements, of its input."""
        node = next((one for one in self.model.nodes if name in one.proto.output), None)
        if node is None or not node.proto.input:
            return None
        known = [self.values.get(one) for one in node.proto.input]
        kinds = [one.dtype for one in known if isinstance(one, np.ndarray) and one.dtype in STORED]
        if kinds:
            return kinds[-1]
        default = np.dtype(np.uint8) if node.kind == "QuantizeLinear" else None
        return default or self._stored_kind(node.proto.input[0])

    def _fold(self, node: OnnxNode, inputs: list[Any]) -> None:
        """Evaluate a node of constants; a kept node runs on the host if its inputs and results are
        real.

        Shapes, axes and stored integers must be known at compile time.
        """
        made = self._evaluate(node, inputs, kept=True)
        real = all(np.asarray(one).dtype == np.float32 for one in made)
        stores = node.kind == "DequantizeLinear" or node.kind in self.evaluators
        if real and inputs and not stores:
            if node.name in self.keep:
                self.why = self.keep[node.name]
                self._host(node, inputs)
                return
            size = sum(np.asarray(one).nbytes for one in made)
            self.graph.folded[node.name] = node.kind, size
        elif node.name in self.keep:
            self.graph.notes.append(
                f"node {node.name!r} ({node.kind}): not kept on the host, because its constant "
                "result is needed to read other nodes"
            )
        self.values |= zip(node.proto.output, made, strict=False)

    def _remember(self, nodes: list[Node], names: list[str]) -> None:
        """Record weights and biases that the model stores as integers; names : inputs of the ONNX
        node.
        """
        for node in nodes:
            for tensor, name in zip(node.inputs[1:], names[1:], strict=False):
                if tensor.value is not None and name in self.stored:
                    self.graph.quantised.setdefault(tensor, self.stored[name])


def _is_whole(value: Any) -> bool:
    """Return whether a value is a map of stored integers."""
    return isinstance(value, View) and value.tensor.type != "float32"


def require_real(inputs: Sequence[Any]) -> None:
    """Raise `MapperError` if an operator of real numbers gets stored integers."""
    if any(_is_whole(value) for value in inputs):
        raise MapperError(
            "computes with stored integers; put DequantizeLinear before and QuantizeLinear after it"
        )


def require_file(path: Path) -> None:
    """Raise `MapperError` if the file does not exist."""
    if not path.is_file():
        raise MapperError(f"{path}: no such file; name an ONNX model")


def kernel_refusal(data: Any, weights: Any, bias: Any) -> str:
    """Return why cores cannot use the operands of a convolution; "" if they can."""
    if not isinstance(weights, np.ndarray) or isinstance(bias, View):
        return "its kernel is not constant: export with constant folding"
    return "" if is_map(data) else "its map does not have its channels on axis 1"


def is_map(value: Any) -> bool:
    """Return whether a value is a map with its channels first, or a vector."""
    return isinstance(value, View) and value.aligned
