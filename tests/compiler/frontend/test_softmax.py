"""R2.15, R2.16: a quantised Softmax at the end of a model follows the model, on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import MIXED
from tests.compiler.models import onnx_model
from tests.compiler.onnx_sessions import session_of
from tests.compiler.programs import compiled_model
from tests.storage.formats.onnx_models import node, onnx

TAKEN, ZERO = np.float32(0.14922504), 46
OF_255, OF_256 = np.float32(0.003921568859368563), np.float32(1 / 256)
"""The scale that QDQ tools write for 1/255, and the intended scale of QLinearSoftmax."""


def saved(path: Path, scale: np.float32, fused: bool) -> Path:
    """Save a model: ten numbers stored in 8 bits, Softmax, stored again, then real."""
    constants = {"s": TAKEN, "z": np.int8(ZERO), "t": scale, "u": np.int8(-128)}

    middle = [node("DequantizeLinear", "q s z", "a"), node("Softmax", "a", "b", axis=-1),
              node("QuantizeLinear", "b t u", "c")]  # fmt: skip
    if fused:
        middle = [
            node("QLinearSoftmax", "q s z t u", "c", domain="com.microsoft", axis=-1, opset=13)
        ]
    nodes = [node("QuantizeLinear", "x s z", "q"), *middle, node("DequantizeLinear", "c t u", "y")]
    made = onnx_model(nodes, constants, [1, 10], opset=13, domains=["com.microsoft"])
    onnx.save(made, str(path))
    return path


def classifier(path: Path) -> Path:
    """Save a model with a convolution of stored bytes first, like classifiers."""
    random = np.random.default_rng(3)
    constants = {
        "s": TAKEN, "z": np.int8(ZERO), "t": OF_256, "u": np.int8(-128), "v": np.float32(0.01),
        "o": np.int8(0), "w": random.integers(-20, 20, (10, 3, 4, 4)).astype(np.int8),
    }  # fmt: skip
    kernel: dict[str, Any] = {"domain": "com.microsoft", "axis": -1, "opset": 13}
    nodes = [
        node("QuantizeLinear", "x s z", "q"), node("QLinearConv", "q s z w v o s z", "a"),
        node("Flatten", "a", "b"), node("QLinearSoftmax", "b s z t u", "c", **kernel),
        node("DequantizeLinear", "c t u"),
    ]  # fmt: skip
    made = onnx_model(nodes, constants, [1, 3, 4, 4], opset=13, domains=["com.microsoft"])
    onnx.save(made, str(path))
    return path


def logits() -> np.ndarray:
    random = np.random.default_rng(0)
    stored = np.clip(np.rint(random.normal(0, 30, (300, 10))), -128, 127)
    return ((stored - ZERO) * TAKEN).astype(np.float32)


def ours(path: Path) -> np.ndarray:
    graph = open_model(path).build(())
    ((_, given),) = graph.inputs.items()
    stored = logits()
    if given.tensor.type != "float32":
        stored = np.rint(stored / TAKEN).astype(np.int64) + ZERO
    view = graph.outputs["y"]
    made = run_graph(graph, {given.tensor: given.stored(stored)}, MIXED, [view.tensor])
    return np.rint(view.array(made[view.tensor]) * 4096).astype(int)


def theirs(path: Path, *, integer: bool) -> np.ndarray:
    pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
    session = session_of(path, as_written=not integer)
    rows = [session.run(None, {"x": one[None]})[0] for one in logits()]
    return np.rint(np.concatenate(rows) * 4096).astype(int)


@pytest.mark.parametrize("scale", [OF_255, OF_256], ids=["255", "256"])
@pytest.mark.parametrize("fused", [False, True], ids=["QDQ", "QOperator"])
def test_quantised_softmax_follows_the_standard(
    fused: bool, scale: np.float32, tmp_path: Path
) -> None:
    """Softmax in float32, then QuantizeLinear, halves to even."""
    real = logits().astype(np.float64)
    powers = np.exp(real - real.max(1, keepdims=True))
    stored = np.rint(powers / powers.sum(1, keepdims=True) / np.float64(scale)) - 128
    wanted = (np.clip(stored, -128, 127) + 128) * scale
    found = ours(saved(tmp_path / "model.onnx", scale, fused))
    assert np.array_equal(found, np.rint(wanted * 4096).astype(int))


@pytest.mark.jit
def test_the_host_reads_its_quantised_values_as_integers(tmp_path: Path) -> None:
    """Numbers that the host stores and reads itself pass through ONNX nodes, which require
    bytes."""
    made = compiled_model(classifier(tmp_path / "model.onnx"), None, NpuShape())
    samples = np.random.default_rng(5).normal(0, 6, (4, 3, 4, 4)).astype(np.float32)
    found = simulate(made.folder, samples, threads=1, check=True)
    assert {one.differences for one in found.compared} == {0}
    assert np.allclose(found.values["y"].sum(1), 1, atol=0.05)


def test_equal_to_onnxruntime(tmp_path: Path) -> None:
    """ONNX Runtime's nodes equal ours in every element, and so does its kernel for a scale of
    1/256.

    For 1/255 that kernel uses the integer part of 1 / scale, which is 254: a tenth of the elements
    differ.
    """
    plain = saved(tmp_path / "plain.onnx", OF_255, fused=False)
    assert np.array_equal(ours(plain), theirs(plain, integer=False))
    kernel = saved(tmp_path / "kernel.onnx", OF_256, fused=True)
    assert np.array_equal(ours(kernel), theirs(kernel, integer=True))
    wrong = theirs(plain, integer=True) != ours(plain)
    assert 0.02 < wrong.mean() < 0.3
    other = ours(saved(tmp_path / "other.onnx", np.float32(1 / 254), fused=False))
    steps = np.rint(theirs(plain, integer=True) / 4096 / OF_255)
    assert np.array_equal(np.clip(np.rint(other / 4096 * 254), 0, 255), steps)
