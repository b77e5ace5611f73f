"""Each operator of floating-point models against the reference implementation of ONNX."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.ir.node import Host
from tests.compiler.models import agree, check, computed, read
from tests.storage.formats.onnx_models import model, node, onnx

RANDOM = np.random.default_rng(5)
NEWEST = min(onnx.defs.onnx_opset_version(), 23)
MAP = {"x": (1, 6, 9, 8)}


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def conv(
    folder: Path, x: tuple[int, ...] = (1, 6, 9, 8), kernels: tuple[int, ...] = (4, 6, 3, 3),
    bias: bool = True, **attributes: Any,
) -> None:  # fmt: skip
    constants = {"w": normal(*kernels)} | ({"b": normal(kernels[0])} if bias else {})
    nodes = [node("Conv", "x w b" if bias else "x w", **attributes)]
    check(model(nodes, constants, {"x": x}), folder)


# -- convolution -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"pads": [0, 2, 1, 0]},
        {"strides": [2, 3], "pads": [1, 0, 2, 1]},
        {"dilations": [2, 1], "pads": [2, 1, 0, 1]},
        {"dilations": [2, 3], "strides": [2, 1], "kernel_shape": [3, 3]},
    ],
)
def test_convolutions(tmp_path: Path, attributes: dict[str, Any]) -> None:
    conv(tmp_path, **attributes)
    conv(tmp_path, bias=False, **attributes)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [3, 2]])
@pytest.mark.parametrize("size", [(2, 3), (4, 2), (1, 1)])
def test_a02_auto_pad(tmp_path: Path, auto: str, strides: list[int], size: tuple[int, int]) -> None:
    conv(tmp_path, kernels=(4, 6, *size), auto_pad=auto, strides=strides)


def test_auto_pad_with_dilations(tmp_path: Path) -> None:
    """Expected by hand: the reference implementation ignores dilation when it pads."""
    constants = {"w": normal(4, 6, 3, 3)}
    same = model(
        [node("Conv", "x w", auto_pad="SAME_UPPER", dilations=[2, 2], kernel_shape=[3, 3])],
        constants, MAP,
    )  # fmt: skip
    plain = model([node("Conv", "x w", pads=[2, 2, 2, 2], dilations=[2, 2])], constants, MAP)
    agree(read(same, tmp_path), plain)


@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize("per_group", [1, 3])
def test_grouped_and_depthwise_convolutions(tmp_path: Path, groups: int, per_group: int) -> None:
    conv(tmp_path, kernels=(groups * per_group, 6 // groups, 3, 2), group=groups)


@pytest.mark.parametrize(
    "attributes", [{}, {"pads": [1, 2]}, {"strides": [2], "dilations": [3], "pads": [4, 0]}]
)
def test_convolutions_of_one_dimension(tmp_path: Path, attributes: dict[str, Any]) -> None:
    conv(tmp_path, (1, 6, 21), (4, 6, 3), **attributes)
    conv(tmp_path, (1, 6, 21), (6, 1, 5), bias=False, group=6, **attributes)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad_of_one_dimension(tmp_path: Path, auto: str) -> None:
    conv(tmp_path, (1, 6, 21), (4, 6, 4), auto_pad=auto, strides=[3])


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, NEWEST])
def test_a02_opsets(tmp_path: Path, opset: int) -> None:
    """A small network per opset: its operators changed their attributes and inputs."""
    bounds = "c lo hi" if opset >= 11 else "c"
    clip = {} if opset >= 11 else {"min": -1.0, "max": 2.0}
    shape = "a axes" if opset >= 13 else "a"
    squeeze = {} if opset >= 13 else {"axes": [2, 3]}
    constants = {
        "w": normal(4, 6, 3, 3), "b": normal(4), "lo": np.float32(-1), "hi": np.float32(2),
        "axes": np.array([2, 3]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w b", "c"),
        node("Clip", bounds, "d", **clip),
        node("MaxPool", "d", "p", kernel_shape=[2, 2]),
        node("GlobalAveragePool", "p", "a"),
        node("Squeeze", shape, "y", **squeeze),
    ]
    check(
        model(nodes, {k: np.asarray(v) for k, v in constants.items()}, MAP, opset=opset), tmp_path
    )


def test_a02_initialisers_as_inputs_and_an_open_batch_axis(tmp_path: Path) -> None:
    """IR 3 lists every initialiser among the inputs."""
    made = model(
        [node("Conv", "x w")], {"w": normal(4, 6, 3, 3)}, {"x": ("N", 6, 9, 8), "w": (4, 6, 3, 3)},
        opset=7,
    )  # fmt: skip
    made.ir_version = 3
    graph = read(made, tmp_path)
    assert list(graph.inputs) == ["x"]
    agree(graph, made)


def test_a08_constants_by_nodes_and_weights_that_are_computed(tmp_path: Path) -> None:
    """A transposed and scaled constant is also constant."""
    constant = onnx.numpy_helper.from_array(normal(6, 4, 3, 3))
    nodes = [
        node("Constant", "", "c", value=constant),
        node("Transpose", "c", "t", perm=[1, 0, 2, 3]),
        node("Mul", "t f", "w"),
        node("Conv", "x w"),
    ]
    check(model(nodes, {"f": np.float32(0.5).reshape(())}, MAP), tmp_path)


# -- dense layers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (5,), (1, 5), (1,)])
def test_a03_gemm(tmp_path: Path, transposed: int, bias: tuple[int, ...] | None) -> None:
    constants = {"w": normal(*((5, 24) if transposed else (24, 5)))}
    if bias is not None:
        constants["b"] = normal(*bias)
    for factors in ({}, {"alpha": 0.5, "beta": 2.0}):
        gemm = node("Gemm", "x w b" if bias else "x w", transB=transposed, **factors)
        check(model([gemm], constants, {"x": (1, 24)}), tmp_path)


@pytest.mark.parametrize("bias", [(5,), (1, 5), ()])
def test_a03_matmul_followed_by_a_bias(tmp_path: Path, bias: tuple[int, ...]) -> None:
    nodes = [node("MatMul", "x w", "m"), node("Add", "m b")]
    check(model(nodes, {"w": normal(24, 5), "b": normal(*bias)}, {"x": (1, 24)}), tmp_path)


@pytest.mark.parametrize(
    "move",
    [
        [node("Flatten", "c", "f")],
        [node("Reshape", "c s", "f")],
        [node("Reshape", "c t", "f")],
        [node("Transpose", "c", "l", perm=[0, 2, 3, 1]), node("Flatten", "l", "f")],
        [node("Transpose", "c", "l", perm=[0, 3, 1, 2]), node("Reshape", "l s", "f")],
        [node("Reshape", "c u", "l"), node("Flatten", "l", "f")],
        [node("Unsqueeze", "c one", "l"), node("Flatten", "l", "f")],
    ],
)
def test_a05_element_order_of_a_dense_layer(tmp_path: Path, move: list[Any]) -> None:
    constants = {
        "w": normal(4, 6, 3, 3), "d": normal(4 * 7 * 6, 5), "s": np.array([1, -1]),
        "t": np.array([1, 168]), "u": np.array([1, 4, 42]), "one": np.array([1]),
    }  # fmt: skip
    nodes = [node("Conv", "x w", "c"), *move, node("Gemm", "f d")]
    graph = check(model(nodes, constants, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "dense"]


def test_a05_consecutive_layers_need_no_reshape(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", "x w", "a"), node("Relu", "a", "r"), node("Dropout", "r", "q"),
        node("Identity", "q", "i"), node("Gemm", "i v"),
    ]  # fmt: skip
    check(model(nodes, {"w": normal(24, 7), "v": normal(7, 3)}, {"x": (1, 24)}), tmp_path)


def test_vector_reshaped_to_a_map(tmp_path: Path) -> None:
    """A vector, reshaped to a map of one pixel, passes through a 1x1 convolution."""
    nodes = [node("Reshape", "x s", "m"), node("Conv", "m w", "c"), node("Flatten", "c", "y")]
    constants = {"s": np.array([1, 24, 1, 1]), "w": normal(5, 24, 1, 1)}
    check(model(nodes, constants, {"x": (1, 24)}), tmp_path)


# -- element by element ----------------------------------------------------------------------------

CHANNELS = [(6, 1, 1), (1, 6, 1, 1), (), (1,), (1, 1, 1)]


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("shape", CHANNELS)
@pytest.mark.parametrize("turned", [False, True])
def test_arithmetic_with_constants(
    tmp_path: Path, kind: str, shape: tuple[int, ...], turned: bool
) -> None:
    made = model([node(kind, "c x" if turned else "x c")], {"c": normal(*shape)}, MAP)
    if kind == "Div" and turned:
        (host,) = read(made, tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == "it divides by a map, or by zero"
    else:
        check(made, tmp_path)


def test_constants_that_differ_within_a_channel_stay_on_the_host(tmp_path: Path) -> None:
    for shape in [(9, 8), (6, 9, 1), (8,), (6, 9, 8)]:
        (host,) = read(model([node("Mul", "x c")], {"c": normal(*shape)}, MAP), tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == "its constant varies within a channel"


def test_sums_of_maps(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "a"), node("Conv", "x v", "b"), node("Add", "a b")]
    constants = {"w": normal(4, 6, 3, 3), "v": normal(4, 6, 3, 3)}
    check(model(nodes, constants, MAP), tmp_path)
    twice = [node("Conv", "x w", "a"), node("Add", "a a")]
    check(model(twice, {"w": normal(4, 6, 3, 3)}, MAP), tmp_path)


def test_differences_of_maps(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "a"), node("Conv", "x v", "b"), node("Sub", "a b")]
    constants = {"w": normal(4, 6, 3, 3), "v": normal(4, 6, 3, 3)}
    graph = check(model(nodes, constants, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "conv", "affine", "add"]


@pytest.mark.parametrize(
    "one",
    [
        node("Relu", "x"), node("LeakyRelu", "x"), node("LeakyRelu", "x", alpha=0.3),
        node("PRelu", "x slopes"), node("PRelu", "x slope"), node("Clip", "x low high"),
        node("Clip", "x low"), node("Clip", "x - high"), node("Clip", "x"),
    ],
)  # fmt: skip
def test_activations(tmp_path: Path, one: Any) -> None:
    constants = {
        "slopes": normal(6, 1, 1), "slope": normal(1), "low": np.float32(-0.5).reshape(()),
        "high": np.float32(0.75).reshape(()),
    }  # fmt: skip
    check(model([one], constants, MAP), tmp_path)


def test_clip_by_attributes(tmp_path: Path) -> None:
    for bounds in ({"min": 0.0, "max": 6.0}, {"min": -1.0}, {"max": 0.5}, {}):
        check(model([node("Clip", "x", **bounds)], {}, MAP, opset=6 + 1), tmp_path)


@pytest.mark.parametrize("opset", [7, 9, 15])
def test_batch_normalisation(tmp_path: Path, opset: int) -> None:
    gamma = normal(6)
    gamma[:2] = 0, -1.5
    constants = {"g": gamma, "b": normal(6), "m": normal(6), "v": np.abs(normal(6))}
    made = node("BatchNormalization", "x g b m v", epsilon=0.01)
    graph = read(model([made], constants, MAP, opset=opset), tmp_path)
    # the reference implementation of opsets before 14 computes the mean of its input
    agree(graph, model([made], constants, MAP, opset=15))


def test_image_scaler(tmp_path: Path) -> None:
    """For models before opset 10; no reference implementation has it."""
    made = model(
        [node("ImageScaler", "x", scale=0.5, bias=[1.0, 2.0, -3.0])], {}, {"x": (1, 3, 4, 5)},
        opset=7,
    )  # fmt: skip
    graph = read(made, tmp_path)
    factor = np.full((3, 1, 1), 0.5, np.float32)
    offset = np.array([1, 2, -3], np.float32).reshape(3, 1, 1)
    plain = model(
        [node("Mul", "x f", "m"), node("Add", "m o")], {"f": factor, "o": offset},
        {"x": (1, 3, 4, 5)},
    )  # fmt: skip
    agree(graph, plain)


# -- pooling ---------------------------------------------------------------------------------------


def pooled(x: np.ndarray, kind: str, size: tuple[int, int], **how: Any) -> np.ndarray:
    """Pool one frame by the definition of the standard, window by window."""
    (sh, sw), (t, left, b, r) = how.get("strides", (1, 1)), how.get("pads", (0, 0, 0, 0))
    dh, dw = how.get("dilations", (1, 1))
    reach = [(size[0] - 1) * dh + 1, (size[1] - 1) * dw + 1]
    ceil = how.get("ceil_mode", 0)
    height, width = x.shape[2:]
    rows, columns = (
        (n + before + after - k + (s - 1 if ceil else 0)) // s + 1
        for n, before, after, k, s in (
            (height, t, b, reach[0], sh), (width, left, r, reach[1], sw)
        )
    )  # fmt: skip
    if ceil:  # a window begins inside the map or its leading padding
        rows -= (rows - 1) * sh >= height + t
        columns -= (columns - 1) * sw >= width + left
    made = np.empty((1, x.shape[1], rows, columns), np.float32)
    for i, j in product(range(rows), range(columns)):
        ys = [i * sh - t + k * dh for k in range(size[0])]
        xs = [j * sw - left + k * dw for k in range(size[1])]
        inside = x[0][:, [y for y in ys if 0 <= y < height]][
            :, :, [v for v in xs if 0 <= v < width]
        ]
        if kind == "MaxPool":
            made[0, :, i, j] = inside.max((1, 2))
        elif how.get("count_include_pad"):
            counted = sum(y < height + b for y in ys) * sum(v < width + r for v in xs)
            made[0, :, i, j] = inside.sum((1, 2)) / counted
        else:
            made[0, :, i, j] = inside.mean((1, 2))
    return made


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize(
    ("size", "how"),
    [
        ((2, 2), {}),
        ((2, 2), {"strides": (2, 2)}),
        ((3, 3), {"strides": (2, 2)}),
        ((3, 2), {"strides": (3, 2), "pads": (1, 0, 1, 1)}),
        ((3, 3), {"strides": (2, 3), "pads": (0, 1, 2, 0)}),
        ((2, 3), {"strides": (4, 5)}),
        ((1, 1), {"strides": (2, 2)}),
    ],
)
def test_pooling(
    tmp_path: Path, kind: str, ceil: int, size: tuple[int, int], how: dict[str, Any]
) -> None:
    counts = (0, 1) if kind == "AveragePool" else (0,)
    for count in counts:
        attributes = {name: list(value) for name, value in how.items()}
        extra = {"count_include_pad": count} if kind == "AveragePool" else {}
        made = model(
            [node(kind, "x", kernel_shape=list(size), ceil_mode=ceil, **attributes, **extra)],
            {}, MAP, opset=19,
        )  # fmt: skip
        x = normal(1, 6, 9, 8)
        wanted = pooled(x, kind, size, ceil_mode=ceil, count_include_pad=count, **how)
        graph = read(made, tmp_path)
        if isinstance(graph.nodes[0].operator, Host):
            why = graph.nodes[0].operator.why
            # windows past the padding, which no divisor counts
            assert (kind, ceil, count) == ("AveragePool", 1, 1)
            assert "past the padding" in why
            continue
        found = computed(graph, {"x": x})["y"]
        assert found.shape == wanted.shape
        assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_pooling_with_dilations(tmp_path: Path) -> None:
    made = model([node("MaxPool", "x", kernel_shape=[2, 3], dilations=[3, 2])], {}, MAP)
    x = normal(1, 6, 9, 8)
    found = computed(read(made, tmp_path), {"x": x})["y"]
    assert np.array_equal(found, pooled(x, "MaxPool", (2, 3), dilations=(3, 2)))


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("auto", "pads"),
    [("SAME_UPPER", (1, 0, 1, 1)), ("SAME_LOWER", (1, 1, 1, 0)), ("VALID", (0, 0, 0, 0))],
)
def test_pooling_with_auto_pad(tmp_path: Path, kind: str, auto: str, pads: tuple[int, ...]) -> None:
    """Expected by hand: the reference implementation omits the last row of SAME_LOWER."""
    one = node(kind, "x", kernel_shape=[3, 3], strides=[2, 2], auto_pad=auto)
    x = normal(1, 6, 9, 8)
    found = computed(read(model([one], {}, MAP), tmp_path), {"x": x})["y"]
    wanted = pooled(x, kind, (3, 3), strides=(2, 2), pads=pads)
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(6, 9, 8), (6, 9)])
def test_pooling_of_whole_maps(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    x = normal(2, *shape)
    graph = read(model([node(kind, "x")], {}, {"x": (1, *shape)}), tmp_path)
    axes = tuple(range(2, x.ndim))
    wanted = x.max(axes, keepdims=True) if "Max" in kind else x.mean(axes, keepdims=True)
    assert np.allclose(computed(graph, {"x": x})["y"], wanted, atol=1e-6)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("last", [False, True])
def test_means_over_rows_and_columns(tmp_path: Path, opset: int, keep: int, last: bool) -> None:
    """Also of a channels-last map, before a dense layer."""
    axes = [1, 2] if last else [2, -1]
    before = [node("Relu", "x", "r"), node("Transpose", "r", "t", perm=[0, 2, 3, 1])]
    taken = "t" if last else "r"
    constants: dict[str, Any] = {"w": normal(6, 4), "shape": np.array([1, 6])}
    if opset < 18:
        mean = node("ReduceMean", taken, "m", axes=axes, keepdims=keep)
    else:
        constants["axes"] = np.array(axes)
        mean = node("ReduceMean", f"{taken} axes", "m", keepdims=keep)
    nodes = [*before[: 1 + last], mean, node("Reshape", "m shape", "f"), node("MatMul", "f w")]
    graph = check(model(nodes, constants, MAP, opset=opset), tmp_path)
    assert [one.kind for one in graph.nodes] == ["activation", "pool", "dense"]


def test_means_over_other_axes_go_to_the_host(tmp_path: Path) -> None:
    (host,) = read(model([node("ReduceMean", "x", axes=[1])], {}, MAP, opset=13), tmp_path).nodes
    assert isinstance(host.operator, Host)
    assert host.operator.why == "it is not a mean over rows and columns of a map"


def test_pooling_of_one_dimension(tmp_path: Path) -> None:
    for kind in ("MaxPool", "AveragePool"):
        counted = {"count_include_pad": 1} if kind == "AveragePool" else {}
        one = node(kind, "x", kernel_shape=[3], strides=[2], pads=[1, 0], **counted)
        check(model([one], {}, {"x": (1, 6, 21)}), tmp_path)
