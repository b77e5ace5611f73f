"""C02, D01: models with QuantizeLinear and DequantizeLinear around real operators.

Every element equals numpy, and the integer kernels of onnxruntime where it is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.node import Clamp, Conv, Requantise
from mapper.compiler.model import open_model
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.registry import optimise_integers
from mapper.errors import MapperError
from tests.compiler.quantised import KINDS, MAP, Net, added, check, how, less, pooled, run_integers
from tests.reference import quantised as twin
from tests.reference.quantised import Array, How

LEAK = 0.137  # no multiple of it is half a step, where float32 would decide


def begin(kind: str = "uint8", shape: tuple[int, ...] = MAP) -> tuple[Net, Array, How]:
    """Return a net whose input is quantised and dequantised as d, and a sample of it."""
    net, taken = Net(shape, opset=19), how(kind, 0.0213, -9)
    pair(net, "x", taken, "d")
    return net, net.sample(), taken


def pair(net: Net, name: str, made: How, output: str) -> str:
    net.stored(name, made, f"{output}.stored")
    return net.real(f"{output}.stored", made, output)


def weights(
    net: Net, shape: tuple[int, ...], per_channel: bool, axis: int = 0, kind: str = "int8"
) -> tuple[Array, Any, str]:
    """Return integers minus their zero point, their scales, and the name of the real numbers."""
    low, zero = (-127, 0) if kind == "int8" else (60, 120)
    w = net.random.integers(low, low + 120 if zero else 128, shape).astype(kind)
    size = shape[axis] if per_channel else ()
    scales = net.random.uniform(0.004, 0.02, size).astype(np.float32)
    zeros = np.full(scales.shape, zero, kind)
    names = [net.constant(one) for one in (w, scales, zeros)]
    net.node("DequantizeLinear", names, "w", **({"axis": axis} if per_channel else {}))
    return w.astype(np.int64) - zero, scales, "w"


def bias_of(net: Net, size: int, unit: Any) -> tuple[Array, str]:
    """Add an int32 bias in the unit of the sums, per channel if the unit is."""
    values = net.random.integers(-3000, 3000, size).astype(np.int32)
    unit = np.asarray(unit, np.float32)
    names = [net.constant(one) for one in (values, unit, np.zeros(unit.shape, np.int32))]
    net.node("DequantizeLinear", names, "b", **({"axis": 0} if unit.size > 1 else {}))
    return values, "b"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", ["int8", "int8 per channel", "uint8"])
@pytest.mark.parametrize("follower", ["", "Relu", "Clip"])
def test_convolutions(tmp_path: Path, kind: str, stored: str, follower: str) -> None:
    """D05-D08: bias, padding, and the activation in the bounds of the one requantisation."""
    net, x, taken = begin(kind)
    per_channel = stored.endswith("channel")
    w, scales, name = weights(net, (8, 4, 3, 3), per_channel, 0, stored.split()[0])
    unit = taken.scale * scales
    bias, bias_name = bias_of(net, 8, unit)
    made = how(kind, 0.061, -20)
    how_it_walks: dict[str, Any] = {"pads": (1, 0, 2, 1), "strides": (2, 1)}
    last = net.node("Conv", ["d", name, bias_name], "c", **how_it_walks)
    if follower == "Relu":
        last = net.node("Relu", [last], "f")
    elif follower == "Clip":
        ends = [net.constant(np.float32(end)) for end in (-1.5, 4.0)]
        last = net.node("Clip", [last, *ends], "f")
    pair(net, last, made, "y")
    sums = twin.conv(less(x, taken), w, bias, **how_it_walks)
    factor = (unit / made.scale).reshape(-1, *(1, 1) * per_channel)
    expected = twin.dequantised(twin.scaled(sums, factor, made), made)
    if follower:
        low, high = (0.0, np.inf) if follower == "Relu" else (-1.5, 4.0)
        ends = twin.dequantised(twin.quantised([low, min(high, 1e6)], made), made)
        expected = np.clip(expected, *ends)
    graph = check(net, x, expected, tmp_path)
    assert [type(node.operator) for node in graph.nodes] == [Conv, Requantise]


def test_leaky_convolutions(tmp_path: Path) -> None:
    """One rounding, by the sign of the sum: near float, where an intermediate map would round
    twice.
    """
    net, x, taken = begin()
    w, scales, name = weights(net, (8, 4, 3, 3), True)
    net.node("LeakyRelu", [net.node("Conv", ["d", name], "c")], "f", alpha=LEAK)
    made = how("uint8", 0.061, -40)
    pair(net, "f", made, "y")
    sums = twin.conv(less(x, taken), w)
    factor = (taken.scale * scales / made.scale).reshape(-1, 1, 1)
    below = twin.scaled(sums, factor * np.float32(LEAK), made)
    stored = np.where(sums < 0, below, twin.scaled(sums, factor, made))
    graph = check(net, x, twin.dequantised(stored, made), tmp_path)
    assert [type(node.operator) for node in graph.nodes] == [Conv, Requantise]


@pytest.mark.parametrize("kind", ["Gemm", "MatMul"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
def test_dense_layers(tmp_path: Path, kind: str, per_channel: bool) -> None:
    """After a flattened map; the bias of MatMul is added by another node."""
    net, x, taken = begin("uint8", (1, 3, 2, 4))
    net.node("Flatten", ["d"], "flat")
    flat = pair(net, "flat", taken, "e")
    shape, axis = ((5, 24), 0) if kind == "Gemm" else ((24, 5), 1)
    w, scales, name = weights(net, shape, per_channel, axis)
    bias, bias_name = bias_of(net, 5, taken.scale * scales)
    made = how("uint8", 0.07, 11)
    if kind == "Gemm":
        net.node("Gemm", [flat, name, bias_name], "f", transB=1)
    else:
        net.node("MatMul", [flat, name], "f")
        bias = np.zeros_like(bias)
    pair(net, "f", made, "y")
    sums = less(x, taken).reshape(1, -1) @ (w.T if kind == "Gemm" else w) + bias
    stored = twin.scaled(sums, (taken.scale * scales) / made.scale, made)
    check(net, x, twin.dequantised(stored, made), tmp_path)


@pytest.mark.parametrize("follower", ["", "Relu"])
def test_sums(tmp_path: Path, follower: str) -> None:
    net, x, taken = begin()
    other, made = how("uint8", 0.034, 21), how("uint8", 0.047, -4)
    pair(net, "x", other, "e")
    last = net.node("Add", ["d", "e"], "s")
    if follower:
        last = net.node(follower, [last], "f")
    pair(net, last, made, "y")
    low = made.zero if follower else None
    check(net, x, added(x, (taken, other), made, low), tmp_path)


@pytest.mark.parametrize("name", ["AveragePool", "GlobalAveragePool", "ReduceMean"])
def test_means(tmp_path: Path, name: str) -> None:
    net, x, taken = begin()
    made = how("uint8", 0.013, 5)
    part = name == "AveragePool"
    attributes: dict[str, Any] = {"kernel_shape": (3, 2), "strides": (2, 1)} if part else {}
    if name == "ReduceMean":
        net.opset, attributes = 17, {"axes": [2, 3], "keepdims": 1}
    net.node(name, ["d"], "p", **attributes)
    pair(net, "p", made, "y")
    expected = pooled(x, taken, made, (3, 2) if part else (6, 7), strides=(2, 1))
    assert expected.shape == ((1, 4, 2, 6) if part else (1, 4, 1, 1))
    check(net, x, expected, tmp_path)


@pytest.mark.parametrize("same", [True, False], ids=["same scale", "another scale"])
def test_largest_values(tmp_path: Path, same: bool) -> None:
    """Selected if the scales are equal, otherwise rescaled afterwards."""
    net, x, taken = begin()
    made = taken if same else how("uint8", 0.03, 4)
    net.node("MaxPool", ["d"], "p", kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    pair(net, "p", made, "y")
    largest = np.zeros((1, 4, 3, 4), np.int64)
    for place, values in twin.pooled(less(x, taken), (3, 3), (1, 1, 1, 1), (2, 2)):
        largest[0][place] = values.max()
    expected = twin.dequantised(twin.scaled(largest, taken.scale / made.scale, made), made)
    graph = check(net, x, expected, tmp_path)
    assert len(graph.nodes) == (1 if same else 2)


def test_joined_maps(tmp_path: Path) -> None:
    net, x, taken = begin()
    other = how("uint8", 0.034, 21)
    pair(net, "x", other, "e")
    net.node("Concat", ["d", "e"], "j", axis=1)
    pair(net, "j", taken, "y")
    moved = twin.scaled(less(x, other), other.scale / taken.scale, taken)
    stored = np.concatenate([twin.quantised(x, taken), moved], 1)
    graph = check(net, x, twin.dequantised(stored, taken), tmp_path)
    assert [node.kind for node in graph.nodes if node.kind != "quantise"] == [
        "requantise",
        "concat",
    ]


@pytest.mark.parametrize("kind", ["Relu", "Clip", "LeakyRelu"])
@pytest.mark.parametrize("same", [True, False], ids=["same scale", "another scale"])
def test_activations_alone(tmp_path: Path, kind: str, same: bool) -> None:
    """D08: with equal scales they clip stored integers."""
    net, x, taken = begin()
    made = taken if same else how("uint8", 0.03, -14)
    extra = {"alpha": LEAK} if kind == "LeakyRelu" else {}
    ends = [net.constant(np.float32(one)) for one in (0.0, 6.0)] if kind == "Clip" else []
    net.node(kind, ["d", *ends], "f", **extra)
    pair(net, "f", made, "y")
    data, ratio = less(x, taken), taken.scale / made.scale
    stored = twin.scaled(data, ratio, made)
    if kind == "LeakyRelu":
        stored = np.where(data < 0, twin.scaled(data, ratio * np.float32(LEAK), made), stored)
    else:
        high = int(twin.quantised(6.0, made)) if kind == "Clip" else made.ends[1]
        stored = np.clip(stored, made.zero, high)
    graph = check(net, x, twin.dequantised(stored, made), tmp_path)
    if same and kind != "LeakyRelu":
        assert [type(node.operator) for node in graph.nodes] == [Clamp]


@pytest.mark.parametrize("same", [True, False], ids=["same scale", "another scale"])
def test_parts_of_maps(tmp_path: Path, same: bool) -> None:
    """Slice by channel: selected on the host if scales are equal, otherwise rescaled on a core."""
    net, x, taken = begin()
    made = taken if same else how("uint8", 0.03, 4)
    ends = [net.constant(np.int64([one])) for one in (1, 3, 1)]
    net.node("Slice", ["d", *ends], "p")
    pair(net, "p", made, "y")
    data = less(x, taken)[:, 1:3]
    expected = twin.dequantised(twin.scaled(data, taken.scale / made.scale, made), made)
    rounded = ("QuantizeLinear", "DequantizeLinear")
    check(net, x, expected, tmp_path, (*rounded, "Slice", *rounded) if same else ())


def test_enlarged_maps(tmp_path: Path) -> None:
    net, x, taken = begin()
    scales = net.constant(np.float32([1, 1, 2, 2]))
    net.node("Resize", ["d", "", scales], "u", mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric")  # fmt: skip
    pair(net, "u", taken, "y")
    expected = twin.dequantised(twin.quantised(x, taken), taken).repeat(2, 2).repeat(2, 3)
    check(net, x, expected, tmp_path)


def test_transposed_kernels_and_views(tmp_path: Path) -> None:
    """Nodes that only change shape or order may stand between quantisation and dequantisation."""
    net, x, taken = begin("uint8", (1, 2, 3, 4))
    net.node("Transpose", ["d.stored"], "t", perm=(0, 2, 3, 1))
    net.node("Reshape", ["t", net.constant(np.int64([1, -1]))], "v")
    net.real("v", taken, "e")
    w, scales, name = weights(net, (24, 6), False)
    net.node("MatMul", ["e", name], "m")
    made = how("uint8", 0.05, 3)
    pair(net, "m", made, "y")
    data = less(x, taken).transpose(0, 2, 3, 1).reshape(1, -1)
    stored = twin.scaled(data @ w, (taken.scale * scales) / made.scale, made)
    check(net, x, twin.dequantised(stored, made), tmp_path)


def test_layers_without_scales_run_on_the_host(tmp_path: Path) -> None:
    """A model whose last layer is real: a host node, and the reason."""
    net, _, taken = begin("uint8", (1, 8))
    w = net.constant(net.random.normal(0, 1, (8, 3)).astype(np.float32))
    net.node("MatMul", ["d", w], "y")
    graph = open_model(net.save(tmp_path)).build(())
    assert [node.kind for node in graph.nodes] == ["host"] * 3  # which rounds the input first
    host = graph.nodes[-1].operator
    assert "scales are not given" in host.why  # type: ignore[attr-defined]
    assert graph.nodes[0].operator.given[2] == taken.zero - 128  # type: ignore[attr-defined]


# -- bad models ------------------------------------------------------------------------------------


def damaged(tmp_path: Path, **constants: Any) -> str:
    """Return the message for a convolution with some constants replaced."""
    net, _, taken = begin()
    values = {
        "w": np.ones((8, 4, 3, 3), np.int8), "s": np.full(8, 0.01, np.float32),
        "z": np.zeros(8, np.int8), "scale": taken.scale, "zero": np.uint8(taken.zero),
        "out": np.float32(0.05), "out_zero": np.uint8(3),
    } | constants  # fmt: skip
    net.constants |= {name: np.asarray(value) for name, value in values.items()}
    net.nodes[1].input[1:] = ["scale", "zero"]
    net.node("DequantizeLinear", ["w", "s", "z"], "k", axis=constants.get("axis", 0))
    net.constants.pop("axis", None)
    net.node("Conv", ["d", "k"], "c")
    net.node("QuantizeLinear", ["c", "out", "out_zero"], "r")
    net.node("DequantizeLinear", ["r", "out", "out_zero"], "y")
    with pytest.raises(MapperError, match="node 'n_") as told:
        open_model(net.save(tmp_path)).build(())
    return str(told.value)


@pytest.mark.parametrize(
    ("constants", "says"),
    [
        ({"out": np.float32(0)}, "its scale is 0"),
        ({"out": np.float32(-2)}, "its scale is -2"),
        ({"out": np.float32(np.nan)}, "its scale is nan"),
        ({"s": np.full(8, -0.01, np.float32)}, "its scale is -0.01"),
        ({"s": np.full(5, 0.01, np.float32), "z": np.zeros(5, np.int8)}, "has 5 scales"),
        ({"z": np.zeros(3, np.int8)}, "8 scales and 3 zero points"),
        ({"out_zero": np.int32(300)}, "its input 2 has type int32; accepted types"),
        ({"scale": np.float32(0.2)}, "reads 'd.stored' with scale 0.2"),
        ({"axis": 7}, "its axis is 7; the constant has 4 axes"),
        ({"out": np.full(8, 0.05, np.float32), "out_zero": np.zeros(8, np.uint8)}, "has 8 scales"),
    ],
)  # fmt: skip
def test_bad_models_name_the_node(tmp_path: Path, constants: dict[str, Any], says: str) -> None:
    assert says in damaged(tmp_path, **constants)


@pytest.mark.parametrize("kind", KINDS)
def test_functions_become_one_table(kind: str, tmp_path: Path) -> None:
    """x * sigmoid(x), each step stored as bytes, is one function of 256 integers."""
    net, x, taken = begin(kind)
    gate, made = how(kind, 1 / 256, -128), how(kind, 0.0173, -60)
    net.node("Sigmoid", ["d"], "s")
    pair(net, "s", gate, "g")
    net.node("Mul", ["d", "g"], "m")
    pair(net, "m", made, "y")
    real = 1 / (1 + np.exp(-twin.dequantised(twin.quantised(x, taken), taken).astype(np.float64)))
    stored = twin.quantised(real.astype(np.float32), gate).astype(np.int64) - gate.zero
    ratio = np.float64(np.float32(taken.scale) * np.float32(gate.scale)) / np.float64(made.scale)
    whole = np.rint(less(x, taken) * stored * ratio) + made.zero
    expected = twin.dequantised(np.clip(whole, *made.ends).astype(made.kind), made)
    graph = check(net, x, expected, tmp_path)
    optimise_integers(graph, Context())
    assert [node.kind for node in graph.nodes] == ["lookup"]
    np.testing.assert_array_equal(run_integers(graph, x)["y"], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_maps(kind: str, tmp_path: Path) -> None:
    """D10: both zero points are subtracted first, and the product is rounded once."""
    net, x, taken = begin(kind)
    other, made = how(kind, 0.0311, 17), how(kind, 0.0219, 5)
    pair(net, "x", other, "e")
    net.node("Mul", ["d", "e"], "m")
    pair(net, "m", made, "y")
    ratio = np.float64(np.float32(taken.scale) * np.float32(other.scale)) / np.float64(made.scale)
    whole = np.rint(less(x, taken) * less(x, other) * ratio) + made.zero
    expected = twin.dequantised(np.clip(whole, *made.ends).astype(made.kind), made)
    graph = check(net, x, expected, tmp_path)
    assert "product" in [node.kind for node in graph.nodes]
