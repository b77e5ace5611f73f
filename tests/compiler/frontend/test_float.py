"""Each operator of models in floating point against the reference implementation of ONNX."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.graph.node import Dense, Host
from mapper.errors import MapperError
from tests.compiler.models import agree, check, computed, expected, read, values_of
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
    """By hand: the reference implementation pads for kernels without dilation."""
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
    """A small network in each: its operators changed their attributes and inputs."""
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


def test_a02_initialisers_that_are_inputs_too_and_an_open_batch_axis(tmp_path: Path) -> None:
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
    """A transposed and scaled constant is one, too."""
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
def test_a03_matmul_and_a_bias_behind_it(tmp_path: Path, bias: tuple[int, ...]) -> None:
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
def test_a05_what_a_dense_layer_sees_of_a_map(tmp_path: Path, move: list[Any]) -> None:
    constants = {
        "w": normal(4, 6, 3, 3), "d": normal(4 * 7 * 6, 5), "s": np.array([1, -1]),
        "t": np.array([1, 168]), "u": np.array([1, 4, 42]), "one": np.array([1]),
    }  # fmt: skip
    nodes = [node("Conv", "x w", "c"), *move, node("Gemm", "f d")]
    graph = check(model(nodes, constants, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "dense"]


def test_a05_layers_behind_each_other_need_no_reshape(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", "x w", "a"), node("Relu", "a", "r"), node("Dropout", "r", "q"),
        node("Identity", "q", "i"), node("Gemm", "i v"),
    ]  # fmt: skip
    check(model(nodes, {"w": normal(24, 7), "v": normal(7, 3)}, {"x": (1, 24)}), tmp_path)


def test_a_map_that_becomes_one_again(tmp_path: Path) -> None:
    """A vector, reshaped to a map of one pixel, goes through a 1x1 convolution."""
    nodes = [node("Reshape", "x s", "m"), node("Conv", "m w", "c"), node("Flatten", "c", "y")]
    constants = {"s": np.array([1, 24, 1, 1]), "w": normal(5, 24, 1, 1)}
    check(model(nodes, constants, {"x": (1, 24)}), tmp_path)


# -- channels last ---------------------------------------------------------------------------------


def test_a05_channels_last_exports_lose_their_transposes(tmp_path: Path) -> None:
    """Transposes around each layer, as converters of TensorFlow models write them."""
    to, back = {"perm": [0, 3, 1, 2]}, {"perm": [0, 2, 3, 1]}
    nodes = [
        node("Transpose", "x", "a", **to), node("Conv", "a w b", "c"),
        node("Transpose", "c", "d", **back), node("Relu", "d", "e"),
        node("Add", "e bias", "f"), node("Transpose", "f", "g", **to),
        node("MaxPool", "g", "h", kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", "h", "i", **back), node("Reshape", "i s", "j"), node("MatMul", "j d2"),
    ]  # fmt: skip
    constants = {
        "w": normal(4, 6, 3, 3), "b": normal(4), "bias": normal(4), "s": np.array([-1, 36]),
        "d2": normal(36, 5),
    }  # fmt: skip
    graph = check(model(nodes, constants, {"x": (1, 9, 8, 6)}), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "activation", "affine", "pool", "dense"]
    assert next(iter(graph.inputs.values())).tensor.shape == (1, 9, 8, 6)


def test_outputs_that_are_channels_last(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("Transpose", "c", perm=[0, 2, 3, 1])]
    check(model(nodes, {"w": normal(4, 6, 3, 3)}, MAP), tmp_path)


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
        assert host.operator.why == "its constant differs within a channel"


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
    """Of models from before opset 10; no reference implementation knows it."""
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
    """Pooling of one frame by the words of its standard, a window at a time."""
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
    if ceil:  # a window begins inside the map or the padding before it
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
            assert kind == "AveragePool"
            if count:  # windows beyond the padding, which no divisor counts
                assert ceil
                assert "behind the padding" in why
            else:
                assert "means at the borders are over fewer pixels" in why
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
    """By hand: the reference implementation forgets the last row of SAME_LOWER."""
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
    """Also of a map that is channels last, before a dense layer."""
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


def test_means_over_other_axes_are_of_the_host(tmp_path: Path) -> None:
    (host,) = read(model([node("ReduceMean", "x", axes=[1])], {}, MAP, opset=13), tmp_path).nodes
    assert isinstance(host.operator, Host)
    assert host.operator.why == "it is no mean over rows and columns of a map"


def test_pooling_of_one_dimension(tmp_path: Path) -> None:
    for kind in ("MaxPool", "AveragePool"):
        counted = {"count_include_pad": 1} if kind == "AveragePool" else {}
        one = node(kind, "x", kernel_shape=[3], strides=[2], pads=[1, 0], **counted)
        check(model([one], {}, {"x": (1, 6, 21)}), tmp_path)


# -- maps beside each other, around, larger --------------------------------------------------------


@pytest.mark.parametrize("axis", [1, 2, 3, -3, -1])
def test_concatenation(tmp_path: Path, axis: int) -> None:
    sizes = {1: (2, 6, 9, 8), 2: (6, 6, 11, 8), 3: (6, 6, 9, 3)}[axis % 4]
    second = (sizes[0], 6, 1, 1) if axis % 4 == 1 else (6, 6, 1, 1)
    pads = {1: [0] * 4, 2: [1, 0, 1, 0], 3: [0, 0, 0, 0]}[axis % 4]
    attributes = {"pads": pads} | ({"strides": [1, 3]} if axis % 4 == 3 else {})
    nodes = [
        node("Conv", "x v", "a"), node("Conv", "x w", "b", **attributes),
        node("Concat", "a b x" if axis % 4 != 3 else "a b", axis=axis),
    ]  # fmt: skip
    constants = {"w": normal(*second), "v": normal(6, 6, 1, 1)}
    check(model(nodes, constants, MAP), tmp_path)


def test_concatenation_of_signals_and_vectors(tmp_path: Path) -> None:
    for axis in (1, 2, -1):
        nodes = [node("Relu", "x", "a"), node("Concat", "x a", axis=axis)]
        check(model(nodes, {}, {"x": (1, 6, 9)}), tmp_path)
    nodes = [node("Relu", "x", "a"), node("Concat", "x a", axis=1)]
    check(model(nodes, {}, {"x": (1, 6)}), tmp_path)


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("value", [0.0, -1.5])
def test_padding(tmp_path: Path, opset: int, value: float) -> None:
    pads = [0, 0, 1, 2, 0, 0, 3, 0]
    if opset < 11:
        made = model([node("Pad", "x", pads=pads, value=value)], {}, MAP, opset=opset)
    else:
        constants = {"p": np.array(pads), "v": np.float32(value).reshape(())}
        made = model([node("Pad", "x p v")], constants, MAP, opset=opset)
    check(made, tmp_path)


def test_padding_that_cores_do_not_do(tmp_path: Path) -> None:
    for pads, mode, why in [
        ([0, 1, 0, 0, 0, 0, 0, 0], "constant", "it pads frames or channels, or cuts"),
        ([0, 0, 1, 0, 0, 0, 1, 0], "reflect", "cores pad with a constant"),
    ]:
        made = model([node("Pad", "x p", mode=mode)], {"p": np.array(pads)}, MAP)
        (host,) = read(made, tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == why


@pytest.mark.parametrize("by", ["scales", "sizes"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_resizing_to_twice_the_size(tmp_path: Path, by: str, opset: int) -> None:
    constants = {
        "r": np.zeros(0, np.float32), "f": np.array([1, 1, 2, 2], np.float32),
        "s": np.array([1, 6, 18, 16]),
    }  # fmt: skip
    inputs = "x r f" if by == "scales" else "x r - s"
    if by == "sizes" and opset < 13:
        inputs = "x r e s"
        constants["e"] = np.zeros(0, np.float32)
    one = node(
        "Resize", inputs, mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    check(model([one], constants, MAP, opset=opset), tmp_path)


def test_upsample_of_old_opsets(tmp_path: Path) -> None:
    scales = {"f": np.array([1, 1, 2, 2], np.float32)}
    check(model([node("Upsample", "x f", mode="nearest")], scales, MAP, opset=9), tmp_path)


def test_resizing_that_cores_do_not_do(tmp_path: Path) -> None:
    for scales, mode, why in [
        ([1, 1, 3, 3], "nearest", "cores double the size, by repeating pixels"),
        ([1, 1, 2, 2], "linear", "cores double the size, by repeating pixels"),
    ]:
        one = node("Resize", "x - f", mode=mode, coordinate_transformation_mode="asymmetric")
        made = model([one], {"f": np.array(scales, np.float32)}, MAP)
        (host,) = read(made, tmp_path).nodes
        assert isinstance(host.operator, Host)
        assert host.operator.why == why


# -- the host --------------------------------------------------------------------------------------


def test_other_operators_go_to_the_host_with_a_reason(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("Softmax", "c", axis=1)]
    graph = read(model(nodes, {"w": normal(4, 6, 3, 3)}, MAP), tmp_path)
    assert [one.kind for one in graph.nodes] == ["conv", "host"]
    host = graph.nodes[1].operator
    assert isinstance(host, Host)
    assert host.why == "no core computes Softmax"
    assert graph.outputs["y"].shape == (1, 4, 7, 6)


def test_results_of_the_host_have_any_type_and_any_number_of_axes(tmp_path: Path) -> None:
    """Whole numbers from ArgMax are what the next node takes; and what it makes is used."""
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
        (node("Conv", "x w b"), {"w": (4, 6, 3, 3), "b": (5,)}, "bias has 5 values, it has 4"),
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
        (node("Clip", "x high low"), {}, "min is 2, max -1"),
        (node("Add", "x q"), {}, "takes 'q', which nothing makes"),
    ],
)
def test_a02_wrong_shapes_name_the_node_and_the_sizes(
    tmp_path: Path, one: Any, constants: dict[str, tuple[int, ...]], says: str
) -> None:
    given = {name: normal(*shape) for name, shape in constants.items()}
    given |= {"low": np.float32(-1).reshape(()), "high": np.float32(2).reshape(())}
    made = model([one], given, MAP)
    if not says:  # legal, and of the host
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
        ([node("Gemm", "v w2 b")], "bias has 3 values, it has 5 outputs"),
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
