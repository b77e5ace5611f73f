"""Layers that are constant due to their scales: right values, and one note that names the layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.model import open_model
from mapper.compiler.quantisation.constants import sum_factors
from mapper.errors import MapperError
from tests.compiler.right_values import Case, compiled, node

TINY = np.float32(3.41e-40)
RNG = np.random.default_rng(6)
X = RNG.normal(size=(4, 3, 4, 4)).astype(np.float32)
U8, I8 = np.uint8, np.int8


def network(**changed: Any) -> Case:
    """Return two quantised convolutions, c and d, as QDQ; scales and constants by name."""
    values: dict[str, Any] = {
        "si": np.float32(0.03), "zi": U8(120), "sw": np.float32(0.01), "zw": I8(0),
        "sa": np.float32(0.05), "za": U8(10), "sv": np.float32(0.01), "zv": I8(0),
        "sb": np.float32(0.05), "zb": U8(100),
        "wq": RNG.integers(-100, 100, (4, 3, 1, 1)).astype(I8),
        "bias": RNG.normal(size=4).astype(np.float32),
        "vq": RNG.integers(-100, 100, (5, 4, 1, 1)).astype(I8),
    } | changed  # fmt: skip
    axis = {"axis": 0} if np.ndim(values["sw"]) else {}
    nodes = [
        node("QuantizeLinear", "x si zi", "xq"), node("DequantizeLinear", "xq si zi", "xd"),
        node("DequantizeLinear", "wq sw zw", "w", **axis), node("Conv", "xd w bias", "c"),
        node("QuantizeLinear", "c sa za", "cq"), node("DequantizeLinear", "cq sa za", "cd"),
        node("DequantizeLinear", "vq sv zv", "v"), node("Conv", "cd v", "d"),
        node("QuantizeLinear", "d sb zb", "dq"), node("DequantizeLinear", "dq sb zb", "y"),
    ]  # fmt: skip
    return Case("constant", nodes, values, X, X, 0, quantised=True)


def notes_and_values(case: Case, folder: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return notes about layers, results of the programs, and results of ONNX Runtime node by
    node."""
    assert compiled(case, folder) == 0
    path = folder / "model.onnx"
    notes = [one for one in open_model(path).build(()).notes if one.startswith("layer ")]
    made = simulate(read_folder(folder / "out"), X, 1, check=True)
    assert {one.differences for one in made.compared} == {0}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    right = np.concatenate([session.run(None, {"x": X[at : at + 1]})[0] for at in range(len(X))])
    return notes, made.values["y"], right


CASES: list[tuple[dict[str, Any], Sequence[str]]] = [
    ({}, []),
    ({"sa": TINY}, ["layer 'c': its scale 3.41e-40 makes it constant"]),
    ({"sw": TINY}, ["layer 'c': its scale 3.41e-40 makes it constant"]),
    ({"si": TINY}, ["layer 'c': its scale 3.41e-40 makes it constant"]),
    ({"sb": TINY}, ["layer 'd': its scale 3.41e-40 makes it constant"]),
    ({"sv": np.float32(1e-30)}, ["layer 'd': its scale 1e-30 makes it constant"]),
    ({"sa": np.float32(1e20)}, ["layer 'c': its scale 1e+20 makes it constant"]),
    ({"sw": np.array([0.01, TINY, 0.02, 0.01], np.float32), "zw": np.zeros(4, I8)},
     ["layer 'c': its scale 3.41e-40 makes 1 of its 4 channels constant"]),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "says"), CASES)
def test_constant_layers(tmp_path: Path, changed: dict[str, Any], says: list[str]) -> None:
    notes, found, right = notes_and_values(network(**changed), tmp_path)
    assert notes == says
    off = np.abs(found - right)
    step = max(float(changed.get("sb", 0.05)), 1e-45)
    assert (off > 0.5 * step).mean() <= 0.02  # ties
    assert off.max() <= 1.01 * step


def test_the_bias_of_a_constant_layer_counts(tmp_path: Path) -> None:
    """Only the bias remains if products are 1e-40 or less."""
    bias = np.array([2.0, -1.0, 0.0, 0.5], np.float32)
    case = network(sw=TINY, bias=bias)
    case = case._replace(nodes=[*case.nodes[:5], node("DequantizeLinear", "cq sa za", "y")])
    _, found, right = notes_and_values(case, tmp_path)
    assert np.abs(found - right).max() == 0
    np.testing.assert_allclose(found[0, :, 0, 0], [2.0, -0.5, 0.0, 0.5], atol=1e-6)


def test_weights_that_quantise_to_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = (RNG.normal(size=(4, 3, 1, 1)) * 1e-40).astype(np.float32)
    bias = np.array([1.0, -2.0, 0.5, 0.0], np.float32)
    largest = f"{float(np.abs(weights).max()):.3g}"
    says = f"layer 'y': its weights of {largest} or less quantise to zero and make it constant"
    for one, text in ((weights, says), (weights * 0, "layer 'y': its weights are zero and make")):
        case = Case("zero", [node("Conv", "x w b", "y")], {"w": one, "b": bias}, X, X, 0)
        folder = tmp_path / str(len(text))
        folder.mkdir()
        assert compiled(case, folder, "--min-signal", "-99", "--force") == 0
        report = (folder / "out" / "report.json").read_text()
        assert text in report
        made = simulate(read_folder(folder / "out"), X, 1, check=True).values["y"]
        wanted = np.broadcast_to(bias.reshape(1, 4, 1, 1), made.shape)
        np.testing.assert_allclose(made, wanted, atol=0.02)


def tensor(scale: float) -> Tensor:
    return Tensor("t", (1, 1, 1, 1), "int8", scale, 0, stored=True)


def test_factors_of_sums() -> None:
    assert sum_factors(tensor(1e-30), tensor(1e-40), tensor(1.0), "s") == (0, 0, 0, 0)
    found = sum_factors(tensor(0.5), tensor(0.25), tensor(1e-38), "s")
    assert found.shift == 0
    assert found.a >= 1 << 20
    assert abs(found.a - 2 * found.b) <= 1
    small = sum_factors(tensor(0.5), tensor(1e-40), tensor(0.5), "s")
    assert (small.a > 0, small.b) == (True, 0)
    with pytest.raises(MapperError, match="needs a shift outside 0 to"):
        sum_factors(tensor(1.0), tensor(1e-10), tensor(1e-38), "s")
