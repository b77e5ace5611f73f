"""ONNX models with faults: each is reported in one line with the faulty node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import extras
from storage.errors import BadInputError
from storage.formats import import_network, recognise
from tests.storage.formats.onnx_models import model, node, weights

Refuse = Callable[..., str]

W = {"w": np.ones((3, 2, 2, 2), np.float32)}
NOUGHT = np.zeros(1, np.float32)
FAULTS: list[tuple[Any, str]] = [
    (model([node("Wibble", "x")]), "node 'n_y' (Wibble): this operator is not supported"),
    (model([node("Where", "c x x")], {"c": np.bool_([True])}), "(Where): this operator is not"),
    (model([node("LSTM", "x w w")], W), "node 'n_y' (LSTM): this operator is not supported"),
    (model([node("Conv", "x w", group=2)], W), "weights of shape (3, 2, 2, 2) in 2 groups do not"),
    (model([node("Conv", "x x")]), "node 'n_y' (Conv): input 1 must be constant weights"),
    (model([node("Conv", "x w", strides=[0, 1])], W), "node 'n_y' (Conv): kernel 2, stride 0"),
    (model([node("Conv", "x w", strides=[1])], W), "strides has 1 values; it needs 2"),
    (model([node("Conv", "x w", auto_pad="ALL")], W), "unknown auto_pad 'ALL'"),
    (model([node("Conv", "x w")], {"w": W["w"] * np.nan}), "node 'n_y' has weights that are not"),
    (model([node("Conv", "x w")], W, {"x": (2, 2, 5, 5)}), "its input is a batch of 2"),
    (
        model([node("MatMul", "x w", "m"), node("Relu", "m")], {"w": weights(6, 3)}, {"x": (2, 6)}),
        "a batch of 2 (first axis of 'x') would be 2 copies of the network; export",
    ),
    (model([node("Add", "x z")], {}, {"x": (3, 2), "z": (3, 2)}), "a batch of 3 (first axis of"),
    (model([node("Conv", "x w")], W, {"x": (1, 2, 1, 5)}), "a window of 2 does not fit in 1"),
    (model([node("Conv", "x w")], W, {"x": (1, 2)}), "its input has shape (1, 2)"),
    (model([node("Conv", "x w")], W, {"x": (1, 2, "h", 3)}), "'x': axis 2 has a dynamic size"),
    (model([node("MaxPool", "x")]), "node 'n_y' (MaxPool): attribute kernel_shape is missing"),
    (model([node("MatMul", "x x")]), "both factors depend on neurons"),
    (model([node("MatMul", "x w")], {"w": weights(5, 2)}), "weights of shape (5, 2) do not match"),
    (
        model([node("Relu", "v")]),
        "node 'n_y' (Relu): its input 'v' is not the output of a previous node",
    ),
    (
        model([node("Reshape", "x s")], {"s": np.array([7, -1])}),
        "(domain ai.onnx, opset 17): The input tensor cannot be reshaped",
    ),
    (model([node("Add", "x s")], {"s": np.ones(7, np.float32)}), "node 'n_y' (Add): shape mism"),
    (model([node("Pad", "x s")], {"s": np.array([1, 2])}), "(Pad): pads are [1, 2]"),
    (
        model([node("Gather", "s x")], {"s": weights(9)}),
        "the positions of elements depend on neurons",
    ),
    (
        model([node("ArgMax", "x", "a"), node("Conv", "a w")], W),
        "node 'n_y' (Conv): reads the output of a node that selects a class",
    ),
    (
        model(
            [node("Conv", "x w", "c"), node("BatchNormalization", "c v v v v")],
            W | {"v": np.float32([1, -1, 1])},
        ),
        "node 'n_c' has weights that are not finite",
    ),
    (
        model([node("MatMul", "x w", "m"), node("Div", "m z")], {"w": weights(6, 1), "z": NOUGHT}),
        "node 'n_m' has weights that are not finite",
    ),
    (model([node("Two\nlines", "x")]), "(Two lines): this operator is not supported"),
    (
        model([node("MatMul", "w w")], {"w": weights(2, 3)}, {"x": (1,)}),
        "(domain ai.onnx, opset 17): Incompatible dimensions",
    ),
    (model([node("Constant", "", value_float=1.0)], {}, {}), "no neurons"),
    (model([], {}, {"x": (1, 2**20, 2**20)}), "'x' of shape (1, 1048576, 1048576): exceeds"),
]


@pytest.mark.parametrize(("made", "message"), FAULTS)
def test_faults(made: Any, message: str, refused: Refuse) -> None:
    assert message in refused("a.onnx", made.SerializeToString())


def test_an_input_without_a_shape(refused: Refuse) -> None:
    made = model([node("Relu", "x")])
    made.graph.input[0].type.tensor_type.ClearField("shape")
    assert "input 'x' has no shape" in refused("a.onnx", made.SerializeToString())


def test_versions(refused: Refuse) -> None:
    for ir, opset, message in (
        (99, 17, "ONNX IR version 99 is not supported (1 to "),
        (0, 17, "ONNX IR version 0 is not supported"),
        (8, 999, "opset 999 is not supported (1 to "),
        (8, 0, "opset 0 is not supported"),
    ):
        made = model([node("Relu", "x")], opset=opset)
        made.ir_version = ir
        assert message in refused("a.onnx", made.SerializeToString())


def test_invalid_order_of_nodes(refused: Refuse) -> None:
    round_trip = [node("Add", "x b", "a"), node("Relu", "a", "b"), node("Relu", "b")]
    backwards = [node("Relu", "b"), node("Relu", "a", "b"), node("Relu", "x", "a")]
    for nodes, message in (
        (round_trip, "form a cycle; only feed-forward networks are supported"),
        ([node("Relu", "y")], "nodes 'n_y' -> 'n_y' form a cycle"),
        (backwards, "node 'n_y' (Relu): reads the output of a later node; sort the nodes"),
        ([node("Relu", "x"), node("Abs", "x")], "node 'n_y' (Abs): defines 'y' again"),
        ([node("Relu", "x", "x")], "node 'n_x' (Relu): defines 'x' again"),
    ):
        assert message in refused("a.onnx", model(nodes).SerializeToString())


def test_missing_or_truncated_weights(refused: Refuse) -> None:
    flat = [node("Flatten", "x", "f"), node("MatMul", "f w")]
    for change, message in (
        ("short", "constant 'w': its data do not match its type and its shape (60, 3)"),
        ("kind", "constant 'w': its data do not match its type"),
        ("file", "constant 'w': its data file is missing from the model's folder"),
    ):
        made = model(flat, {"w": weights(60, 3)})
        tensor = made.graph.initializer[0]
        if change == "short":
            tensor.raw_data = bytes(8)
        elif change == "kind":
            tensor.data_type = 99
        else:
            tensor.data_location = 1
            tensor.external_data.add(key="location", value="none.bin")
        assert message in refused("a.onnx", made.SerializeToString())


def test_damaged_files(refused: Refuse) -> None:
    whole = model([node("Conv", "x w")], W).SerializeToString()
    for length in (len(whole) // 2, len(whole) - 1):
        assert "not a valid ONNX file" in refused("a.onnx", whole[:length])
    assert "not a valid ONNX file" in refused("a.onnx", b"some text\n")
    assert "contains no graph" in refused("a.onnx", b"\x08\x08")


def test_detection_and_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(model([node("Relu", "x")]).SerializeToString())
    assert recognise(path).name == "onnx"

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    message = r"ONNX models need onnx; pip install 'neuromapper\[onnx\]'"
    with pytest.raises(BadInputError, match=message):
        import_network(path, tmp_path / "net.bin")
