"""Values of partly quantised models that result from integers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapper.compiler.artifacts.judge.integers import Integers
from tests.compiler.models import onnx_model
from tests.compiler.right_values import node

CONSTANTS = {
    "s": np.float32(0.03), "z": np.uint8(100), "u": np.float32(0.05), "same": np.float32(0.03),
    "w": np.ones((3, 3, 1, 1), np.int8), "real": np.ones((3, 3, 1, 1), np.float32),
    "n": np.ones(3, np.float32), "pads": np.zeros(8, np.int64),
}  # fmt: skip
BEFORE = [
    node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
    node("DequantizeLinear", "w s", "k"),
]  # fmt: skip
CONV, RELU = node("Conv", "xd k", "a"), node("Relu", "a", "b")
TWICE = [node("DequantizeLinear", "aq u z", "ad"), node("Sigmoid", "ad", "b"),
         node("QuantizeLinear", "b s z", "bq")]  # fmt: skip


def to_integers(value: str, scale: str = "u") -> Any:
    return node("QuantizeLinear", f"{value} {scale} z", "aq")


PAD = [node("Pad", "xd pads", "a"), to_integers("a", "same"), *TWICE]


@pytest.mark.parametrize(
    ("nodes", "last", "known", "integers"),
    [
        ([CONV, to_integers("a")], "aq", (), True),
        ([CONV, RELU, to_integers("b")], "aq", (), True),
        # Add also reads the sum before the activation, which is therefore stored with its own scale
        ([CONV, RELU, node("Add", "a b", "c"), to_integers("b")], "aq", (), False),
        ([CONV, RELU, node("Tanh", "b", "c"), to_integers("c")], "aq", (), False),
        ([CONV, node("GlobalAveragePool", "a", "b"), to_integers("b")], "aq", (), False),
        ([node("Conv", "xd real", "a"), to_integers("a")], "aq", (), False),
        ([node("BatchNormalization", "xd n n n n", "a"), to_integers("a")], "aq", (), False),
        ([node("Relu", "x", "a"), to_integers("a")], "aq", (), False),
        ([CONV, to_integers("a"), *TWICE], "bq", (), True),
        # compile may omit its rounding, as the value before has the same scale
        (PAD, "bq", (), False),
        (PAD, "bq", ("aq",), True),
    ],
)
def test_values_of_integers(
    nodes: list[Any], last: str, known: tuple[str, ...], integers: bool
) -> None:
    model = onnx_model([*BEFORE, *nodes], CONSTANTS, (1, 3, 4, 5), (last,))
    assert Integers(model.graph, "x").are(last, known) == integers
