"""Regression tests for models found by fuzzing, with expected results by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.cli.main import main
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.quantisation.score import Dataset
from mapper.errors import DoesNotFitError
from tests.compiler.models import onnx_model, saved
from tests.compiler.programs import SHAPE, compiled_model
from tests.compiler.right_values import (
    FRAMES,
    RANDOM,
    Array,
    Case,
    check,
    compiled,
    node,
    pointwise,
    rounded,
)
from tests.storage.formats.onnx_models import helper

X = RANDOM.normal(size=(FRAMES, 3, 4, 5)).astype(np.float32)
X = np.where(np.abs(X) < 0.1, np.float32(0.5), X)  # signs that 8-bit integers also represent
SIGNS = np.sign(X).astype(float)
W = RANDOM.normal(0, 0.5, (4, 3, 1, 1)).astype(np.float32)
SIGN = node("Sign", "x", "s")

SMALL = RANDOM.uniform(0.05, 0.45, X.shape).astype(np.float32) * np.where(X < 0, -1, 1)
SMALL = SMALL.astype(np.float32)
SLOPES = RANDOM.uniform(0.1, 0.5, (3, 1, 1)).astype(np.float32)
UNIT = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
AROUND = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}
SIGNED = np.pad(SIGNS, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-1)
SIGNED = np.lib.stride_tricks.sliding_window_view(SIGNED, (2, 2), (2, 3)).max((-1, -2))
TALL = RANDOM.normal(size=(FRAMES, 17, 6, 5)).astype(np.float32)
EACH = RANDOM.normal(0, 0.5, (34, 1, 1, 1)).astype(np.float32)


def erf(x: Array) -> Array:
    from scipy.special import erf as exact

    return np.asarray(exact(x))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


MEANS = softmax(X.mean((2, 3), keepdims=True).astype(float))
FLOATS = [
    Case(
        "signs, and what ReLU leaves of them",
        [SIGN, node("Relu", "s", "r"), node("Sub", "s r", "y")], {}, X, np.minimum(SIGNS, 0), 35,
    ),
    Case(
        "signs that are clipped between their levels", [SIGN, node("Clip", "s - k", "y")],
        {"k": np.float32(0.3)}, X, np.minimum(SIGNS, 0.3), 35,
    ),
    Case(
        "signs next to a layer",
        [SIGN, node("Conv", "x w", "c"), node("Concat", "s c", "y", axis=1)],
        {"w": W}, X, np.concatenate([SIGNS, pointwise(X, W)], 1), 25,
    ),
    Case(
        "sums of signs that are stored twice",
        [SIGN, node("Conv", "s w", "c"), node("Concat", "c c", "y", axis=1)],
        {"w": np.where(W < 0, np.float32(-1), np.float32(1))}, X,
        np.concatenate([pointwise(SIGNS, np.where(W < 0, -1, 1))] * 2, 1), 35,
    ),
    Case(
        "signs that the host also reads",
        [SIGN, node("Erf", "s", "e"), node("Sign", "e", "y")], {}, X, SIGNS, 60,
    ),
    Case(
        "a layer is joined with a map of the host, and no layer follows",
        [
            node("Conv", "x w", "c"), node("Erf", "c", "e"),
            node("Concat", "e c", "y", axis=2),
        ],
        {"w": W}, X, np.concatenate([erf(pointwise(X, W)), pointwise(X, W)], 2), 30,
    ),
    Case(
        "a bias is corrected by the signs that the host makes",
        [node("Sign", "x", "s"), node("PRelu", "s slopes", "y")],
        {"slopes": SLOPES}, SMALL, np.where(SMALL < 0, -SLOPES, 1), 35,
    ),
    *(
        Case(
            f"signs of a padded maximum, {what}", [node("Conv", "x w", "c"), *nodes], {"w": UNIT},
            X, SIGNED, 60,
        )
        for what, nodes in (
            ("before it", [node("Sign", "c", "s"), node("MaxPool", "s", "y", **AROUND)]),
            ("after it", [node("MaxPool", "c", "p", **AROUND), node("Sign", "p", "y")]),
        )
    ),
    *(
        Case(
            f"two results for each channel {chip}", [node("Conv", "x w", "y", group=17)],
            {"w": EACH}, TALL, np.repeat(TALL, 2, 1) * EACH.reshape(1, 34, 1, 1), 30, chip=chip,
        )
        for chip in ("1x1", "4x1")
    ),
    Case(
        "a map added to itself, then again", [node("Add", "x x", "v"), node("Add", "v x", "y")],
        {}, X, 3 * X, 30,
    ),
    Case(
        "rows of padding alone",
        [node("GlobalAveragePool", "x", "a"), node("Softmax", "a", "b", axis=1),
         node("Pad", "b pads", "y")],
        {"pads": np.array([0, 0, 2, 1, 0, 0, 2, 1])}, X,
        np.pad(MEANS, ((0, 0), (0, 0), (2, 2), (1, 1))), 25, chip="2x2",
    ),
]  # fmt: skip


ROWS = {"from": np.array([1]), "to": np.array([3]), "axis": np.array([2])}
PARTS = {
    "part": ([node("Slice", "x from to axis", "v")], X[:, :, 1:3]),
    "concatenation": (
        [node("Asinh", "x", "s"), node("Concat", "x s", "v", axis=2)],
        np.concatenate([X, np.arcsinh(X)], 2),
    ),
    "part of a concatenation": (
        [node("Asinh", "x", "s"), node("Concat", "x s", "u", axis=2),
         node("Slice", "u from to axis", "v")],
        X[:, :, 1:3],
    ),
}  # fmt: skip


@pytest.mark.parametrize("chip", ["1x1", "2x1"])
@pytest.mark.parametrize("name", PARTS)
def test_a_map_made_of_maps_of_the_host_that_both_read(
    name: str, chip: str, tmp_path: Path
) -> None:
    nodes, v = PARTS[name]
    nodes = [*nodes, node("Asinh", "v", "h"), node("Conv", "h w", "c"), node("Add", "v c", "y")]
    right = pointwise(np.arcsinh(v), W[:3]) + v
    check(Case(name, nodes, {"w": W[:3], **ROWS}, X, right, 25, chip=chip), tmp_path)


def test_a_layer_that_is_0_in_all_samples(tmp_path: Path) -> None:
    """A rounded map makes some sums positive, which are just below 0 in floating point."""
    x = X[:, :2].copy()
    x[:, 1] = x[:, 0] / np.float32(0.7)
    nodes = [node("GlobalAveragePool", "x", "a"), node("Conv", "a w b", "c"),
             node("Relu", "c", "y")]  # fmt: skip
    constants = {"w": np.float32([[[[1]], [[-0.7]]]]), "b": np.float32([-1e-5])}
    case = Case("0 in all samples", nodes, constants, x, np.zeros_like(x[:, :1]), 0)
    assert compiled(case, tmp_path) == 0
    losses = json.loads((tmp_path / "out" / "report.json").read_text())["losses"]
    assert [one["silent"] for one in losses] == [False, True]


@pytest.mark.parametrize("case", FLOATS, ids=lambda case: case.name)
def test_models_in_floating_point(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_a_sign_in_another_view_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [SIGN, node("Transpose", "s", "t", perm=[0, 2, 1, 3]), node("Sign", "t", "u"),
             node("Conv", "u w", "y")]  # fmt: skip
    case = Case("turned", nodes, {"w": np.ones((2, 4, 1, 1), np.float32)}, X, X, 0)
    assert compiled(case, tmp_path) == 1
    assert "no node runs on a core: node 'y' (Conv)" in capsys.readouterr().err


# -- quantised models ------------------------------------------------------------------------------

SCALES: dict[str, Any] = {
    "s": np.float32(0.03), "z": np.uint8(100), "t": np.float32(0.05), "o": np.uint8(128),
    "u": np.float32(0.04), "v": np.uint8(120),
}  # fmt: skip
SEEN = rounded(X, 0.03, 100)


def steps(value: str, scale: str, zero: str) -> list[Any]:
    """Return QuantizeLinear followed by DequantizeLinear."""
    names = f"{scale} {zero}"
    return [node("QuantizeLinear", f"{value} {names}", f"{value}q"),
            node("DequantizeLinear", f"{value}q {names}", f"{value}d")]  # fmt: skip


WIDE = rounded(SEEN, 0.05, 128)
SQUARE = X[..., :4].copy()
LOGISTIC = 1 / (1 + np.exp(-rounded(SQUARE, 0.03, 100)))
MASKS = RANDOM.normal(0, 1, (3, 1, 1)).astype(np.float32)
MASK = np.clip(np.rint(MASKS / 0.01) + 128, 0, 255).astype(np.uint8)
MIXED = (MASK.astype(float) - 128) * 0.01
PADDED = np.pad(SEEN, ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=(113 - 100) * 0.03)
STORED = [
    *(
        Case(
            f"parts side by side that need each other {chip}",
            [*steps("x", "s", "z"), *steps("xd", "t", "o"), *steps("xdd", "u", "v"),
             node("Concat", "xddd xdd xddd", "c", axis=3), *steps("c", "t", "o"),
             node("Identity", "cd", "y")],
            SCALES, X,
            np.concatenate([rounded(rounded(WIDE, 0.04, 120), 0.05, 128), WIDE] * 2, 3)[..., :15],
            40, quantised=True, chip=chip,
        )
        for chip in ("1x1", "4x1")
    ),
    *(
        Case(
            f"QLinearMul of {what}",
            [node("QuantizeLinear", "x s z", "xq"),
             node("QLinearMul", f"xq s z {operand}", "m", domain="com.microsoft"),
             node("MaxPool", "m", "p", kernel_shape=[1, 1]),
             node("DequantizeLinear", "p u v", "y")],
            {**SCALES, "k": MASK, "f": np.float32(0.01)}, X, rounded(right, 0.04, 120), 35,
            quantised=True, domains=["com.microsoft"],
        )
        for what, operand, right in (
            ("two maps", "xq s z u v", SEEN * SEEN), ("a constant", "k f o u v", SEEN * MIXED),
        )
    ),
    Case(
        "two views of a stored map, each for a node of the host",
        [node("QuantizeLinear", "x s z", "xq"),
         node("Transpose", "xq", "turned", perm=[0, 1, 3, 2]),
         node("QLinearSigmoid", "xq s z g n", "a", domain="com.microsoft"),
         node("QLinearSigmoid", "turned s z g n", "b", domain="com.microsoft"),
         node("QLinearConcat", "g n a g n b g n", "c", domain="com.microsoft", axis=1),
         node("MaxPool", "c", "p", kernel_shape=[1, 1]), node("DequantizeLinear", "p g n", "y")],
        {**SCALES, "g": np.float32(0.0041), "n": np.uint8(0)}, SQUARE,
        rounded(np.concatenate([LOGISTIC, LOGISTIC.swapaxes(2, 3)], 1), 0.0041, 0), 45,
        quantised=True, domains=["com.microsoft"],
    ),
    Case(
        "padded integers",
        [node("QuantizeLinear", "x s z", "xq"), node("Pad", "xq pads k", "p"),
         node("MaxPool", "p", "m", kernel_shape=[1, 1]), node("DequantizeLinear", "m s z", "y")],
        {**SCALES, "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]), "k": np.uint8(113)}, X, PADDED, 60,
        quantised=True,
    ),
    Case(
        "parts of integers",
        [node("QuantizeLinear", "x s z", "xq"), node("Split", "xq sizes", "a b", axis=1),
         node("MaxPool", "b", "m", kernel_shape=[2, 2]), node("DequantizeLinear", "m s z", "y")],
        {**SCALES, "sizes": np.array([1, 2])}, X,
        np.lib.stride_tricks.sliding_window_view(SEEN[:, 1:], (2, 2), (2, 3)).max((-1, -2)), 60,
        quantised=True,
    ),
]  # fmt: skip


HALF = np.rint(RANDOM.normal(0, 40, (4, 3, 1, 1))).astype(np.int8)
LAYER = rounded(pointwise(SEEN, HALF * np.float32(0.01)), 0.05, 128)
STORED += [
    Case(
        f"a map of cores and one of the host, for the host {chip}",
        [*steps("x", "s", "z"), node("DequantizeLinear", "w k", "wd"), node("Conv", "xd wd", "c"),
         *steps("c", "t", "o"), node("Tanh", "cd", "h"), *steps("h", "k", "o"),
         node("Concat", "hd cd", "j", axis=3), *steps("j", "t", "o"), node("Identity", "jd", "y")],
        {**SCALES, "w": HALF, "k": np.float32(0.01)}, X,
        rounded(np.concatenate([rounded(np.tanh(LAYER), 0.01, 128), LAYER], 3), 0.05, 128), 30,
        quantised=True, chip=chip,
    )
    for chip in ("1x1", "2x2")
]  # fmt: skip
MEANS_OF_FOUR = np.lib.stride_tricks.sliding_window_view(SEEN, (2, 2), (2, 3)).mean((-1, -2))
STORED += [
    Case(
        "a part of integers for the host alone",
        [node("QuantizeLinear", "x s z", "xq"), node("Split", "xq sizes", "a b", axis=1),
         node("DequantizeLinear", "b s z", "bd"), node("Tanh", "bd", "h"),
         node("QuantizeLinear", "h k o", "hq"), node("MaxPool", "hq", "m", kernel_shape=[1, 1]),
         node("DequantizeLinear", "m k o", "y")],
        {**SCALES, "sizes": np.array([1, 2]), "k": np.float32(0.01)}, X,
        rounded(np.tanh(SEEN[:, 1:]), 0.01, 128), 60, quantised=True,
    ),
    Case(
        "means that are halfway between two integers",
        [node("QuantizeLinear", "x s z", "xq"),
         node("QLinearAveragePool", "xq s z s z", "m", domain="com.microsoft", kernel_shape=[2, 2]),
         node("DequantizeLinear", "m s z", "y")],
        SCALES, X, rounded(MEANS_OF_FOUR, 0.03, 100), 35, quantised=True,
        domains=["com.microsoft"],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)
def test_quantised_models(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    nodes = [node("Flatten", "x", "f"), *steps("x", "s", "z"),
             node("MaxPool", "xd", "c", kernel_shape=[1, 1]), *steps("c", "t", "o")]  # fmt: skip
    path = saved(onnx_model(nodes, SCALES, (1, 3, 4, 5), ["f", "cd"], 13), tmp_path)
    line = ["compile", str(path), "--chip", "1x1", "-q", "-o"]
    assert main([*line, str(tmp_path / "out")]) == 0
    found = simulate(read_folder(tmp_path / "out"), X, 1, True)
    assert {one.differences for one in found.compared} == {0}
    np.testing.assert_array_equal(found.values["f"], X.reshape(FRAMES, -1))
    np.testing.assert_allclose(found.values["cd"], WIDE, atol=1e-5)


def test_interpolated_integers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [node("QuantizeLinear", "x s z", "xq"),
             node("Resize", "xq - k", "r", mode="linear"),
             node("DequantizeLinear", "r s z", "y")]  # fmt: skip
    constants = {**SCALES, "k": np.float32([1, 1, 2, 2])}
    assert compiled(Case("linear", nodes, constants, X, X, 0, quantised=True), tmp_path) == 1
    assert "node 'r' (Resize): interpolates stored integers" in capsys.readouterr().err


# -- early refusals --------------------------------------------------------------------------------


def test_maps_that_do_not_fit_are_rejected_before_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dataset, "ranges", _measured)
    path = saved(onnx_model([node("Conv", "x w", "y")], {"w": W}, (1, 3, 40, 50)), tmp_path)
    samples = np.zeros((4, 3, 40, 50), np.float32)
    with pytest.raises(DoesNotFitError, match=r"feature memory: 4,000 vectors needed"):
        compiled_model(path, samples, replace(SHAPE, map_vectors=1000))


def test_parameters_that_do_not_fit_are_rejected_before_calibration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps of 20 vectors, at least two at a time; per layer 2 blocks of biases and scales and a
    header, of 4 vectors each.
    """
    monkeypatch.setattr(Dataset, "ranges", _measured)
    wide = {f"w{at}": RANDOM.normal(size=(32, 32 if at else 3, 1, 1)) for at in range(4)}
    names = ["x", "a", "b", "c", "y"]
    nodes = [node("Conv", f"{names[at]} w{at}", names[at + 1]) for at in range(4)]
    constants = {name: one.astype(np.float32) for name, one in wide.items()}
    path = saved(onnx_model(nodes, constants, (1, 3, 2, 5)), tmp_path)
    samples = np.zeros((4, 3, 2, 5), np.float32)
    small = replace(SHAPE, map_vectors=100, parameter_words=16)
    told = "at least 120 vectors needed, 80 of them for parameters"
    with pytest.raises(DoesNotFitError, match=told):
        compiled_model(path, samples, small)


