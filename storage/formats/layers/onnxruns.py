"""Execution of single ONNX nodes with ONNX Runtime.

Each node is run as a separate model, without graph optimisation and on one thread. So a node
follows its version of the standard in any context, and its results are reproducible; see
`onnxexact` for integers. (The reference
implementation in the package onnx applies the newest rules to older versions of some operators, and
LRN only to the first sample.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError, MemoryShortError
from storage.formats.layers.onnxexact import with_exact_products
from storage.formats.layers.onnxwhole import expanded

FATAL = 4  # log severity of ONNX Runtime: its errors are also raised
OLDEST_IR = 4  # first IR version whose constants need not be inputs
MOST_SAID = 160  # most characters of a reason
STANDARD = "ai.onnx"  # domain of the operators of ONNX
_NAMED = re.compile(
    r"Name:'([^']*)'|Node \(([^)]*)\) Op|In Node, \(\"([^\"]*)\"|in node \(([^)]*)\)"
)
"""Node names in error messages of ONNX Runtime."""
_OF_ITSELF = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Non-zero status code returned .*?Status Message: |"
    r"/\S+:\d+ .*?\) |\b\w+\.(?:cc|h|cpp):\d+ (?:\S+ )?|Node \(\S*\) Op \(\w+\) |\[\w+Error\] |"
    r"\[with [^]]*\] |Exception during initialization: |This is an invalid model\. |"
    r"In Node, \(.*?\) : \(.*?\) -> \(.*?\) ?, (?:Error )?|"
    r"\S.*? was (?:true|false)\.(?: (?=\S)|$)| ?Please fix either the inputs/outputs or the model\."
)
"""Internals in error messages of ONNX Runtime: codes, source locations, conditions."""
_RAW = re.compile(r"::|\.cc\b|\w+Error\b|Exception|onnxruntime|0x[0-9a-f]+|\[with |[<>]|\w_\b")
"""Remaining internals, which make a message unreadable for users."""
_TOO_LARGE = re.compile(r"Available memory of \d+ is smaller|Failed to allocate memory|bad_alloc")
"""Errors of ONNX Runtime about memory."""
_KINDS = (
    (re.compile(r"implementation for \w+\(\d+\)|Could not find an implementation"),
     "ONNX Runtime has no kernel for {} and these types"),
    (re.compile(r"is not a registered function/op|No Op registered for"),
     "ONNX Runtime has no operator {}"),
    (re.compile(r"No opset import for domain"),
     "the model imports no opset for {}"),
    (re.compile(r"Type Error: Type '(?P<type>[^']*)' of input parameter"),
     "{} does not take a {type} here"),
    (re.compile(r"Type parameter \(\w+\) of Optype"),
     "{} needs tensors of one type, got several"),
    (re.compile(r"topologically sorted"),
     "{} reads an outer value inside its subgraph; the host processor runs each node alone"),
)  # fmt: skip
"""Errors of ONNX Runtime with a rewritten message."""

Opsets = Sequence[tuple[str, int]]
"""Domain and version of each operator set."""
Constants = Mapping[str, NDArray[Any]]
Inputs = Mapping[str, tuple[np.dtype[Any], Sequence[int] | None]]
"""Type and shape of each input by name; a shape of None is open."""


def model_of_node(proto: Any, inputs: Inputs, constants: Constants, opsets: Opsets) -> bytes:
    """Return a serialised model of one node; operators of integer networks become ONNX nodes."""
    from onnx import helper, numpy_helper

    taken = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)
        for name, (kind, shape) in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    whole = expanded(proto, opsets)
    nodes, more = ([proto], {}) if whole is None else (whole.nodes, whole.made)
    kept = [numpy_helper.from_array(value, name) for name, value in {**constants, **more}.items()]
    graph = helper.make_graph(nodes, "node", taken, results, kept)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    oldest = max(OLDEST_IR, helper.find_min_ir_version_for(imports, ignore_unknown=True))
    model = helper.make_model(graph, opset_imports=imports, ir_version=oldest)
    return bytes(model.SerializeToString(deterministic=True))


def runtime() -> Any:
    """Return the package onnxruntime, with its telemetry disabled.

    Raises `ImportError` if it is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read once, on import
    return import_module("onnxruntime")


@contextmanager
def limited_memory(most: int) -> Iterator[None]:
    """Limit the bytes that each session opened in the block as `limited` allocates.

    A new arena replaces the last one, which is freed when its sessions and results are.
    """

    def renew() -> None:
        ort = runtime()
        kinds = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
        asked = {"max_mem": most, "arena_extend_strategy": 1}  # grow by the requested size
        ort.create_and_register_allocator(ort.OrtMemoryInfo("Cpu", *kinds), ort.OrtArenaCfg(asked))

    renew()
    try:
        yield
    finally:
        renew()


