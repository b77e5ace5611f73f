"""Operators of integer networks as ONNX nodes, compared with Python twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats.layers.onnxruns import NodeSession, model_of_node
from tests.reference import whole_operators as twin
from tests.storage.formats.onnx_models import helper, numpy_helper

RANDOM = np.random.default_rng(2)
OPSETS = (8, 10, 11, 13, 18, 20)
"""Opsets between which operators of the definitions changed."""


def tensor(value: float) -> Any:
    return numpy_helper.from_array(np.array([value], np.float32))


def ran(kind: str, x: np.ndarray, opset: int, *constants: np.ndarray, **attributes: Any) -> Any:
    """Return the result of a node in ONNX Runtime."""
    named = {f"c{at}": one.astype(np.float32) for at, one in enumerate(constants)}
    node = helper.make_node(kind, ["x", *named], ["y"], "n", domain="PACTOps", **attributes)
    opsets = [("", opset), ("PACTOps", 1)]
    model = model_of_node(node, {"x": (np.dtype(np.float32), x.shape)}, named, opsets)
    (made,) = NodeSession(model).run({"x": x.astype(np.float32)})
    assert made.dtype == np.float32
    return made


def bytes_of(*shape: int) -> np.ndarray:
    return RANDOM.integers(-128, 128, shape)


@pytest.mark.parametrize("opset", OPSETS)
def test_definitions_in_every_opset(opset: int) -> None:
    x = bytes_of(1, 9, 7)
    weight, bias = RANDOM.integers(-400_000, 400_000, 7), RANDOM.integers(-90_000, 90_000, 7)
    made = ran("iLayerNorm", x, opset, weight, bias, D=tensor(16384), n_levels=tensor(256))
    np.testing.assert_array_equal(made, twin.layer_norm(x, weight, bias, 16384))
    made = ran("ITAMax", x, opset, n_levels=tensor(256))
    np.testing.assert_array_equal(made, twin.ita_max(x))
    made = ran("iGELU", x, opset, b=-26, one=770)
    np.testing.assert_array_equal(made, twin.gelu(x, -26, 770))
    sums = RANDOM.integers(-5_000_000, 5_000_000, (1, 9, 7))
    numbers = {"div": tensor(16384), "n_levels_out": tensor(256), "signed": tensor(1)}
    made = ran("RequantShift", sums, opset, np.array(57), np.array(-3333), **numbers)
    np.testing.assert_array_equal(made, twin.requant_shift(sums, 57, -3333, 16384))


@pytest.mark.parametrize("count", [1, 2, 4, 6, 7, 12, 64])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means_of_any_number(count: int, keepdims: int) -> None:
    """All sums of few numbers, among them halves of both signs."""
    x = np.concatenate([bytes_of(1, count, 300), np.full((1, count, 1), -128)], 2)
    x[0, 0, :256] = np.arange(-128, 128)
    x[0, 1:, :256] = -1
    made = ran("IntegerMean", x, 13, axes=[1], keepdims=keepdims)
    wanted = twin.mean(x, 1)
    np.testing.assert_array_equal(made, wanted[:, None] if keepdims else wanted)


def test_rows_of_equal_numbers_and_extremes() -> None:
    x = np.array([[[-128] * 6, [127] * 6, [-128, 127] * 3, [0] * 6, [-1] * 6]])
    ones, zeros = np.full(6, 1 << 20), np.zeros(6)
    made = ran("iLayerNorm", x, 13, ones, zeros, D=tensor(4), n_levels=tensor(256))
    np.testing.assert_array_equal(made, twin.layer_norm(x, ones, zeros, 4))
    assert {made.min(), made.max()} == {-128, 127}
    made = ran("ITAMax", x, 13, n_levels=tensor(256))
    np.testing.assert_array_equal(made, twin.ita_max(x))


def test_undefined_levels() -> None:
    """The shifts of ITAMax are whole for 256 levels only."""
    with pytest.raises(BadInputError, match="ONNX Runtime has no operator ITAMax"):
        ran("ITAMax", bytes_of(1, 2, 3), 13, n_levels=tensor(128))
