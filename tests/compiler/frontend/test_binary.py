"""Binary models: samples that they need, and a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.calibration import pixel_samples
from mapper.compiler.compiled import Compiled
from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv
from mapper.compiler.model import open_model
from mapper.compiler.numerics.binary import signs
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from tests.compiler.models import saved
from tests.compiler.onnx_sessions import session_of
from tests.compiler.programs import compiled_model
from tests.storage.formats.onnx_models import model, node, onnx

RANDOM = np.random.default_rng(6)


def kernels(*shape: int) -> np.ndarray:
    return signs(RANDOM.normal(0, 1, shape)).astype(np.float32)


def test_models_that_need_other_ranges_require_samples(tmp_path: Path) -> None:
    """Only the input of a binary model has a range to measure."""
    nodes = [node("Conv", "x w", "a"), node("Sign", "a", "s"), node("Conv", "s k")]
    constants = {"w": kernels(4, 2, 3, 3), "k": kernels(3, 4, 3, 3)}
    path = saved(model(nodes, constants), tmp_path)
    found = pixel_samples(open_model(path), CompileSettings())
    assert found.x.shape == (16, 2, 5, 6)
    assert (found.x.min(), found.x.max()) == (0, 255)
    assert found.notes
    saved(model([*nodes[:1], node("Relu", "a")], constants), tmp_path)
    with pytest.raises(MapperError, match="give samples with --calibrate"):
        pixel_samples(open_model(path), CompileSettings())


@pytest.fixture(scope="module")
def gtsrb(data_dir: Path) -> Path:
    path = data_dir / "models" / "gtsrb_bnn_30.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    return path


def pictures(folder: Path) -> np.ndarray:
    """Return 100 photographs without their outermost pixels, and 20 images of random pixels."""
    rows = np.loadtxt(folder / "eran_cifar10_test100.csv", delimiter=",", dtype=np.float32)
    photographs = rows[:, 1:].reshape(-1, 32, 32, 3)[:, 1:31, 1:31]
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 30, 3))
    return np.concatenate([photographs, noise]).astype(np.float32)


def build(path: Path, shape: NpuShape) -> Compiled:
    source = open_model(path)
    settings = CompileSettings()
    return compile_model(source, shape, pixel_samples(source, settings), settings)


def sums_of(graph: Graph, rules: Any, x: np.ndarray) -> list[np.ndarray]:
    layers = [one.output for one in graph.nodes if isinstance(one.operator, Conv)]
    made = run_graph(graph, {next(iter(graph.inputs.values())).tensor: x}, rules, layers)
    return [made[layer] for layer in layers]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_b09_sums_of_a_trained_model(gtsrb: Path) -> None:
    """All three layers of gtsrb_bnn_30, in every image; in floating point they are exact."""
    compiled = build(gtsrb, NpuShape("large", weight_words=4096))
    x = pictures(gtsrb.parent)
    plain = Reader(gtsrb, FLOAT).read()
    dense = [one for one in plain.nodes if one.kind == "dense"]
    assert len(dense) == 1
    dense[0].operator = Conv(compiled.graph.nodes[-2].operator.window)  # type: ignore[attr-defined]
    found = sums_of(compiled.graph, INTEGER, x.astype(np.int64) - 128)
    for made, exact in zip(found, sums_of(plain, FLOATING, x), strict=True):
        assert np.array_equal(made, exact)
    assert [layer.shape[1:] for layer in found] == [(28, 28, 16), (27, 27, 32), (1, 1, 43)]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_sums_and_classes_of_onnxruntime(gtsrb: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needed for the comparison")
    network = onnx.load(str(gtsrb))
    names = [one.output[0] for one in network.graph.node if one.op_type in ("Conv", "MatMul")]
    network.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    x = pictures(gtsrb.parent)
    session = session_of(network.SerializeToString())
    wanted = session.run([*names, "activation_10"], {session.get_inputs()[0].name: x})
    compiled = build(gtsrb, NpuShape("large", weight_words=4096))
    found = sums_of(compiled.graph, INTEGER, x.astype(np.int64) - 128)
    for made, exact in zip(found, wanted, strict=False):
        axes = (0, 2, 3, 1) if exact.ndim == 4 else (0, 1)
        assert np.array_equal(made.reshape(exact.transpose(axes).shape), exact.transpose(axes))
    assert np.array_equal(found[-1].reshape(120, -1).argmax(1), wanted[-1].argmax(1))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_program_of_a_trained_model(gtsrb: Path) -> None:
    """On a core of the usual size; the host streams the weights of the last layer."""
    samples = pixel_samples(open_model(gtsrb), CompileSettings())
    made = compiled_model(gtsrb, samples.x, NpuShape())
    outcome = simulate(made.folder, pictures(gtsrb.parent)[::40], threads=1, check=True)
    assert [one.differences for one in outcome.compared] == [0, 0, 0]
    assert verify_compiled(made.folder)["instructions"] == len(made.compiled.code.program)
    assert outcome.values["activation_10"].shape == (3, 43)
