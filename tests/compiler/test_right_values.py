"""Models with expected results by hand: operators of the host, parts of maps, and whole numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.right_values import (
    FRAMES,
    RANDOM,
    SHAPE,
    Array,
    Case,
    check,
    compiled,
    node,
    onnx,
    pointwise,
    rounded,
)

X = RANDOM.normal(size=(FRAMES, *SHAPE)).astype(np.float32)
W = RANDOM.normal(0, 0.5, (8, 3, 1, 1)).astype(np.float32)
A = pointwise(X, W)
FLAT = A.reshape(FRAMES, -1)
CONV = node("Conv", "x w", "a")
TANH = node("Tanh", "p", "y")
CHANNEL = np.array([1])


def cut(name: str, first: int, stop: int, chip: str) -> Case:
    """Some channels of a layer, read by the host."""
    nodes = [CONV, node("Slice", "a first behind axis", "p"), TANH]
    constants = {"w": W, "first": np.array([first]), "behind": np.array([stop]), "axis": CHANNEL}
    return Case(name, nodes, constants, X, np.tanh(A[:, first:stop]), 20, chip=chip)


def parted(chip: str) -> Case:
    """A layer in three parts: the first is unused, the last is used on cores again."""
    second = np.maximum(pointwise(A[:, 5:].astype(np.float32), W), 0)
    nodes = [
        CONV,
        node("Split", "a sizes", "u p q", axis=1),
        node("Tanh", "p", "r"),
        node("Conv", "q w", "s"),
        node("Relu", "s", "t"),
        node("Concat", "r t", "y", axis=1),
    ]
    right = np.concatenate([np.tanh(A[:, 2:5]), second], 1)
    constants = {"w": W, "sizes": np.array([2, 3, 3])}
    return Case(f"parts {chip}", nodes, constants, X, right, 20, opset=13, chip=chip)


FLOATS = [
    *(cut(f"channels {a}-{b} {c}", a, b, c) for a, b in ((1, 8), (3, 5)) for c in ("1x1", "2x2")),
    *(parted(chip) for chip in ("1x1", "2x2", "4x1")),
    Case(
        "one channel next to its layer",
        [CONV, node("Concat", "x a", "y", axis=1)],
        {"w": W[:, :1]}, X[:, :1],
        np.concatenate([X[:, :1], pointwise(X[:, :1], W[:, :1])], 1), 20,
    ),
]  # fmt: skip


# -- operators of the host, by the standard of their opset -----------------------------------------


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def hardmax(x: Array) -> Array:
    return np.asarray(np.eye(x.shape[1])[x.argmax(1)])


def neighbours(x: Array, size: int) -> Array:
    """Return sums of squares over neighbouring channels."""
    half, count = (size - 1) // 2, x.shape[1]
    sums = [(x[:, max(0, c - half) : c + size - half] ** 2).sum(1) for c in range(count)]
    return np.stack(sums, 1)


def spread(x: Array, kernels: Array, groups: int) -> Array:
    """Return a transposed convolution of 2x2 with strides of 2: windows do not overlap."""
    frames, channels, rows, columns = x.shape
    each, made = channels // groups, kernels.shape[1]
    y = np.zeros((frames, groups * made, 2 * rows, 2 * columns))
    for g in range(groups):
        part, out = slice(g * each, (g + 1) * each), slice(g * made, (g + 1) * made)
        for row in (0, 1):
            for column in (0, 1):
                y[:, out, row::2, column::2] = np.einsum(
                    "nchw,co->nohw", x[:, part], kernels[part, :, row, column]
                )
    return y


KERNELS = RANDOM.normal(size=(8, 2, 2, 2)).astype(np.float32)
PADS = np.array([0, 0, -1, 0, 0, 0, 0, -2])


def after_conv(name: str, last: object, right: Array, opset: int = 17, **constants: object) -> Case:
    return Case(name, [CONV, last], {"w": W, **constants}, X, right, 20, opset=opset)


AFTER_CONV = [
    # before opset 13 they work on all axes from `axis` on, which is 1 by default
    after_conv("softmax 11", node("Softmax", "a", "y"), softmax(FLAT, 1), 11),
    after_conv("log softmax 11", node("LogSoftmax", "a", "y"), np.log(softmax(FLAT, 1)), 11),
    after_conv("hardmax 11", node("Hardmax", "a", "y"), hardmax(FLAT), 11)._replace(least=5),
    after_conv("softmax 13", node("Softmax", "a", "y", axis=1), softmax(A, 1), 13),
    after_conv(
        "lrn", node("LRN", "a", "y", size=5, alpha=0.5, beta=0.75, bias=1.0),
        A / (1 + 0.1 * neighbours(A, 5)) ** 0.75,
    ),
    after_conv(
        "lp 1", node("LpNormalization", "a", "y", axis=1, p=1),
        A / np.abs(A).sum(1, keepdims=True),
    ),
    after_conv(
        "transposed, groups", node("ConvTranspose", "a v", "y", strides=[2, 2], group=2),
        spread(A, KERNELS, 2), v=KERNELS,
    ),
    after_conv(
        "transposed, shape", node("ConvTranspose", "a v", "y", strides=[2, 2], output_shape=[8, 9]),
        spread(A, KERNELS, 1)[..., 1:], v=KERNELS,
    ),
    after_conv("negative pads", node("Pad", "a p", "y"), A[:, :, 1:, :-2], p=PADS),
    after_conv(
        "resize 10", node("Resize", "a f", "y", mode="nearest"),
        A.repeat(3, 2).repeat(2, 3), 10, f=np.float32([1, 1, 3, 2]),
    ),
    after_conv(
        "upsample 9, linear", node("Upsample", "a f", "y", mode="linear"),
        np.stack([A, (A + np.append(A[..., 1:], A[..., -1:], -1)) / 2], -1).reshape(
            FRAMES, 8, 4, 10
        ), 9, f=np.float32([1, 1, 1, 2]),
    ),
]  # fmt: skip


# -- what quantised models do between layers and scales --------------------------------------------

STORED = RANDOM.integers(-127, 128, (8, 3, 1, 1)).astype(np.int8)
SCALES = {
    "s": np.float32(0.03), "z": np.uint8(100), "q": STORED, "t": np.float32(0.01), "o": np.int8(0),
    "u": np.float32(0.053), "v": np.uint8(90), "b": np.float32(0.021), "c": np.uint8(60),
}  # fmt: skip
WEIGHTS = node("DequantizeLinear", "q t o", "wd")
INPUT = [node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd")]
LAYER = [*INPUT, WEIGHTS, node("Conv", "xd wd", "f")]
SUMS = pointwise(rounded(X, 0.03, 100), STORED * 0.01)
LAST = [node("QuantizeLinear", "g u v", "gq"), node("DequantizeLinear", "gq u v", "y")]
ADDED = RANDOM.normal(size=(8, 1, 1)).astype(np.float32)
FACTORS = RANDOM.uniform(0.5, 2, (8, 1, 1)).astype(np.float32)
NORMAL = {
    "b1": FACTORS.ravel(), "b2": ADDED.ravel(), "b3": ADDED.ravel()[::-1],
    "b4": FACTORS.ravel()[::-1],
}  # fmt: skip


def normalised(x: Array) -> Array:
    scale, offset, mean, variance = (one.reshape(-1, 1, 1) for one in NORMAL.values())
    return np.asarray((x - mean) / np.sqrt(variance.astype(float) + 1e-5) * scale + offset)


def stop(name: str, last: object, right: Array, **constants: Array) -> Case:
    made = rounded(right, 0.053, 90)
    return Case(name, [*LAYER, last, *LAST], {**SCALES, **constants}, X, made, 40, quantised=True)


CONSTANTS = [
    stop("added", node("Add", "f k", "g"), SUMS + ADDED, k=ADDED),
    stop("multiplied", node("Mul", "f k", "g"), SUMS * FACTORS, k=FACTORS),
    stop("normalised", node("BatchNormalization", "f b1 b2 b3 b4", "g"), normalised(SUMS),
           **NORMAL),
]  # fmt: skip


# -- quantised models with host nodes: orders of elements, rounding and clipping -------------------

STORED_LAYER = [
    *LAYER,
    node("QuantizeLinear", "f u v", "aq"),
    node("DequantizeLinear", "aq u v", "a"),
]
SQUASHED = [
    *STORED_LAYER,
    node("Tanh", "a", "t1"),
    node("QuantizeLinear", "t1 b c", "t2"),
    node("DequantizeLinear", "t2 b c", "t3"),
]
MADE = rounded(SUMS, 0.053, 90)
INTEGERS = np.clip(np.rint(SUMS / 0.053) + 90, 0, 255)
ROUNDED = rounded(np.tanh(MADE), 0.021, 60)
WIDE = (4 * X).astype(np.float32)  # exceeds the range of the input
CLIPPED = rounded(WIDE, 0.03, 100)
MEANS = rounded(CLIPPED.mean((2, 3), keepdims=True), 0.053, 90)
GATE = [
    *INPUT,
    node("GlobalAveragePool", "xd", "g"),
    node("QuantizeLinear", "g u v", "gq"),
    node("DequantizeLinear", "gq u v", "gd"),
]


def whole(name: str, nodes: list[object], right: Array, samples: Array = X) -> Case:
    return Case(name, nodes, SCALES, samples, right, 35, quantised=True)


QUANTISED = [
    whole("flatten", [*SQUASHED, node("Flatten", "t3", "y")], ROUNDED),
    whole("identity", [*SQUASHED, node("Identity", "t3", "y")], ROUNDED),
    whole(
        "transpose", [*SQUASHED, node("Transpose", "t3", "y", perm=[0, 2, 3, 1])],
        ROUNDED.transpose(0, 2, 3, 1),
    ),
    whole("integers", [*LAYER, node("QuantizeLinear", "f u v", "y")], INTEGERS),
    whole(
        "integers in another order",
        [*STORED_LAYER, node("Transpose", "aq", "y", perm=[0, 2, 3, 1])],
        INTEGERS.transpose(0, 2, 3, 1),
    ),
    whole("two hosts", [*SQUASHED, node("Softplus", "t3", "y")], np.log1p(np.exp(ROUNDED))),
    whole("gate", [*GATE, node("Mul", "xd gd", "y")], CLIPPED * MEANS, WIDE),
    whole("difference", [*GATE, node("Sub", "xd gd", "y")], CLIPPED - MEANS, WIDE),
    whole(
        "next to a layer",
        [*STORED_LAYER, node("Tanh", "xd", "h"), node("Concat", "a h", "y", axis=1)],
        np.concatenate(
            [rounded(pointwise(CLIPPED, STORED * 0.01), 0.053, 90), np.tanh(CLIPPED)], 1
        ), WIDE,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [*FLOATS, *AFTER_CONV, *CONSTANTS, *QUANTISED], ids=lambda case: case.name
)
def test_results_by_hand(case: Case, tmp_path: Path) -> None:
    """Constants fold into scales and biases: the rounding error is below one step of the sums."""
    check(case, tmp_path)


def given_whole(kind: str) -> Case:
    ends = np.iinfo(kind)
    zero = np.array(ends.min + 100, kind)
    x = RANDOM.integers(ends.min, ends.max + 1, (FRAMES, *SHAPE))
    nodes = [node("DequantizeLinear", "x s n", "xd"), *LAYER[2:], *LAST]
    nodes[2] = node("Conv", "xd wd", "g")
    real = (x - int(zero)) * 0.03
    right = rounded(pointwise(real, STORED * 0.01), 0.053, 90)
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return Case(f"{kind} input", nodes, {**SCALES, "n": zero}, x, right, 40, True, kind=element)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_inputs_of_whole_numbers(kind: str, tmp_path: Path) -> None:
    check(given_whole(kind), tmp_path)


def test_inputs_of_whole_numbers_on_the_host(tmp_path: Path) -> None:
    """A layer and a host node read the same input."""
    case = given_whole("uint8")
    nodes = [*case.nodes[:-1], node("DequantizeLinear", "gq u v", "l"), node("Tanh", "xd", "h")]
    nodes.append(node("Concat", "l h", "y", axis=1))
    right = np.concatenate([case.right, np.tanh((case.samples - 100) * 0.03)], 1)
    check(case._replace(nodes=nodes, right=right), tmp_path)


# -- scales of each sample -------------------------------------------------------------------------


def dynamic(x: Array) -> tuple[Array, np.float32, int]:
    """Return DynamicQuantizeLinear of a sample."""
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = np.float32((high - low) / np.float32(255))
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, zero


def scaled(kind: str, **more: object) -> list[object]:
    """Return the nodes that quantize_dynamic of onnxruntime writes for a layer."""
    return [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node(kind, "q w z", "sums", **more),
        node("Cast", "sums", "real", to=1),
        node("Mul", "s k", "factor"),
        node("Mul", "real factor", "y"),
    ]


@pytest.mark.parametrize("calibrated", [False, True])
def test_dense_layers_with_scales_of_each_sample(calibrated: bool, tmp_path: Path) -> None:
    """Scales differ by orders of magnitude; calibration does not round their product to 8 bits."""
    x = RANDOM.normal(size=(FRAMES, 40)) * np.geomspace(1e-3, 1, FRAMES)[:, None]
    x = x.astype(np.float32)
    w = RANDOM.integers(-127, 128, (40, 5)).astype(np.int8)
    right = []
    for row in x:
        q, scale, zero = dynamic(row)
        right.append(((q - zero) @ w).astype(np.float32) * (scale * np.float32(0.01)))
    constants = {"w": w, "k": np.float32(0.01)}
    nodes = scaled("MatMulInteger")
    check(Case("dense", nodes, constants, x, np.array(right), 140, not calibrated), tmp_path)


def test_convolutions_with_scales_of_each_sample(tmp_path: Path) -> None:
    """Padding holds zero points: fewer products count at the edges."""
    w = RANDOM.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8)
    right = []
    for one in X:
        q, scale, zero = dynamic(one)
        whole = np.pad(q - zero, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 3), (1, 2))
        sums = np.einsum("chwij,ocij->ohw", windows, w.astype(np.int64))
        right.append(sums.astype(np.float32) * (scale * np.float32(0.01)))
    constants = {"w": w, "k": np.float32(0.01)}
    nodes = scaled("ConvInteger", pads=[1, 1, 1, 1])
    check(Case("conv", nodes, constants, X, np.array(right), 140, True), tmp_path)


def test_weights_that_exceed_8_bits_without_their_zero_point(tmp_path: Path) -> None:
    """The host computes such sums; cores run the other layers."""
    x = RANDOM.normal(size=(FRAMES, 40)).astype(np.float32)
    w = RANDOM.integers(-127, 128, (40, 5)).astype(np.int8)
    right = []
    for row in x:
        q, scale, zero = dynamic(row)
        right.append(((q - zero) @ (w + 100.0)) * scale * 0.01)
    nodes = scaled("MatMulInteger")
    nodes[1] = node("MatMulInteger", "q w z o", "sums")
    nodes[-1] = node("Mul", "real factor", "t")
    nodes.append(node("Relu", "t", "y"))
    constants = {"w": w, "k": np.float32(0.01), "o": np.int8(-100)}
    check(Case("wide", nodes, constants, x, np.maximum(right, 0), 30), tmp_path)


# -- losses ----------------------------------------------------------------------------------------


def lost(case: Case, folder: Path) -> float:
    """Return the points lost in the selected attempt."""
    assert compiled(case, folder, "--min-signal", "0") == 0
    report = json.loads((folder / "out" / "report.json").read_text())
    return float(report["attempts"][report["kept"]]["loss"])


def test_maps_as_results_lose_no_classes(tmp_path: Path) -> None:
    """The largest of many similar pixels differs in integers, which has no meaning."""
    flat = np.round(X * 4) / 4 + RANDOM.normal(0, 1e-3, X.shape)
    assert lost(Case("map", [node("Conv", "x w", "y")], {"w": W}, flat, A, 0), tmp_path) == 0


def test_classes_that_tie_lose_nothing(tmp_path: Path) -> None:
    """Two classes always have the same number: either may come first."""
    w = np.random.default_rng(0).normal(0, 0.5, (4, 60)).astype(np.float32)
    w[2] = w[1]
    nodes = [node("Flatten", "x", "f"), node("Gemm", "f w", "y", transB=1)]
    assert lost(Case("tie", nodes, {"w": w}, X, X, 0), tmp_path) <= 100 / FRAMES
