"""C02, D01: models of integer operators (QLinearConv, QGemm, ...).

Every element equals numpy, and onnxruntime where it is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.node import Clamp, Conv, Requantise
from mapper.compiler.model import open_model
from mapper.errors import MapperError
from tests.compiler.quantised import KINDS, MAP, Net, added, check, how, less, pooled, run_integers
from tests.reference import quantised as twin
from tests.reference.quantised import Array, How
from tests.storage.formats.onnx_models import numpy_helper, onnx


def begin(kind: str, shape: tuple[int, ...] = MAP, zero: int = -9) -> tuple[Net, Array, How]:
    """Return a net whose input is quantised as q, and a sample of it."""
    net, taken = Net(shape), how(kind, 0.0213, zero)
    net.stored("x", taken, "q")
    return net, net.sample(), taken


def end(net: Net, made: How) -> None:
    net.real("r", made, "y")


def weights_of(net: Net, shape: tuple[int, ...], per_channel: bool, axis: int = 0) -> Any:
    """Return integers, their scales, and the names of both and of a zero point."""
    w = net.random.integers(-127, 128, shape).astype(np.int8)
    scales = net.random.uniform(0.004, 0.02, shape[axis] if per_channel else ()).astype(np.float32)
    names = [net.constant(w), net.constant(scales), net.constant(np.zeros(scales.shape, np.int8))]
    return w.astype(np.int64), scales, names


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"pads": (1, 0, 2, 1), "strides": (2, 1)},
    "dilated": {"dilations": (2, 1), "pads": (1, 1, 1, 1)},
    "grouped": {"group": 2},
    "depthwise": {"group": 4, "pads": (1, 1, 1, 1)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(tmp_path: Path, name: str, kind: str, per_channel: bool) -> None:
    """D05, D06, D07: padding holds the zero point of the input, and the bias all of its
    contribution.
    """
    net, x, taken = begin(kind)
    attributes = CONVOLUTIONS[name]
    shape = (8, 4 // attributes.get("group", 1), 3, 3)
    w, scales, names = weights_of(net, shape, per_channel)
    bias = net.random.integers(-3000, 3000, 8).astype(np.int32)
    made = how(kind, 0.061, 7)
    net.node("QLinearConv", ["q", *net.how(taken), *names, *net.how(made), net.constant(bias)],
             "r", kernel_shape=(3, 3), **attributes)  # fmt: skip
    end(net, made)
    sums = twin.conv(less(x, taken), w, bias, **attributes)
    factor = ((taken.scale * scales) / made.scale).reshape(-1, *(1, 1) * per_channel)
    expected = twin.dequantised(twin.scaled(sums, factor, made), made)
    graph = check(net, x, expected, tmp_path)
    assert [type(node.operator) for node in graph.nodes] == [Conv, Requantise]


@pytest.mark.parametrize("transposed", [0, 1])
def test_dense_layers(tmp_path: Path, transposed: int) -> None:
    """QGemm with weights of either order, after a flattened map."""
    net, x, taken = begin("uint8", (1, 3, 2, 4))
    net.node("Flatten", ["q"], "flat")
    shape = (5, 24) if transposed else (24, 5)
    w, scales, names = weights_of(net, shape, True, 1 - transposed)
    bias, made = net.random.integers(-900, 900, 5).astype(np.int32), how("uint8", 0.07, 11)
    net.node("QGemm", ["flat", *net.how(taken), *names, net.constant(bias), *net.how(made)], "r",
             transB=transposed, alpha=1.0)  # fmt: skip
    end(net, made)
    data = twin.quantised(x, taken).reshape(1, -1).astype(np.int64) - taken.zero
    sums = data @ (w.T if transposed else w) + bias
    stored = twin.scaled(sums, (taken.scale * scales) / made.scale, made)
    check(net, x, twin.dequantised(stored, made), tmp_path)


def test_products_with_matrices(tmp_path: Path) -> None:
    """QLinearMatMul with unsigned weights: their zero point is subtracted."""
    net, x, taken = begin("uint8", (1, 20))
    w = net.random.integers(20, 140, (20, 6)).astype(np.uint8)
    scale, made = np.float32(0.011), how("uint8", 0.05, 3)
    names = [net.constant(w), net.constant(scale), net.constant(np.uint8(77))]
    net.node("QLinearMatMul", ["q", *net.how(taken), *names, *net.how(made)], "r")
    end(net, made)
    sums = (less(x, taken)) @ (w.astype(np.int64) - 77)
    stored = twin.scaled(sums, (taken.scale * scale) / made.scale, made)
    check(net, x, twin.dequantised(stored, made), tmp_path)


def test_weights_beyond_eight_bits_stay_on_the_host(tmp_path: Path) -> None:
    """w - z_w of uint8 exceeds int8: the host computes it, with a reason."""
    net, x, taken = begin("uint8", (1, 20))
    w = net.random.integers(0, 256, (20, 6)).astype(np.uint8)
    w[0, 0] = 255
    scale, made = np.float32(0.011), how("uint8", 0.2, 3)
    names = [net.constant(w), net.constant(scale), net.constant(np.uint8(77))]
    net.node("QLinearMatMul", ["q", *net.how(taken), *names, *net.how(made)], "r")
    end(net, made)
    data = twin.dequantised(twin.quantised(x, taken), taken)
    real = data @ ((w.astype(np.int64) - 77).astype(np.float32) * scale)
    expected = twin.dequantised(twin.quantised(real, made), made)
    rounded = ("QuantizeLinear", "DequantizeLinear")
    graph = check(net, x, expected, tmp_path, (*rounded, "MatMul", *rounded))
    assert "minus their zero point exceed 8 bits" in graph.nodes[2].operator.why  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_sums(tmp_path: Path, kind: str) -> None:
    """Two maps with different scales."""
    net, x, taken = begin(kind)
    other, made = how(kind, 0.034, 21), how(kind, 0.047, -4)
    net.stored("x", other, "p")
    net.node("QLinearAdd", ["q", *net.how(taken), "p", *net.how(other), *net.how(made)], "r")
    end(net, made)
    check(net, x, added(x, (taken, other), made), tmp_path)


@pytest.mark.parametrize("counts", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_means(tmp_path: Path, kind: str, counts: int) -> None:
    """With padding that counts as zeros, and without."""
    net, x, taken = begin(kind)
    made = how(kind, 0.017, 5)
    attributes = {"kernel_shape": (3, 2), "pads": (1, 1, 1, 0), "strides": (2, 1)}
    net.node("QLinearAveragePool", ["q", *net.how(taken), *net.how(made)], "r",
             count_include_pad=counts, **attributes)  # fmt: skip
    end(net, made)
    expected = pooled(x, taken, made, (3, 2), (1, 1, 1, 0), (2, 1), 6 * counts)
    assert expected.shape == (1, 4, 3, 7)
    check(net, x, expected, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_means_of_whole_maps(tmp_path: Path, kind: str) -> None:
    net, x, taken = begin(kind)
    made = how(kind, 0.009, 5)
    net.node("QLinearGlobalAveragePool", ["q", *net.how(taken), *net.how(made)], "r",
             channels_last=0)  # fmt: skip
    end(net, made)
    check(net, x, pooled(x, taken, made, (6, 7)), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_largest_values(tmp_path: Path, kind: str) -> None:
    """MaxPool of integers pads with the minimum."""
    net, x, taken = begin(kind)
    net.node("MaxPool", ["q"], "r", kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2))
    end(net, taken)
    expected = np.zeros((1, 4, 3, 4), np.float32)
    data = twin.quantised(x, taken)
    for place, part in twin.pooled(data, (3, 3), (1, 1, 1, 1), (2, 2)):
        expected[0][place] = (part.max() - taken.zero) * taken.scale
    check(net, x, expected, tmp_path)


def test_joined_maps(tmp_path: Path) -> None:
    """Parts of another scale are rescaled once; parts of the same scale are unchanged."""
    net, x, taken = begin("uint8")
    other, made = how("uint8", 0.034, 21), taken
    net.stored("x", other, "p")
    net.node("QLinearConcat", [*net.how(made), "q", *net.how(taken), "p", *net.how(other)], "r",
             axis=1)  # fmt: skip
    end(net, made)
    moved = twin.scaled(less(x, other), other.scale / made.scale, made)
    stored = np.concatenate([twin.quantised(x, taken), moved], 1)
    graph = check(net, x, twin.dequantised(stored, made), tmp_path)
    assert sum(isinstance(node.operator, Requantise) for node in graph.nodes) == 1


def leaky(data: Array, taken: How, slope: float, made: How) -> Array:
    """Return leaky stored integers minus their zero point, by the sign before the one rounding."""
    factor = taken.scale / made.scale
    below = twin.scaled(data, factor * np.float32(slope), made)
    return np.where(data < 0, below, twin.scaled(data, factor, made))


def test_leaky_activations(tmp_path: Path) -> None:
    net, x, taken = begin("uint8")
    made = how("uint8", 0.019, -30)
    net.node("QLinearLeakyRelu", ["q", *net.how(taken), *net.how(made)], "r", alpha=0.1)
    end(net, made)
    check(net, x, twin.dequantised(leaky(less(x, taken), taken, 0.1, made), made), tmp_path)


@pytest.mark.parametrize("name", ["Sigmoid", "Softmax"])
def test_functions(tmp_path: Path, name: str) -> None:
    """Dequantised, computed and rounded as in the model: by a table, or on the host."""
    net, x, taken = begin("uint8", (1, 10))
    made = How(np.float32(1 / 256), 0, "uint8")
    attributes = {} if name == "Sigmoid" else {"axis": 1, "opset": 13}
    net.node(f"QLinear{name}", ["q", *net.how(taken), *net.how(made)], "r", **attributes)
    end(net, made)
    real = twin.dequantised(twin.quantised(x, taken), taken).astype(np.float64)
    powers = np.exp(-real) if name == "Sigmoid" else np.exp(real)
    values = 1 / (1 + powers) if name == "Sigmoid" else powers / powers.sum()
    expected = twin.dequantised(twin.quantised(values, made), made)
    graph = open_model(net.save(tmp_path)).build(())
    kinds = [node.kind for node in graph.nodes]
    assert kinds == ["lookup"] if name == "Sigmoid" else ["host"] * 5
    np.testing.assert_array_equal(run_integers(graph, x)["y"], expected)


@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
def test_whole_sums(tmp_path: Path, kind: str) -> None:
    """int32 sums of integers, scaled by the model on the host."""
    conv = kind == "ConvInteger"
    net, x, taken = begin("uint8", MAP if conv else (1, 12))
    w = net.random.integers(-9, 10, (3, 4, 3, 3) if conv else (12, 5)).astype(np.int8)
    zero = net.constant(np.uint8(taken.zero))
    net.node(kind, ["q", net.constant(w), zero], "sums")
    net.node("Cast", ["sums"], "real", to=1)
    net.node("Mul", ["real", net.constant(np.float32(0.0031))], "y")
    sums = twin.conv(less(x, taken), w.astype(np.int64)) if conv else less(x, taken) @ w
    expected = sums.astype(np.float32) * np.float32(0.0031)
    path = net.save(tmp_path)
    graph = open_model(path).build(())
    np.testing.assert_allclose(run_integers(graph, x)["y"], expected, rtol=1e-6)
    assert any(isinstance(node.operator, Conv) or node.kind == "dense" for node in graph.nodes)


def test_clip_of_integers_without_effect_is_removed(tmp_path: Path) -> None:
    """D08: with the zero point at the lowest level, quantisation is already a ReLU."""
    net, x, taken = begin("uint8")
    made = How(np.float32(0.05), 0, "uint8")
    w, scales, names = weights_of(net, (8, 4, 1, 1), False)
    net.node("QLinearConv", ["q", *net.how(taken), *names, *net.how(made)], "r")
    end(net, made)
    sums = twin.conv(less(x, taken), w)
    stored = twin.scaled(sums, (taken.scale * scales) / made.scale, made)
    graph = check(net, x, twin.dequantised(stored, made), tmp_path)
    assert not any(isinstance(node.operator, Clamp) for node in graph.nodes)
    assert (stored == 0).any()


# -- bad models ------------------------------------------------------------------------------------


def good() -> Net:
    net, _, _ = begin("uint8")
    _, _, names = weights_of(net, (8, 4, 3, 3), True)
    net.constants["scale"] = np.float32(0.0213)
    net.constants["zero"] = np.uint8(119)
    made = how("uint8", 0.06)
    net.node("QLinearConv", ["q", "scale", "zero", *names, *net.how(made)], "r")
    end(net, made)
    net.constants |= {"w": net.constants[names[0]], "w_scale": net.constants[names[1]],
                      "w_zero": net.constants[names[2]]}  # fmt: skip
    net.nodes[1].input[3:6] = ["w", "w_scale", "w_zero"]
    return net


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "scale of zero": ({"scale": np.float32(0)}, "its scale is 0; scales are larger than 0"),
    "negative scale": ({"scale": np.float32(-0.5)}, "its scale is -0.5; scales are larger than 0"),
    "endless scale": ({"scale": np.float32(np.inf)}, "its scale is inf"),
    "scale that is no number": ({"w_scale": np.full(8, np.nan, np.float32)}, "its scale is nan"),
    "scales of another length": (
        {"w_scale": np.ones(5, np.float32)}, "has 5 scales; give one, or 8, one per channel"
    ),
    "zero points of another length": (
        {"w_zero": np.zeros(3, np.int8)}, "has 8 scales and 3 zero points"
    ),
    "zero point of another type": ({"zero": np.int32(7)}, "its input 2 has type int32; accepted"),
    "scale of another map": ({"scale": np.float32(0.5)}, "reads 'q' with scale 0.5"),
    "zero point of another map": ({"zero": np.uint8(3)}, "zero point -125; it was stored with"),
    "channels": ({"w": np.zeros((8, 3, 3, 3), np.int8)}, "has 4 channels, its kernels take 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_models_name_the_node(tmp_path: Path, name: str) -> None:
    net = good()
    damage, says = BAD[name]
    net.constants |= damage
    path = net.save(tmp_path)
    with pytest.raises(MapperError, match="node 'n_r'") as told:
        open_model(path).build(())
    assert says in str(told.value)


def test_the_good_model_is_good(tmp_path: Path) -> None:
    open_model(good().save(tmp_path)).build(())


def test_scales_beyond_the_range_of_shifts(tmp_path: Path) -> None:
    net = good()
    net.constants["w_scale"] = np.full(8, 1e-30, np.float32)
    notes = open_model(net.save(tmp_path)).build(()).notes
    assert notes == ["layer 'n_r': its scale 1e-30 makes it constant"]


def test_sums_that_exceed_an_accumulator(tmp_path: Path) -> None:
    """The error names bound, layer, channel and size."""
    net = good()
    bias = np.zeros(8, np.int32)
    bias[5] = (1 << 31) - 1000
    net.nodes[1].input.append(net.constant(bias))
    with pytest.raises(MapperError, match=r"'n_r'.*channel 5.*an accumulator"):
        open_model(net.save(tmp_path)).build(())


def test_constants_may_be_nodes(tmp_path: Path) -> None:
    """Scales from Constant nodes work like initialisers."""
    net = good()
    value = numpy_helper.from_array(net.constants.pop("scale"))
    net.nodes.insert(0, onnx.helper.make_node("Constant", [], ["scale"], "made", value=value))
    assert open_model(net.save(tmp_path)).quantised
