"""The formulas with halves to even equal the integer kernels of onnxruntime in every element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.node import Conv, Node, Pool, Window
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.numerics.formulas import (
    add_factors,
    added,
    folded_bias,
    multiplier,
    quantise,
    requantise,
)
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.numerics.windows import pixels
from tests.compiler.onnx_sessions import session_of
from tests.storage.formats.onnx_models import helper, onnx

pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
RANDOM = np.random.default_rng(16)
MICROSOFT = "com.microsoft"


def ran(
    kind: str, inputs: list[np.ndarray], domain: str = "", result: str = "uint8", **attributes: Any
) -> np.ndarray:
    """Return onnxruntime's result of a node; the first input is the model's, others are
    constants."""
    kinds = [helper.np_dtype_to_tensor_dtype(one.dtype) for one in inputs]
    names = [f"i{number}" for number in range(len(inputs))]
    made = helper.np_dtype_to_tensor_dtype(np.dtype(result))
    one = helper.make_node(kind, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [one], "one", [helper.make_tensor_value_info("i0", kinds[0], inputs[0].shape)],
        [helper.make_tensor_value_info("y", made, None)],
        [onnx.numpy_helper.from_array(one, name)
         for name, one in zip(names[1:], inputs[1:], strict=True)],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = session_of(model.SerializeToString())
    return session.run(None, {"i0": inputs[0]})[0]


def real(value: float) -> np.ndarray:
    return np.float32(value).reshape(())


def ends(kind: str) -> tuple[int, int]:
    info = np.iinfo(kind)
    return int(info.min), int(info.max)


def how(scales: tuple[float, float, float], zero_point: int, kind: str) -> Requantisation:
    """Compute the multiplier in the order of imported models: (in * weights) / out in float32."""
    taken, weights, made = (np.float32(one) for one in scales)
    factor = multiplier((taken * weights) / made, "here")
    return Requantisation(factor, zero_point, *ends(kind), "even")


def scales() -> tuple[float, float, float]:
    taken, weights = RANDOM.uniform(0.005, 0.1, 2)
    return taken, weights, taken * weights * RANDOM.uniform(30, 400)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("groups", [1, 8])
def test_d05_convolutions_equal_onnxruntime(kind: str, groups: int) -> None:
    for _ in range(4):
        low, high = ends(kind)
        x = RANDOM.integers(low, high + 1, (1, 8, 14, 15)).astype(kind)
        w = RANDOM.integers(-127, 128, (16, 8 // groups, 3, 3)).astype(np.int8)
        b = RANDOM.integers(-9000, 9000, 16).astype(np.int32)
        s, zero_in = scales(), int(RANDOM.integers(low, high + 1))
        zero_out = int(RANDOM.integers(low, high + 1))
        window = Window((3, 3), (2, 1), Pad(1, 0, 1, 2))
        found = ran(
            "QLinearConv",
            [x, real(s[0]), np.array(zero_in, kind), w, real(s[1]), np.array(0, np.int8),
             real(s[2]), np.array(zero_out, kind), b],
            result=kind, pads=[1, 1, 0, 2], strides=[2, 1], group=groups,
        )  # fmt: skip
        tensor = Tensor("x", (1, 14, 15, 8), "int16", zero_point=zero_in)
        weights = w.transpose(0, 2, 3, 1).astype(np.int64)
        bias = folded_bias(b, weights, zero_in)
        sums = INTEGER(
            Node(Conv(window, groups), [tensor], [tensor], ("n",)),
            [x.transpose(0, 2, 3, 1).astype(np.int64), weights, bias],
        )
        made = requantise(np.asarray(sums), how(s, zero_out, kind)).transpose(0, 3, 1, 2)
        assert np.array_equal(made, found)


def test_b15_sums_equal_onnxruntime() -> None:
    """Except for some near a half: their factors have 21 bits, float32 factors 24."""
    differ = 0
    for _ in range(6):
        a, b = (RANDOM.integers(0, 256, (1, 4, 60, 70)).astype(np.uint8) for _ in range(2))
        sa, sb = (float(np.float32(one)) for one in RANDOM.uniform(0.01, 0.1, 2))
        sy = float(np.float32((sa + sb) * RANDOM.uniform(0.4, 1.2)))
        za, zb, zy = (int(one) for one in RANDOM.integers(0, 256, 3))
        found = ran(
            "QLinearAdd",
            [a, real(sa), np.array(za, np.uint8), b, real(sb), np.array(zb, np.uint8), real(sy),
             np.array(zy, np.uint8)],
            MICROSOFT,
        )  # fmt: skip
        factors = add_factors((sa, za), (sb, zb), sy, 8, "here")
        made = added(a.astype(np.int64), b.astype(np.int64), factors, zy, 0, 255, rounding="even")
        other = made != found
        exact = (a[other] - float(za)) * (sa / sy) + (b[other] - float(zb)) * (sb / sy)
        assert np.all(np.abs(exact - np.floor(exact) - 0.5) < 2**-11)
        assert np.all(np.abs(made[other] - found[other].astype(np.int64)) == 1)
        differ += other.sum()
    assert differ <= 20  # differences out of 100,800


def test_dense_layers_equal_onnxruntime() -> None:
    for _ in range(4):
        x = RANDOM.integers(0, 256, (64, 100)).astype(np.uint8)
        w = RANDOM.integers(-127, 128, (100, 40)).astype(np.int8)
        b = RANDOM.integers(-9000, 9000, 40).astype(np.int32)
        s, zero_in, zero_out = scales(), *(int(one) for one in RANDOM.integers(0, 256, 2))
        found = ran(
            "QGemm",
            [x, real(s[0]), np.array(zero_in, np.uint8), w, real(s[1]), np.array(0, np.int8), b,
             real(s[2]), np.array(zero_out, np.uint8)],
            MICROSOFT,
        )  # fmt: skip
        bias = folded_bias(b, w.T.astype(np.int64), zero_in)
        sums = x.astype(np.int64) @ w.astype(np.int64) + bias
        assert np.array_equal(requantise(sums, how(s, zero_out, "uint8")), found)


def test_means_equal_onnxruntime() -> None:
    for _ in range(4):
        x = RANDOM.integers(0, 256, (1, 8, 20, 22)).astype(np.uint8)
        sx, sy = (float(np.float32(one)) for one in RANDOM.uniform(0.02, 0.06, 2))
        zx, zy = (int(one) for one in RANDOM.integers(0, 256, 2))
        found = ran(
            "QLinearAveragePool",
            [x, real(sx), np.array(zx, np.uint8), real(sy), np.array(zy, np.uint8)],
            MICROSOFT, kernel_shape=[2, 2], strides=[2, 2],
        )  # fmt: skip
        window = Window((2, 2), (2, 2))
        tensor = Tensor("x", (1, 20, 22, 8), "int16", zero_point=zx)
        sums = INTEGER(
            Node(Pool("average", window), [tensor], [tensor], ("n",)),
            [x.transpose(0, 2, 3, 1).astype(np.int64)],
        )
        count = int(pixels(20, 22, window).max())
        factor = multiplier(sx / (sy * count), "here")
        made = requantise(np.asarray(sums), Requantisation(factor, zy, 0, 255, "even"))
        assert np.array_equal(made.transpose(0, 3, 1, 2), found)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_quantising_equals_onnxruntime(kind: str) -> None:
    values = RANDOM.normal(0, 3, 200_000).astype(np.float32)
    values[:4] = 0.25, 0.75, -0.25, 1e30
    low, high = ends(kind)
    for scale in (0.5, 0.03, float(np.float32(RANDOM.uniform(0.01, 0.1)))):
        zero = int(RANDOM.integers(low, high + 1))
        found = ran("QuantizeLinear", [values, real(scale), np.array(zero, kind)], result=kind)
        made = quantise(values, scale, zero - (128 if kind == "uint8" else 0), 8)
        assert np.array_equal(made + (128 if kind == "uint8" else 0), found)
