"""ONNX nodes without neurons: they move elements or change weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.storage.formats.conftest import edges_of, labels_of, meta_of
from tests.storage.formats.onnx_models import (
    Array,
    Convert,
    check,
    model,
    node,
    numpy_helper,
    onnx,
    weights,
)

MOVES: list[tuple[Any, dict[str, Array], tuple[int, ...]]] = [
    (node("Transpose", "x", "m", perm=[0, 2, 3, 1]), {}, (1, 5, 6, 2)),
    (node("Reshape", "x s", "m"), {"s": np.array([0, 3, -1])}, (1, 3, 20)),
    (node("Flatten", "x", "m", axis=2), {}, (2, 30)),
    (node("Squeeze", "x s", "m"), {"s": np.array([0])}, (2, 5, 6)),
    (node("Unsqueeze", "x s", "m"), {"s": np.array([1])}, (1, 1, 2, 5, 6)),
    (node("Slice", "x b e a t", "m"),
     {"b": np.array([4]), "e": np.array([0]), "a": np.array([2]), "t": np.array([-2])},
     (1, 2, 2, 6)),
    (node("Gather", "x s", "m", axis=3), {"s": np.array([5, 0, 5])}, (1, 2, 5, 3)),
    (node("Pad", "x s", "m"), {"s": np.array([0, 0, 1, 0, 0, 0, 0, 2])}, (1, 2, 6, 8)),
    (node("Pad", "x s", "m", mode="edge"), {"s": np.array([0, 0, 1, 0, 0, 0, 0, 2])},
     (1, 2, 6, 8)),
    (node("Tile", "x s", "m"), {"s": np.array([1, 1, 2, 1])}, (1, 2, 10, 6)),
    (node("DepthToSpace", "x", "m", blocksize=1), {}, (1, 2, 5, 6)),
    (node("Concat", "x x", "m", axis=2), {}, (1, 2, 10, 6)),
    (node("Concat", "x s", "m", axis=1), {"s": np.zeros((1, 1, 5, 6), np.float32)}, (1, 3, 5, 6)),
    (node("Expand", "x s", "m"), {"s": np.array([3, 1, 1, 1, 1])}, (3, 1, 2, 5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("move", "constants", "shape"), MOVES)
def test_moves_create_no_neurons(
    converted: Convert, move: Any, constants: dict[str, Array], shape: tuple[int, ...]
) -> None:
    flat = node("Reshape", "m flat", "f")
    size = int(np.prod(shape))
    constants = {**constants, "flat": np.array([1, size]), "w": weights(size, 3)}
    net = check(converted, model([move, flat, node("MatMul", "f w")], constants))
    assert meta_of(net).neurons == 60 + 3


def test_split_add_and_concat(converted: Convert) -> None:
    nodes = [
        node("Split", "x", "a b", axis=3),
        node("Conv", "a w", "c"),
        node("Relu", "c", "r"),
        node("Add", "r b", "s"),
        node("Concat", "s b a", "k", axis=1),
        node("Flatten", "k", "f"),
        node("Gemm", "f g", "y"),
    ]
    net = check(converted, model(nodes, {"w": weights(2, 2, 1, 1), "g": weights(90, 4)}, opset=13))
    assert labels_of(net) == ["x", "n_c", "n_s", "n_y"]


def test_folded_nodes(converted: Convert) -> None:
    nodes = [
        node("Cast", "x", "a", to=onnx.TensorProto.FLOAT),
        node("Mul", "a two", "b"),
        node("Conv", "b w", "c"),
        node("Mul", "c two", "d"),  # doubles the weights of c, like the normalisation after it
        node("Add", "d zero", "e"),
        node("BatchNormalization", "e scale zeros zeros ones", "f", epsilon=0.0),
        node("Relu", "f", "g"),
        node("Dropout", "g", "h"),
        node("Clip", "h - big", "i"),
        node("Identity", "i", "y"),
    ]
    constants = {
        "w": weights(2, 2, 2, 2), "two": np.float32([2]), "zero": np.float32([0]),
        "scale": np.float32([1, 4]), "zeros": np.zeros(2, np.float32),
        "ones": np.ones(2, np.float32), "big": np.float32(1e6),
    }  # fmt: skip
    net = converted("a.onnx", model(nodes, constants).SerializeToString())
    assert labels_of(net) == ["x", "n_c"]
    found = edges_of(net)
    # into (channel 1, row 0, column 0) after 60 inputs and 20 outputs of channel 0
    expected = {
        (c * 30 + i * 6 + j, 80): float(constants["w"][1, c, i, j]) * 8
        for c in range(2) for i in range(2) for j in range(2)
    }  # fmt: skip
    assert {pair: weight for pair, weight in found.items() if pair[1] == 80} == expected


def test_sums_that_are_used_twice_keep_their_weights(converted: Convert) -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Mul", "a two", "b"),
        node("Add", "a b", "y"),
    ]
    made = model(nodes, {"w": weights(2, 1), "two": np.float32([2])}, {"x": (1, 2)})
    net = converted("a.onnx", made.SerializeToString())
    first, second = numpy_helper.to_array(made.graph.initializer[0]).ravel().tolist()
    assert edges_of(net) == {(0, 2): first, (1, 2): second, (2, 3): 2.0}


@pytest.mark.parametrize(
    "more",
    [
        [node("ReduceMean", "m", axes=[0])],  # one neuron reads elements of both
        [node("Reshape", "m s", "r"), node("MatMul", "r v")],
        [node("Transpose", "m", "t", perm=[1, 0]), node("MatMul", "t u")],
    ],
)
def test_first_axis_other_than_batch(more: list[Any], converted: Convert) -> None:
    constants = {
        "w": weights(6, 3), "v": weights(6, 2), "u": weights(2, 2), "s": np.array([1, 6])
    }  # fmt: skip
    made = model([node("MatMul", "x w", "m"), *more], constants, {"x": (2, 6)})
    path = converted("a.onnx", made.SerializeToString())
    assert labels_of(path)[:2] == ["x", "n_m"]


def test_open_batch_zeros_and_constants(converted: Convert) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "batch"),
        node("Concat", "batch rest", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Constant", "", "w", value=numpy_helper.from_array(np.float32([[1, 0], [-2, 3]]))),
        node("MatMul", "r w", "y"),
        node("ArgMax", "y", "class", axis=1),
        node("Cast", "class", "z", to=onnx.TensorProto.FLOAT),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([2])}
    made = model(nodes, constants, {"x": ("N", 2, 1)}, ["z"])
    net = converted("a.onnx", made.SerializeToString())
    assert edges_of(net) == {(0, 2): 1.0, (1, 2): 2.0, (1, 3): 3.0}
    assert meta_of(net).provenance == {
        "format": "onnx", "source": "a.onnx", "weights_zero": 1, "weights_negative": 1,
        "nodes_left_out": ["n_class", "n_z"], "traffic": {"source": "weights"},
    }  # fmt: skip


def test_quantised_layers(converted: Convert) -> None:
    whole = np.array([[1, 3], [5, 3]], np.uint8)
    zero, scale = np.array(3, np.uint8), np.float32(0.5)
    one, none = np.float32(1), np.array(0, np.uint8)
    expected = {(0, 2): 1.0, (1, 2): 1.0}
    constants = {
        "w": whole, "c": whole.T.reshape(2, 2, 1, 1).copy(), "s": scale, "z": zero, "one": one,
        "none": none,
    }  # fmt: skip
    flat, image = {"x": (1, 2)}, {"x": (1, 2, 1, 1)}
    for nodes, given in (
        ([node("DequantizeLinear", "w s z", "d"), node("Gemm", "x d")], flat),
        ([node("QuantizeLinear", "x one none", "q"), node("MatMulInteger", "q w none z")], flat),
        ([node("QuantizeLinear", "x one none", "q"),
          node("QLinearMatMul", "q one none w s z one none")], flat),
        ([node("QuantizeLinear", "x one none", "q"),
          node("QLinearConv", "q one none c s z one none")], image),
        ([node("QGemm", "x one none w s z", domain="com.microsoft")], flat),
    ):  # fmt: skip
        made = model(nodes, constants, given, opset=13)  # type: ignore[arg-type]
        factor = 2.0 if "Integer" in nodes[-1].op_type else 1.0
        net = converted("a.onnx", made.SerializeToString())
        assert edges_of(net) == {pair: w * factor for pair, w in expected.items()}
        assert meta_of(net).provenance["weights_zero"] == 2


def test_per_channel_scales(converted: Convert) -> None:
    constants = {"w": np.int8([[1, 2], [3, 4]]), "s": np.float32([0.5, 2])}
    for axis, expected in ((0, (0.5, 6.0, 1.0, 8.0)), (1, (0.5, 1.5, 4.0, 8.0))):
        nodes = [node("DequantizeLinear", "w s", "d", axis=axis), node("MatMul", "x d")]
        net = converted(
            "a.onnx", model(nodes, constants, {"x": (1, 2)}, opset=13).SerializeToString()
        )
        found = edges_of(net)
        assert tuple(found[pair] for pair in ((0, 2), (1, 2), (0, 3), (1, 3))) == expected


def test_quantisers_of_qonnx(converted: Convert) -> None:
    constants = {
        "w": np.float32([[0.2, -0.2], [0.6, 9]]), "s": np.float32(0.5), "z": np.float32(0),
        "b": np.float32(2),
    }  # fmt: skip
    for quant, expected in (
        (node("Quant", "w s z b", "q", signed=1, narrow=1, domain="onnx.brevitas"),
         {(1, 2): 0.5, (1, 3): 0.5}),
        (node("BipolarQuant", "w s", "q", domain="onnx.brevitas"),
         {(a, b): 0.5 for a in (0, 1) for b in (2, 3)}),
    ):  # fmt: skip
        made = model([quant, node("MatMul", "x q")], constants, {"x": (1, 2)})
        assert edges_of(converted("a.onnx", made.SerializeToString())) == expected
