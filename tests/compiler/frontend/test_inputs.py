"""Model inputs: types and axes, operator sets, inconsistent shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.errors import MapperError
from tests.compiler.models import agree, onnx_model, read, saved
from tests.storage.formats.onnx_models import helper, model, onnx

RNG = np.random.default_rng(5)


def small(nodes: list[Any], kind: int, shape: list[int], opset: int = 17, **constants: Any) -> Any:
    """Return a model with the output y, whose input x has the given type."""
    return onnx_model(nodes, constants, shape, opset=opset, kind=kind)


def refusal(made: Any, folder: Path) -> str:
    with pytest.raises(MapperError) as error:
        open_model(saved(made, folder))
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        (onnx.TensorProto.FLOAT, [], "is one number"),
        (onnx.TensorProto.FLOAT, [1], "is one number"),
        (onnx.TensorProto.STRING, [1, 4], "holds no numbers"),
        (onnx.TensorProto.FLOAT, [1, 0], "dynamic size"),
        (onnx.TensorProto.FLOAT, [1, 2, 3, 4, 5], "has 5 axes"),
    ],
)
def test_unsupported_inputs(tmp_path: Path, kind: int, shape: list[int], words: str) -> None:
    made = small([helper.make_node("Identity", ["x"], ["y"])], kind, shape)
    assert words in refusal(made, tmp_path)


def test_old_operator_sets_are_refused(tmp_path: Path) -> None:
    """Before opset 7, an attribute named the axis of a constant."""
    made = small([helper.make_node("Relu", ["x"], ["y"])], onnx.TensorProto.FLOAT, [1, 4], opset=6)
    assert "opset 6 is not supported" in refusal(made, tmp_path)


@pytest.mark.parametrize("kind", [onnx.TensorProto.INT64, onnx.TensorProto.UINT8])
def test_the_host_gets_numbers_of_the_declared_type(tmp_path: Path, kind: int) -> None:
    """Samples are real numbers; Gather reads indices."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=onnx.TensorProto.INT64),
        helper.make_node("Gather", ["table", "whole"], ["y"]),
    ]
    made = small(nodes, kind, [1, 3], table=RNG.normal(0, 1, (5, 2)).astype(np.float32))
    graph = open_model(saved(made, tmp_path)).build(())
    view, out = graph.inputs["x"], graph.outputs["y"]
    data = np.array([[4, 0, 2]])
    values = run_graph(graph, {view.tensor: view.stored(data.astype(np.float32))}, FLOATING,
                       [out.tensor])  # fmt: skip
    table = onnx.numpy_helper.to_array(made.graph.initializer[0])
    assert np.array_equal(out.frame(values[out.tensor]), table[data])


def test_reshaped_columns_are_not_rows_of_a_map(tmp_path: Path) -> None:
    """A vector of samples has its values in columns; a kernel of several rows does not fit."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["tall"]),
        helper.make_node("Conv", ["tall", "w"], ["y"], name="tall", pads=[1, 0, 1, 0]),
    ]
    constants = {"axis": np.array([3]), "w": RNG.normal(0, 1, (2, 3, 3, 1)).astype(np.float32)}
    made = model(nodes, constants, {"x": (1, 3, 6)})
    graph = read(made, tmp_path)
    assert [node.kind for node in graph.nodes] == ["host"]
    agree(graph, made)


def test_constants_of_flattened_maps_are_not_for_channels(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("Add", ["f", "c"], ["y"]),
    ]
    constants = {"flat": np.array([1, 60]), "c": RNG.normal(0, 1, 60).astype(np.float32)}
    made = model(nodes, constants, {"x": (1, 3, 4, 5)})
    agree(read(made, tmp_path), made)


def test_mean_over_a_reshaped_axis(tmp_path: Path) -> None:
    """(1, 1, 64) has channels where maps have columns."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["u"]),
        helper.make_node("ReduceMean", ["u"], ["y"], axes=[2]),
    ]
    made = model(nodes, {"one": np.array([1])}, {"x": (1, 64)})
    agree(read(made, tmp_path), made)


def test_padding_with_a_computed_number_goes_to_the_host(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Pad", ["x", "pads", "most"], ["y"]),
    ]
    made = model(nodes, {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, {"x": (1, 2, 3, 4)})
    agree(read(made, tmp_path), made)


@pytest.mark.parametrize(("stop", "host"), [("Relu", True), ("MaxPool", False)])
def test_cores_pad_with_zeros_or_for_max_pooling(tmp_path: Path, stop: str, host: bool) -> None:
    extra = {"kernel_shape": [2, 2]} if stop == "MaxPool" else {}
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["p"], name="pad"),
        helper.make_node(stop, ["p"], ["y"], **extra),
    ]
    constants = {
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "value": np.array(-9.0, np.float32),
    }  # fmt: skip
    made = model(nodes, constants, {"x": (1, 2, 3, 4)})
    graph = read(made, tmp_path)
    assert ("host" in [node.kind for node in graph.nodes]) == host
    agree(graph, made)


def test_sizes_that_depend_on_data_are_rejected(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], name="places"),
        helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    made = model(nodes, {}, {"x": (1, 4)})
    with pytest.raises(MapperError, match=r"'places' \(NonZero\): makes shape .*depend on data"):
        read(made, tmp_path)
