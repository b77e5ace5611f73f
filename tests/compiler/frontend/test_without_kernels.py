"""Models that ONNX Runtime lacks an operator for, or rejects: one line in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.errors import MapperError
from tests.compiler.models import onnx_model, saved
from tests.storage.formats.onnx_models import helper, node, onnx

RAW = re.compile(
    r"ONNXRuntimeError|\w+Error\]|\.cc\b|/\w+/|Traceback|Exception|::|This is an invalid model|"
    r"Fatal error|Status Message|\n"
)
X = (1, 3, 4, 4)


def refusal(
    nodes: Sequence[Any], folder: Path, constants: dict[str, Any] | None = None, opset: int = 17,
    shape: Sequence[int] = X, kind: int = onnx.TensorProto.FLOAT, domain: str = "",
) -> str:  # fmt: skip
    """Return the message for a model with the output y; it names the file in one plain line."""
    domains = [domain] if domain else []
    made = onnx_model(nodes, constants or {}, shape, ("y",), opset, domains, kind)
    path = saved(made, folder)
    with pytest.raises(MapperError) as error:
        open_model(path).build(())
    said = str(error.value)
    assert said.startswith(f"{path}: ")
    said = said.removeprefix(f"{path}: ")
    assert not RAW.search(said), said
    return said


def branch(name: str) -> Any:
    """Return a graph that reads the value a of the outer graph."""
    result = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, X)
    return helper.make_graph([helper.make_node("Relu", ["a"], [name])], name, [], [result])


RELU = node("Relu", "x", "a")
CASES: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("no kernel", [node("GlobalLpPool", "x")], {"opset": 22},
     "(GlobalLpPool): ONNX Runtime has no kernel for GlobalLpPool (domain ai.onnx, opset 22)"),
    ("no such operator", [node("Wibble", "x")], {},
     "ONNX Runtime has no operator Wibble (domain ai.onnx, opset 17)"),
    ("custom", [node("Wibble", "x", domain="com.acme")], {"domain": "com.acme"},
     "ONNX Runtime has no operator Wibble (domain com.acme, opset 1)"),
    ("no opset", [node("Wibble", "x", domain="com.acme")], {},
     "the model imports no opset for Wibble (domain com.acme, no opset)"),
    ("type", [node("GlobalLpPool", "x")], {"kind": onnx.TensorProto.INT32},
     "its input 0 has type int32; accepted types: double, float, float16"),
    ("stored integers", [node("QuantizeLinear", "x k", "a"), node("QuantizeLinear", "a k")],
     {"constants": {"k": np.float32(0.1)}},
     "(QuantizeLinear): its input 0 has type int8 or uint8; accepted types: float, int32"),
    ("two types", [node("Mul", "x k")], {"constants": {"k": np.array(2)}},
     "(Mul): its input 1 has type int64, another one float; cast them to one type"),
    ("domain", [node("Relu", "x", domain="com.microsoft")], {"domain": "com.microsoft"},
     "domain 'com.microsoft' has no operator Relu; remove the domain of standard operators"),
    ("pads", [node("AveragePool", "x", kernel_shape=[2, 2], pads=[0, 0, 2, 0])], {},
     "(AveragePool): pads [0, 0, 2, 0] reach the size of its window, [2, 2]; pad by less"),
    ("attribute of ONNX Runtime", [node("FastGelu", "x", domain="com.microsoft", transB=1)],
     {"domain": "com.microsoft"}, "FastGelu has no attribute 'transB'; export the model again"),
    ("attribute", [RELU, node("LRN", "a", size=-5)], {},
     "ONNX Runtime cannot run LRN (domain ai.onnx, opset 17): its attributes, input"),
    ("shape", [RELU, node("Einsum", "a", equation="bchw->bhwq")], {},
     "ONNX Runtime cannot run Einsum (domain ai.onnx, opset 17): "),
    ("sequence", [node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i")],
     {"constants": {"i": np.array(0)}}, "'n_s' (SequenceConstruct): has inputs or outputs of type"),
    ("optional", [node("Optional", "x", "o"), node("OptionalGetElement", "o")], {},
     "'n_o' (Optional): has inputs or outputs of type optional; only tensors are supported"),
    ("branches", [RELU, node("If", "c", then_branch=branch("t"), else_branch=branch("e"))],
     {"constants": {"c": np.array(True)}},
     "If (domain ai.onnx, opset 17) reads an outer value inside its subgraph"),
    ("bfloat16", [node("Cast", "x", "c", to=onnx.TensorProto.BFLOAT16), node("Relu", "c")], {},
     "'n_c' (Cast): has bfloat16 inputs or outputs; export the model in float32"),
    ("float8", [node("Cast", "x", "c", to=onnx.TensorProto.FLOAT8E4M3FN), node("Relu", "c")],
     {"opset": 19}, "'n_c' (Cast): has float8e4m3fn inputs or outputs; "),
    ("random", [node("Bernoulli", "x")], {}, "'n_y' (Bernoulli): draws random numbers"),
    ("training", [node("BatchNormalization", "x s s s s", training_mode=1)],
     {"constants": {"s": np.ones(3, np.float32)}}, "is in training mode; export the model"),
    ("dropout", [node("Dropout", "x r t")],
     {"constants": {"r": np.float32(0.5), "t": np.array(True)}}, "is in training mode; export"),
    ("sizes", [RELU, node("Cast", "a", "c", to=onnx.TensorProto.BOOL), node("Compress", "x c")],
     {}, ("makes shape (0,) from zeros, (48,) from ones; export the model without shapes that "
         "depend")),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "more", "says"), [one[1:] for one in CASES],
                         ids=[one[0] for one in CASES])  # fmt: skip
def test_rejections_are_plain(
    tmp_path: Path, nodes: list[Any], more: dict[str, Any], says: str
) -> None:
    assert says in refusal(nodes, tmp_path, **more)


def test_a_fault_that_shows_when_a_node_runs(tmp_path: Path) -> None:
    """Kernels that check shapes late name the node, the operator and the reason."""
    made = onnx_model([RELU, node("GlobalLpPool", "a")], {}, (1, 4))
    graph = open_model(saved(made, tmp_path)).build(())
    feeds = {
        view.tensor: view.stored(np.ones((1, 4), np.float32)) for view in graph.inputs.values()
    }
    with pytest.raises(MapperError) as error:
        run_graph(graph, feeds, FLOATING, [one.tensor for one in graph.outputs.values()])
    assert str(error.value) == (
        "node 'n_y' (GlobalLpPool): ONNX Runtime cannot run GlobalLpPool (domain ai.onnx, "
        "opset 17): Input dimension cannot be less than 3."
    )


@pytest.mark.parametrize("kind", ["iRMSNorm", "ITAPartialMax", "iSoftmax"])
def test_unsupported_integer_operators(tmp_path: Path, kind: str) -> None:
    """In integer networks, the reason names the operator, not its numbers."""
    shift = node("RequantShift", "x m d", "q", div=4.0, n_levels_out=256, signed=1)
    constants = {"m": np.ones(1, np.float32), "d": np.zeros(1, np.float32)}
    said = refusal([shift, node(kind, "q")], tmp_path, constants)
    assert said == (
        f"node 'n_y' ({kind}): no core computes it, and ONNX Runtime has no operator {kind} "
        "(domain ai.onnx, opset 17)"
    )
    said = refusal([shift, node("Softmax", "q")], tmp_path, constants)
    assert "computes with stored integers; put DequantizeLinear before" in said


@pytest.mark.parametrize(
    ("kind", "word"),
    [(onnx.TensorProto.INT64, "int64"), (onnx.TensorProto.COMPLEX64, "a type without numbers")],
)
def test_outputs_have_the_declared_type(kind: int, word: str, tmp_path: Path) -> None:
    made = onnx_model([node("Relu", "x")], {}, X, ("y",))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, X))
    with pytest.raises(MapperError, match=f"output 'y' is declared as {word}, but computed as"):
        open_model(saved(made, tmp_path)).build(())


def test_an_output_may_name_classes(tmp_path: Path) -> None:
    """Classifiers of scikit-learn and WinML return the name of the best class."""
    best = node("ArgMax", "r", "i", axis=1)
    named = helper.make_node("ArrayFeatureExtractor", ["labels", "i"], ["y"], domain="ai.onnx.ml")
    names = [f"class {number}".encode() for number in range(int(np.prod(X)))]
    labels = helper.make_tensor("labels", onnx.TensorProto.STRING, [1, len(names)], names)
    constant = helper.make_node("Constant", [], ["labels"], value=labels)
    made = onnx_model([node("Relu", "x", "r"), best, constant, named], {}, X, ("y", "r"))
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.STRING, None))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    assert set(open_model(saved(made, tmp_path)).build(()).outputs) == {"y", "r"}