def _measured(*_: object) -> None:
    raise AssertionError("samples were measured")


def test_quotients_by_numbers_that_round_to_0(tmp_path: Path) -> None:
    """A note names the output, although the results of the cores keep --min-signal."""
    wide = X.copy()
    wide[0, 0, 0, 0] = 1e3
    nodes = [node("Conv", "x w", "c"), node("Div", "x c", "y")]
    case = Case("quotients", nodes, {"w": W[:3]}, wide, wide, 0)
    assert compiled(case, tmp_path) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text(), parse_constant=pytest.fail)
    assert report["outputs_db"]["y"] == pytest.approx(0, abs=1)
    said = r"output 'y': SQNR -?0\.\d dB after the nodes on the host, below the 20 dB of --"
    assert any(re.match(said, one) for one in report["log"])


def test_nodes_without_users_are_not_compared(tmp_path: Path) -> None:
    """ONNX Runtime would run them, too, and refuse the model, whose format needs no constants as
    inputs."""
    nodes = [node("Conv", "x w", "y"), node("Reshape", "x k", "unused")]
    made = onnx_model(nodes, {"w": W, "k": np.array([7, 7])}, (1, 3, 4, 5))
    made.ir_version = 3
    made.graph.input.extend(
        helper.make_tensor_value_info(one.name, one.data_type, one.dims)
        for one in made.graph.initializer
    )
    np.save(tmp_path / "samples.npy", X)
    words = ["compile", str(saved(made, tmp_path)), "--chip", "1x1", "-o", str(tmp_path / "out")]
    assert main([*words, "--calibrate", str(tmp_path / "samples.npy"), "-q"]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["judge"]["why"] == ""
    assert report["judge"]["rows"]


def test_a_fault_of_the_host_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flat = X.reshape(FRAMES, -1)
    nodes = [node("Relu", "x", "a"), node("GlobalLpPool", "a", "y")]
    case = Case("fault", nodes, {}, flat, flat, 0)
    assert compiled(case, tmp_path) == 1
    said = capsys.readouterr().err
    assert f"mapper compile: {tmp_path / 'model.onnx'}: node 'y' (GlobalLpPool): " in said
