"""Models of few bits in QONNX, compared with float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.cdriver.hoststeps import driver_of
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import Outcome, simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.calibration import pixel_samples
from mapper.compiler.compiled import Compiled
from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.frontend.qonnx import EVALUATORS
from mapper.compiler.ir.node import Host, Requantise, Threshold
from mapper.compiler.model import open_model
from mapper.compiler.numerics.binary import bipolar, quant, trunc
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.pipeline import compile_model
from mapper.compiler.quantisation.exact import whole_kernels
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from tests.compiler import models
from tests.compiler.programs import folder_of
from tests.reference import qonnx as twin
from tests.storage.formats.onnx_models import helper, model, node, onnx

RANDOM = np.random.default_rng(8)
DOMAIN = "onnx.brevitas"
SHAPE = NpuShape("large", weight_words=2048)
TARGET = Target(Chip("one", 1, 1), SHAPE, CompileSettings())


def build(path: Path) -> Compiled:
    source, settings = open_model(path), CompileSettings()
    return compile_model(source, SHAPE, pixel_samples(source, settings), settings)


def simulated(compiled: Compiled, x: np.ndarray) -> Outcome:
    folder = folder_of(compiled, TARGET)
    assert verify_compiled(folder)["instructions"] == len(compiled.code.program)
    return simulate(folder, x, threads=1, check=True)


def few_bits(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(
        kind, inputs.split(), [output], name=f"n_{output}", domain=DOMAIN, **attributes
    )


def saved(made: Any, path: Path) -> Path:
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return models.saved(made, path.parent)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "accuracy"), [("tfc_1w1a", 0.912), ("tfc_2w2a", 0.953)])
def test_every_layer_of_trained_models(data_dir: Path, name: str, accuracy: float) -> None:
    """1,000 digits: every stored number, and the classes."""
    path = data_dir / "models" / f"{name}.onnx"
    digits = data_dir / "models" / "mnist_test_1000.npz"
    if not (path.exists() and digits.exists()):
        pytest.skip(f"{path.name} is not there")
    with np.load(digits) as data:
        labels, x = data["y"], (data["x"].reshape(-1, 1, 28, 28) / 255).astype(np.float32)
    exact = twin.run(onnx.load(str(path)), x)
    compiled = build(path)
    graph = compiled.graph
    layers = [one.output for one in graph.nodes if isinstance(one.operator, Requantise | Threshold)]
    sums = [one.output for one in graph.nodes if one.kind == "conv"][-1]
    view = next(iter(graph.inputs.values()))
    found = run_graph(graph, {view.tensor: view.stored(x)}, INTEGER, [*layers, sums])
    assert len(layers) == 3
    for layer in (*layers, sums):
        real = dequantise(found[layer], layer.scale, layer.zero_point)
        assert np.array_equal(real.reshape(1000, -1), exact[layer.name])
    assert (found[sums].reshape(1000, -1).argmax(1) == labels).mean() == accuracy
    kinds = {one.kind for one in graph.nodes}
    assert ("threshold" in kinds) == (name == "tfc_1w1a")
    assert ("requantise" in kinds) == (name == "tfc_2w2a")


@pytest.mark.jit
@pytest.mark.parametrize("name", ["tfc_1w1a", "tfc_2w2a"])
def test_programs_of_trained_models(data_dir: Path, name: str) -> None:
    path = data_dir / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    x = RANDOM.uniform(0, 1, (5, 1, 28, 28)).astype(np.float32)
    compiled = build(path)
    outcome = simulated(compiled, x)
    assert [one.differences for one in outcome.compared] == [0] * 4
    exact = list(twin.run(onnx.load(str(path)), x).values())[-1]
    ((_, made),) = outcome.values.items()
    assert np.abs(made - exact).max() < 1e-5 * np.abs(exact).max()


def layered(bits: int, signed: int, narrow: int, zero: float, relu: bool) -> Any:
    """Return two layers of integer weights, with batch normalisation of negative and zero
    factors."""
    unsigned = {"signed": signed, "narrow": narrow, "rounding_mode": "ROUND"}
    nodes = [
        few_bits("Quant", "x s z b", "q", **unsigned),
        few_bits("Quant", "w ws zero wb", "wq", signed=1, narrow=1, rounding_mode="ROUND"),
        node("MatMul", "q wq", "m"),
        node("BatchNormalization", "m g h mean v", "n"),
        *([node("Relu", "n", "r")] if relu else []),
        few_bits("Quant", "r s z b" if relu else "n s z b", "q2", **unsigned),
        few_bits("BipolarQuant", "k one", "kq"),
        node("MatMul", "q2 kq", "y"),
    ]
    constants = {
        "s": np.array(0.25), "z": np.array(zero), "b": np.array(bits), "zero": np.array(0),
        "w": RANDOM.normal(0, 1, (40, 12)), "ws": np.array(0.4), "wb": np.array(3),
        "g": np.array([1, -2, 0, 0.3] * 3), "h": RANDOM.normal(0, 2, 12),
        "mean": RANDOM.normal(0, 2, 12), "v": RANDOM.uniform(0.5, 3, 12),
        "k": RANDOM.normal(0, 1, (12, 5)), "one": np.array(1),
    }  # fmt: skip
    return model(
        nodes, {name: value.astype(np.float32) for name, value in constants.items()},
        {"x": (1, 40)},
    )  # fmt: skip


CASES = [
    (2, 1, 1, 0, False), (3, 1, 0, 0, False), (4, 0, 0, 0, True), (8, 0, 0, 0, True),
    (8, 1, 0, 0, False), (5, 0, 1, 7, False), (1, 0, 0, 0, True), (8, 0, 0, 131, False),
]  # fmt: skip


@pytest.mark.jit
@pytest.mark.parametrize(("bits", "signed", "narrow", "zero", "relu"), CASES)
def test_levels_of_all_kinds(
    tmp_path: Path, bits: int, signed: int, narrow: int, zero: float, relu: bool
) -> None:
    """Signed and unsigned, narrow and full, with a zero point; programs included."""
    made = layered(bits, signed, narrow, zero, relu)
    path = saved(made, tmp_path / "model.onnx")
    x = RANDOM.normal(0, 3, (30, 40)).astype(np.float32)
    exact = twin.run(made, x)
    compiled = build(path)
    outcome = simulated(compiled, x)
    assert {one.differences for one in outcome.compared} == {0}
    stored = [one.output for one in compiled.graph.nodes if one.kind == "requantise"]
    view = next(iter(compiled.graph.inputs.values()))
    found = run_graph(compiled.graph, {view.tensor: view.stored(x)}, INTEGER, stored)
    (levels,) = stored
    assert np.array_equal(
        dequantise(found[levels], levels.scale, levels.zero_point).reshape(30, -1), exact["q2"]
    )
    assert np.array_equal(outcome.values["y"], exact["y"].astype(np.float32))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_constants_are_evaluated(bits: int, signed: bool, narrow: bool) -> None:
    x = RANDOM.normal(0, 20, (4, 5)).astype(np.float32)
    for rounding in ("ROUND", "FLOOR", "CEIL"):
        scale, zero = np.full((4, 1), 0.5, np.float32), np.zeros(1, np.float32)
        made = quant(x, scale, zero, bits, (signed, narrow), rounding)
        wanted = twin.quant(x, scale, zero, bits, signed, narrow, rounding.encode())
        assert np.array_equal(made, wanted.astype(np.float32))
    assert bipolar(np.array([-0.1, 0, 2]), np.array(0.5)).tolist() == [-0.5, 0.5, 0.5]


def test_truncation_cuts_bits_off() -> None:
    x = np.array([0.0, 3, 4, 7, -1, -4, 15]) * 0.5
    made = trunc(x, np.array(0.5), np.array(0), (6, 4), "FLOOR")
    assert made.tolist() == [0, 0, 0.5, 0.5, -0.5, -0.5, 1.5]


def test_truncation_in_a_model(tmp_path: Path) -> None:
    """Truncate the sums of an integer layer."""
    nodes = [
        few_bits("Quant", "x s zero b", "q", signed=0, narrow=0, rounding_mode="ROUND"),
        node("MatMul", "q w", "m"),
        few_bits("Trunc", "m s zero before behind", "t", rounding_mode="FLOOR"),
        node("MatMul", "t k", "y"),
    ]
    constants = {
        "s": np.array(0.5), "zero": np.array(0), "b": np.array(4), "before": np.array(8),
        "behind": np.array(5), "w": RANDOM.integers(-1, 2, (20, 6)),
        "k": RANDOM.integers(-1, 2, (6, 3)),
    }  # fmt: skip
    floats = {name: value.astype(np.float32) for name, value in constants.items()}
    path = saved(model(nodes, floats, {"x": (1, 20)}), tmp_path / "model.onnx")
    x = RANDOM.uniform(0, 8, (50, 20)).astype(np.float32)
    compiled = build(path)
    view, end = next(iter(compiled.graph.inputs.values())), compiled.graph.outputs["y"].tensor
    made = run_graph(compiled.graph, {view.tensor: view.stored(x)}, INTEGER, [end])[end]
    q = twin.quant(x, 0.5, 0, 4, signed=0)
    wanted = np.floor(np.round(q @ floats["w"] / 0.5) / 8) * 0.5 @ floats["k"]
    assert np.array_equal(dequantise(made, end.scale, 0).reshape(50, 3), wanted)


def test_scaling_of_whole_sums_stays_on_the_host(tmp_path: Path) -> None:
    made = layered(4, 1, 0, 0, relu=False)
    made.graph.node[-1].output[0] = made.graph.node[-1].name = "sums"
    made.graph.node.append(node("Mul", "sums third", "y"))
    made.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array(1 / 3, np.float32), "third")
    )
    compiled = build(saved(made, tmp_path / "model.onnx"))
    hosts = [one.operator for one in compiled.graph.nodes if isinstance(one.operator, Host)]
    assert [one.why for one in hosts] == ["it only scales whole sums, which a core would round"]


def test_whole_kernels() -> None:
    whole = RANDOM.integers(-7, 8, (5, 3, 3, 4))
    whole[:, 0, 0, 0] = 7
    whole[4] = 0
    scales = np.array([0.3, 1e-3, 5.0, 0.77, 1.0])
    found = whole_kernels((whole * scales.reshape(-1, 1, 1, 1)).astype(np.float32))
    assert found is not None
    assert np.array_equal(found[0], whole)
    assert np.allclose(found[1][:4], scales[:4], rtol=1e-6)
    assert whole_kernels(RANDOM.normal(0, 1, (3, 1, 1, 64))) is None
    assert whole_kernels(np.full((1, 2), np.nan)) is None


BAD = [
    ({"s": np.array([0.1, 0.2] * 20)}, {}, "scale varies within the map"),
    ({"s": np.array(0.0)}, {}, "its scale is 0; give a finite number above 0"),
    ({"s": np.array(np.nan)}, {}, "its scale is nan"),
    ({"z": np.array(0.5)}, {}, "its zero point is 0.5; cores take whole numbers"),
    ({"b": np.array(9)}, {}, "its numbers have 9 bits; cores take 1 to 8"),
    ({"b": np.array(2.5)}, {}, "its numbers have 2.5 bits"),
    ({}, {"rounding_mode": "CEIL"}, "its rounding_mode is CEIL; cores take ROUND"),
]


@pytest.mark.parametrize(("constants", "attributes", "text"), BAD)
def test_unsupported_levels(
    tmp_path: Path, constants: dict[str, Any], attributes: dict[str, Any], text: str
) -> None:
    given = {"s": np.array(0.5), "z": np.array(0), "b": np.array(4)} | constants
    made = model(
        [few_bits("Quant", "x s z b", "y", **attributes)],
        {name: value.astype(np.float32) for name, value in given.items()}, {"x": (1, 40)},
    )  # fmt: skip
    path = saved(made, tmp_path / "model.onnx")
    with pytest.raises(MapperError, match=f"node 'n_y' .Quant.: .*{text}"):
        Reader(path, FLOAT, evaluators=EVALUATORS).read()


def test_c_drivers_name_unsupported_levels(data_dir: Path) -> None:
    path = data_dir / "models" / "tfc_1w1a.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    with pytest.raises(MapperError, match=r"input .0. is quantised to levels .* omit --emit c"):
        driver_of(folder_of(build(path), TARGET))
