"""Nodes that go to the host with a reason, and invalid models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.ir.node import Dense, Host
from mapper.errors import MapperError
from tests.compiler.models import computed, expected, read, values_of
from tests.storage.formats.onnx_models import model, node, onnx

RANDOM = np.random.default_rng(5)
NEWEST = min(onnx.defs.onnx_opset_version(), 23)
MAP = {"x": (1, 6, 9, 8)}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


# -- the host --------------------------------------------------------------------------------------


def test_other_operators_go_to_the_host_with_a_reason(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("Softmax", "c", axis=1)]
    graph = read(model(nodes, {"w": normal(4, 6, 3, 3)}, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "host"]
    host = graph.nodes[1].operator
    assert isinstance(host, Host)
    assert host.why == "no core computes Softmax"
    assert graph.outputs["y"].shape == (1, 4, 7, 6)


def test_host_results_of_any_type_and_number_of_axes(tmp_path: Path) -> None:
    """The next node reads whole numbers from ArgMax, and its result is used."""
    nodes = [
        node("Conv", "x w", "c"), node("ArgMax", "c", "a", axis=1, keepdims=0),
        node("Gather", "table a", "g", axis=0), node("Unsqueeze", "g one", "u"),
        node("ReduceSum", "u", "y", keepdims=0),
    ]  # fmt: skip
    constants = {
        "w": normal(4, 6, 3, 3), "table": normal(4, 3), "one": np.array([1])
    }  # fmt: skip
    made = model(nodes, constants, MAP)
    graph = read(made, tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv"] + ["host"] * 3
    values = values_of(made, frames=3)
    found = computed(graph, values)["y"]
    each = [expected(made, {"x": one[None]}) for one in values["x"]]
    assert np.allclose(found.ravel(), np.concatenate([one["y"] for one in each]), rtol=1e-5)


def test_kernels_that_are_not_constant_go_to_the_host(tmp_path: Path) -> None:
    made = model(
        [node("Conv", "x w")], {}, {"x": (1, 6, 9, 8), "w": (1, 6, 3, 3)},
    )  # fmt: skip
    (host,) = read(made, tmp_path).nodes
    assert isinstance(host.operator, Host)
    assert host.operator.why == "its kernel is not constant: export with constant folding"


# -- wrong shapes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "constants", "says"),
    [
        (node("Conv", "x w"), {"w": (4, 5, 3, 3)}, "map has 6 channels, its kernels take 5"),
        (node("Conv", "x w", group=2), {"w": (4, 6, 3, 3)}, "kernels take 12 (6 in 2 groups)"),
        (node("Conv", "x w", group=3), {"w": (4, 2, 3, 3)}, "4 kernels do not divide into 3"),
        (node("Conv", "x w b"), {"w": (4, 6, 3, 3), "b": (5,)}, "bias has shape (5,), it has 4"),
        (node("Conv", "x w", kernel_shape=[2, 2]), {"w": (4, 6, 3, 3)}, "kernel_shape is (2, 2)"),
        (node("Conv", "x w"), {"w": (4, 6, 10, 3)}, "kernel of 10x3 is larger than its padded"),
        (node("Conv", "x w", dilations=[5, 1]), {"w": (4, 6, 3, 3)}, "larger than its padded map"),
        (node("Conv", "x w", strides=[0, 1]), {"w": (4, 6, 3, 3)}, "strides is (0, 1)"),
        (node("Conv", "x w", pads=[-1, 0, 0, 0]), {"w": (4, 6, 3, 3)}, "pads is (-1, 0, 0, 0)"),
        (node("Conv", "x w", pads=[1, 1]), {"w": (4, 6, 3, 3)}, "pads is (1, 1); give 4 numbers"),
        (node("Conv", "x w"), {"w": (4, 6, 3)}, "its map has 4 axes, its kernels 3"),
        (node("Conv", "x w", group=0), {"w": (4, 6, 3, 3)}, "groups"),
        (node("MaxPool", "x", kernel_shape=[10, 2]), {}, "kernel of 10x2 is larger than"),
        (node("MaxPool", "x", kernel_shape=[0, 2]), {}, "kernel_shape is (0, 2)"),
        (node("MaxPool", "x"), {}, "kernel_shape"),
        (node("BatchNormalization", "x b b b b"), {"b": (5,)}, "are not 6 numbers each"),
        (node("Concat", "x c", axis=1), {"c": (1, 6, 9, 8)}, ""),
        (node("Clip", "x high low"), {}, "min (2) is not less than max (-1)"),
        (node("Add", "x q"), {}, "reads 'q', which no node computes"),
    ],
)
def test_a02_wrong_shapes_name_the_node_and_the_sizes(
    tmp_path: Path, one: Any, constants: dict[str, tuple[int, ...]], says: str
) -> None:
    given = {name: normal(*shape) for name, shape in constants.items()}
    given |= {"low": np.float32(-1).reshape(()), "high": np.float32(2).reshape(())}
    made = model([one], given, MAP)
    if not says:  # legal, and computed by the host
        assert isinstance(read(made, tmp_path).nodes[0].operator, Host)
        return
    with pytest.raises(MapperError) as error:
        read(made, tmp_path)
    message = str(error.value)
    assert f"model.onnx: node 'n_y' ({one.op_type}): " in message
    assert says in message
    assert "\n" not in message


def test_a02_dense_layers_and_sums_of_other_sizes(tmp_path: Path) -> None:
    for nodes, says in [
        ([node("Gemm", "v w")], "takes 24 values, its weights have 7"),
        ([node("Gemm", "v w2 b")], r"bias has shape \(3,\), it has 5 outputs"),
    ]:
        constants = {"w": normal(7, 5), "w2": normal(24, 5), "b": normal(3)}
        with pytest.raises(MapperError, match=says):
            read(model(nodes, constants, {"v": (1, 24)}), tmp_path)


def test_a02_other_models(tmp_path: Path) -> None:
    with pytest.raises(MapperError, match="has a batch of 3; export the model for one sample"):
        read(model([node("Relu", "x")], {}, {"x": (3, 6, 9, 8)}), tmp_path)
    with pytest.raises(MapperError, match="no output depends on an input"):
        read(model([node("Relu", "c")], {"c": normal(3)}, MAP), tmp_path)
    cyclic = [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b")]
    with pytest.raises(MapperError, match="form a cycle"):
        read(model(cyclic, {}, MAP), tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(MapperError, match=r"model\.onnx: "):
        Reader(tmp_path / "model.onnx", FLOAT)


def test_dense_layers_keep_their_kind_until_a_pass_changes_it(tmp_path: Path) -> None:
    graph = read(model([node("Gemm", "x w")], {"w": normal(24, 5)}, {"x": (1, 24)}), tmp_path)
    assert isinstance(graph.nodes[0].operator, Dense)
