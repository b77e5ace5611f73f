"""ONNX layers compared with the reference implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from storage.formats.layers import linear as layers
from tests.storage.formats.conftest import labels_of
from tests.storage.formats.onnx_models import Convert, check, model, node, weights

CONVOLUTIONS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((3, 2, 3, 2), {}),
    ((3, 2, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((4, 1, 2, 3), {"group": 2, "dilations": [2, 2], "pads": [0, 1, 1, 2]}),
    ((2, 1, 3, 3), {"group": 2, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((2, 2, 2, 2), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    ((2, 2, 2, 2), {"auto_pad": "VALID", "kernel_shape": [2, 2]}),
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("shape", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("entries", [1, 1 << 18])
def test_conv(
    converted: Convert,
    shape: tuple[int, ...],
    attributes: dict[str, Any],
    entries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layers, "ENTRIES", entries)
    constants = {"w": weights(*shape), "b": np.zeros(shape[0], np.float32)}
    net = check(converted, model([node("Conv", "x w b", **attributes)], constants))
    assert labels_of(net) == ["x", "n_y"]


POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [2, 3], "strides": [1, 2]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    ("AveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("GlobalAveragePool", {}),
    ("GlobalMaxPool", {}),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kind", "attributes"), POOLS)
def test_pools(converted: Convert, kind: str, attributes: dict[str, Any]) -> None:
    check(converted, model([node(kind, "x", **attributes)]))


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [("ReduceMean", [2], 0), ("ReduceMean", [1, -1], 1), ("ReduceMax", [1], 1)],
)
def test_reductions(converted: Convert, kind: str, left: list[int], right: int) -> None:
    check(converted, model([node(kind, "x", axes=left, keepdims=right)]))


def test_reduction_of_axes_that_are_an_input(converted: Convert) -> None:
    check(converted, model([node("ReduceSum", "x a", keepdims=0)], {"a": np.array([3, 0])}))


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(converted: Convert, turned: tuple[int, int]) -> None:
    size = (4, 1) if turned[0] else (1, 4)
    constants = {"w": weights(3, 4) if turned[1] else weights(4, 3)}
    gemm = node("Gemm", "x w", transA=turned[0], transB=turned[1], alpha=2.0)
    check(converted, model([gemm], constants, {"x": size}), size)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("x", (4, 3)), ("x", (2, 4, 3)), ("x", (4,)), ((3, 2), "x"), ((5, 3, 2), "x"),
    ],
)  # fmt: skip
def test_matmul(converted: Convert, left: Any, right: Any) -> None:
    size = (1, 2, 4) if left == "x" else (2, 4)  # not a batch of 2
    factors = " ".join("x" if one == "x" else "w" for one in (left, right))
    constants = {"w": weights(*(right if left == "x" else left))}
    check(converted, model([node("MatMul", factors)], constants, {"x": size}), size)


def test_matmul_of_a_vector(converted: Convert) -> None:
    check(converted, model([node("MatMul", "x w")], {"w": weights(4, 3)}, {"x": (4,)}), (4,))
