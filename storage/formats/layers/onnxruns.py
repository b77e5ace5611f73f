"""Nodes of ONNX models, run by ONNX Runtime.

Each node is a model of its own, without graph optimisation and on one thread: so a node means what
its version of the standard says, whatever stands around it, and the same numbers come out every
time. (The reference implementation in the package onnx applies the newest rules to older versions
of some operators, and LRN to the first sample alone.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError

FATAL = 4  # severity of messages of ONNX Runtime: its errors are raised as well
OLDEST_IR = 4  # of models whose constants are no inputs
MOST_SAID = 160  # characters of a reason
_NO_KERNEL = re.compile(r"implementation for (\w+)\((\d+)\)")
_OF_ITSELF = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : \w+ : |Non-zero status code returned .*?Status Message: |"
    r"/\S+:\d+ .*?\) |Node \(\S*\) Op \(\w+\) |\[\w+Error\] |"
    r"\S.*? was (?:true|false)\. (?=\S)| ?Please fix either the inputs/outputs or the model\."
)
"""What ONNX Runtime says of itself in an error: codes, places in its sources, conditions."""

Opsets = Sequence[tuple[str, int]]
"""Domain and version of each set of operators."""
Constants = Mapping[str, NDArray[Any]]
Inputs = Mapping[str, tuple[np.dtype[Any], Sequence[int] | None]]
"""Type and shape of each input by name; a shape that is None may be any."""


def model_of_node(proto: Any, inputs: Inputs, constants: Constants, opsets: Opsets) -> bytes:
    """A model of one node, serialised."""
    from onnx import helper, numpy_helper

    taken = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)
        for name, (kind, shape) in inputs.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    kept = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([proto], "node", taken, results, kept)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    oldest = max(OLDEST_IR, helper.find_min_ir_version_for(imports, ignore_unknown=True))
    model = helper.make_model(graph, opset_imports=imports, ir_version=oldest)
    return bytes(model.SerializeToString(deterministic=True))


def runtime() -> Any:
    """The package onnxruntime, which is told to send nothing about models to its makers.

    Raises `ImportError` where it is not installed.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it reads this once, when it is imported
    return import_module("onnxruntime")


def open_session(model: bytes) -> Any:
    """A model, serialised, ready to run node by node as it is written, on one thread.

    Raises `BadInputError` if ONNX Runtime has no kernel for a node, or finds a fault.
    """
    ort = runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = FATAL
    try:
        return ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:  # its classes have no base of their own
        raise BadInputError(_reason(error)) from error


def run_session(session: Any, feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """All outputs; raises `BadInputError` if a node makes nothing of what it is given."""
    try:
        return [np.asarray(made) for made in session.run(None, dict(feeds))]
    except Exception as error:
        raise BadInputError(_reason(error)) from error


class NodeSession:
    """A node, ready to run; several threads may run it at once."""

    def __init__(self, model: bytes) -> None:
        """model : of one node, serialised; raises `BadInputError` as `open_session`."""
        self._session = open_session(model)
        self._kinds = {one.name: numpy_type(one.type) for one in self._session.get_inputs()}

    def run(self, given: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs for inputs by name, which become numbers of the types that it takes; raises
        `BadInputError` if it makes nothing of them."""
        feeds = {
            name: np.asarray(given[name], kind, order="C") for name, kind in self._kinds.items()
        }
        return run_session(self._session, feeds)


def numpy_type(name: str) -> np.dtype[Any]:
    """Of a tensor, as ONNX Runtime calls it: `tensor(float)`."""
    kind = name.removeprefix("tensor(").removesuffix(")")
    other = {"float": "float32", "double": "float64", "string": "object"}
    return np.dtype(other.get(kind, kind))


def _reason(error: Exception) -> str:
    """What ONNX Runtime finds wrong with a node."""
    text = " ".join(str(error).split())
    if found := _NO_KERNEL.search(text):
        return f"ONNX Runtime has no kernel for {found[1]} of opset {found[2]} and these types"
    said = _OF_ITSELF.sub("", text)
    return said if len(said) <= MOST_SAID else f"{said[: MOST_SAID - 3]}..."
