"""Host operators follow the standard of their opset, in any context."""

from __future__ import annotations

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
    node,
    pointwise,
    rounded,
)

X = RANDOM.normal(size=(FRAMES, *SHAPE)).astype(np.float32)
W = RANDOM.normal(0, 0.5, (8, 3, 1, 1)).astype(np.float32)
A = pointwise(X, W)
FLAT = A.reshape(FRAMES, -1)
CONV = node("Conv", "x w", "a")


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


def on_host(name: str, last: object, right: Array, opset: int = 17, **constants: object) -> Case:
    return Case(name, [CONV, last], {"w": W, **constants}, X, right, 20, opset=opset)


FLOATS = [
    # before opset 13 they work on all axes from `axis` on, which is 1 by default
    on_host("softmax 11", node("Softmax", "a", "y"), softmax(FLAT, 1), 11),
    on_host("log softmax 11", node("LogSoftmax", "a", "y"), np.log(softmax(FLAT, 1)), 11),
    on_host("hardmax 11", node("Hardmax", "a", "y"), hardmax(FLAT), 11)._replace(least=5),
    on_host("softmax 13", node("Softmax", "a", "y", axis=1), softmax(A, 1), 13),
    on_host(
        "lrn", node("LRN", "a", "y", size=5, alpha=0.5, beta=0.75, bias=1.0),
        A / (1 + 0.1 * neighbours(A, 5)) ** 0.75,
    ),
    on_host(
        "lp 1", node("LpNormalization", "a", "y", axis=1, p=1),
        A / np.abs(A).sum(1, keepdims=True),
    ),
    on_host(
        "transposed, groups", node("ConvTranspose", "a v", "y", strides=[2, 2], group=2),
        spread(A, KERNELS, 2), v=KERNELS,
    ),
    on_host(
        "transposed, shape", node("ConvTranspose", "a v", "y", strides=[2, 2], output_shape=[8, 9]),
        spread(A, KERNELS, 1)[..., 1:], v=KERNELS,
    ),
    on_host("negative pads", node("Pad", "a p", "y"), A[:, :, 1:, :-2], p=PADS),
    on_host(
        "resize 10", node("Resize", "a f", "y", mode="nearest"),
        A.repeat(3, 2).repeat(2, 3), 10, f=np.float32([1, 1, 3, 2]),
    ),
    on_host(
        "upsample 9, linear", node("Upsample", "a f", "y", mode="linear"),
        np.stack([A, (A + np.append(A[..., 1:], A[..., -1:], -1)) / 2], -1).reshape(
            FRAMES, 8, 4, 10
        ), 9, f=np.float32([1, 1, 1, 2]),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case.name)
def test_operators_of_the_host(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


# -- quantised models with host nodes --------------------------------------------------------------

STORED = RANDOM.integers(-127, 128, (8, 3, 1, 1)).astype(np.int8)
SCALES = {
    "s": np.float32(0.03), "z": np.uint8(100), "q": STORED, "t": np.float32(0.01), "o": np.int8(0),
    "u": np.float32(0.053), "v": np.uint8(90), "b": np.float32(0.021), "c": np.uint8(60),
}  # fmt: skip
INPUT = [node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd")]
LAYER = [
    *INPUT,
    node("DequantizeLinear", "q t o", "wd"),
    node("Conv", "xd wd", "sums"),
    node("QuantizeLinear", "sums u v", "aq"),
    node("DequantizeLinear", "aq u v", "a"),
]
TANH = [
    node("Tanh", "a", "t1"),
    node("QuantizeLinear", "t1 b c", "t2"),
    node("DequantizeLinear", "t2 b c", "t3"),
]
SEEN = rounded(X, 0.03, 100)
MADE = rounded(pointwise(SEEN, STORED * 0.01), 0.053, 90)
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
    whole("flatten", [*LAYER, *TANH, node("Flatten", "t3", "y")], ROUNDED),
    whole("identity", [*LAYER, *TANH, node("Identity", "t3", "y")], ROUNDED),
    whole(
        "transpose", [*LAYER, *TANH, node("Transpose", "t3", "y", perm=[0, 2, 3, 1])],
        ROUNDED.transpose(0, 2, 3, 1),
    ),
    whole("two hosts", [*LAYER, *TANH, node("Softplus", "t3", "y")], np.log1p(np.exp(ROUNDED))),
    whole("gate", [*GATE, node("Mul", "xd gd", "y")], CLIPPED * MEANS, WIDE),
    whole("difference", [*GATE, node("Sub", "xd gd", "y")], CLIPPED - MEANS, WIDE),
    whole(
        "next to a layer", [*LAYER, node("Tanh", "xd", "h"), node("Concat", "a h", "y", axis=1)],
        np.concatenate(
            [rounded(pointwise(CLIPPED, STORED * 0.01), 0.053, 90), np.tanh(CLIPPED)], 1
        ), WIDE,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", QUANTISED, ids=lambda case: case.name)
def test_the_host_in_quantised_models(case: Case, tmp_path: Path) -> None:
    """Orders of elements, and rounding and clipping before host operators."""
    check(case, tmp_path)