def open_session(model: bytes, limited: bool = False) -> Any:
    """Open a serialised model for execution as written, on one thread.

    limited : whether the limit of `limited_memory` applies
    Raises `BadInputError` if ONNX Runtime has no kernel for a node, or reports a fault.
    """
    ort = runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = FATAL
    if limited:
        options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        exact = with_exact_products(model)
        return ort.InferenceSession(exact, options, ["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base class
        raise SessionError(error, model) from error


def run_session(
    session: Any, feeds: Mapping[str, NDArray[Any]], model: bytes
) -> list[NDArray[Any]]:
    """Return all outputs; raise `BadInputError` if a node cannot process its inputs,
    `MemoryShortError` if it needs more memory than the limit of the session.

    model : the serialised model of the session, for messages
    """
    try:
        return [np.asarray(made) for made in session.run(None, dict(feeds))]
    except Exception as error:
        if _TOO_LARGE.search(str(error)):
            raise MemoryShortError(
                "needs more memory than --memory leaves; check the sizes in the file, or raise "
                "--memory"
            ) from error
        raise SessionError(error, model) from error


class SessionError(BadInputError):
    """ONNX Runtime cannot run a model.

    node : name of the faulty node, "" if unknown
    """

    def __init__(self, error: Exception, model: bytes) -> None:
        text = " ".join(str(error).split())
        self.node, operator = _at_fault(text, model)
        super().__init__(_reason(text, operator))


def operator_text(proto: Any, opsets: Opsets) -> str:
    """Return the operator of a node for messages, with its domain and opset."""
    domain = str(proto.domain) or STANDARD
    versions = {name or STANDARD: version for name, version in opsets}
    version = f"opset {versions[domain]}" if domain in versions else "no opset"
    return f"{proto.op_type} (domain {domain}, {version})"


def _at_fault(text: str, model: bytes) -> tuple[str, str]:
    """Return name and operator of the node in an error; "" and "the model" if unknown."""
    from onnx import load_model_from_string

    proto = load_model_from_string(model)
    nodes = list(proto.graph.node)
    if len(nodes) > 1:
        names = {name for found in _NAMED.finditer(text) for name in found.groups() if name}
        nodes = [node for node in nodes if node.name in names]
    if not nodes:
        return "", "the model"
    opsets = [(one.domain, one.version) for one in proto.opset_import]
    return str(nodes[0].name), operator_text(nodes[0], opsets)


class NodeSession:
    """A node ready to run; safe to run from several threads."""

    def __init__(self, model: bytes, limited: bool = False) -> None:
        """model : serialised model of one node; limited : see `open_session`

        Raises `BadInputError` like `open_session`, and for outputs that are not tensors of
        numbers.
        """
        self._model = model
        self._session = open_session(model, limited)
        self._kinds = {one.name: numpy_type(one.type) for one in self._session.get_inputs()}
        for one in self._session.get_outputs():
            numpy_type(one.type)

    def run(self, given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs for inputs by name, cast to the node's input types; raise
        `BadInputError` if the node cannot process them."""
        feeds = {
            name: np.asarray(given[name], kind, order="C") for name, kind in self._kinds.items()
        }
        return run_session(self._session, feeds, self._model)


def numpy_type(name: str) -> np.dtype[Any]:
    """Convert a type name of ONNX Runtime, `tensor(float)`; raise `BadInputError` if it is not a
    tensor, or numpy has no such type."""
    if not name.startswith("tensor("):
        word = name.partition("(")[0]
        word = {"seq": "sequence", "optional": "optional"}.get(word, word)
        raise BadInputError(f"has inputs or outputs of type {word}; only tensors are supported")
    kind = name.removeprefix("tensor(").removesuffix(")")
    other = {"float": "float32", "double": "float64", "string": "object"}
    try:
        found = np.dtype(other.get(kind, kind))
    except TypeError:
        found = np.dtype(np.void)
    if found.kind not in "biufO":
        raise BadInputError(f"has {kind} inputs or outputs; export the model in float32")
    return found


def _reason(text: str, operator: str) -> str:
    """Return the fault that ONNX Runtime reports, in one sentence without its internals."""
    for pattern, said in _KINDS:
        if found := pattern.search(text):
            return said.format(operator, **found.groupdict())
    said = _OF_ITSELF.sub("", text).strip().translate({ord("{"): "(", ord("}"): ")"})
    if not said or _RAW.search(said):
        return (
            f"ONNX Runtime cannot run {operator}: its attributes, input types and "
            "input shapes do not match"
        )
    said = said if len(said) <= MOST_SAID else f"{said[: MOST_SAID - 3]}..."
    return f"ONNX Runtime cannot run {operator}: {said}"
