"""Partly quantised models: samples give scales to the rest, and change nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.compiled import Compiled
from mapper.compiler.ir.node import Host, Requantise
from mapper.compiler.model import Model, open_model
from mapper.compiler.pipeline import compile_model
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.score import Dataset, quantise_graph
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from storage.samples import SampleArrays
from tests.compiler.programs import SHAPE, folder_of
from tests.compiler.quantised import Net, run_integers
from tests.reference.quantised import Array, How
from tests.storage.formats.onnx_models import reference

pytestmark = pytest.mark.jit


def in_part() -> Net:
    """Build a quantised convolution, a real residual sum and dense layer, and a quantised pool
    between.
    """
    net = Net((1, 3, 8, 8), opset=19)
    taken, made = How(np.float32(0.02), 130, "uint8"), How(np.float32(0.04), 110, "uint8")
    net.stored("x", taken, "q")
    net.real("q", taken, "d")
    w = net.random.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8)
    net.node("DequantizeLinear", [net.constant(w), net.constant(np.float32(0.004)),
                                  net.constant(np.int8(0))], "w")  # fmt: skip
    net.node("Conv", ["d", "w"], "c", pads=(1, 1, 1, 1))
    net.stored("c", made, "cq")
    net.real("cq", made, "cd")
    kernel = net.constant(net.random.normal(0, 0.2, (6, 6, 3, 3)).astype(np.float32))
    bias = net.constant(net.random.normal(0, 0.3, 6).astype(np.float32))
    net.node("Conv", ["cd", kernel, bias], "f", pads=(1, 1, 1, 1))
    net.node("Relu", ["f"], "r")
    net.node("Add", ["r", "cd"], "s")
    net.node("MaxPool", ["s"], "p", kernel_shape=(2, 2), strides=(2, 2))
    net.node("Flatten", ["p"], "flat")
    dense = net.constant(net.random.normal(0, 0.1, (96, 5)).astype(np.float32))
    net.node("MatMul", ["flat", dense], "y")
    return net


def samples(net: Net, frames: int = 24) -> Array:
    return np.concatenate([net.sample() for _ in range(frames)])


def compiled(model: Model, x: Array | None, **settings: Any) -> Compiled:
    given = None if x is None else SampleArrays(x, None, [])
    return compile_model(model, SHAPE, given, CompileSettings(**settings))


def wanted(net: Net, x: Array) -> Array:
    evaluator = reference.ReferenceEvaluator(net.model)
    return np.concatenate([evaluator.run(None, {"x": one[None]})[0] for one in x])


def test_the_rest_runs_on_cores_with_samples(tmp_path: Path) -> None:
    net = in_part()
    x = samples(net)
    model = open_model(net.save(tmp_path))
    assert model.quantised
    made = compiled(model.to_calibrate(), x)
    graph = made.graph
    assert not [node for node in graph.nodes if isinstance(node.operator, Host)]
    assert all(one.type != "float32" for node in graph.nodes for one in node.outputs)
    found, exact = run_integers(graph, x)["y"], wanted(net, x)
    signal = 10 * np.log10((exact**2).sum() / ((exact - found) ** 2).sum())
    assert signal > 25
    assert made.verified is not None
    assert any("partly quantised" in line for line in made.notes)
    settings = CompileSettings()
    target = Target(Chip("one", 1, 1), SHAPE, settings)
    folder = folder_of(made, target)
    outcome = simulate(folder, x[:2], threads=1, check=True)
    assert sum(one.differences for one in outcome.compared) == 0
    np.testing.assert_array_equal(outcome.values["y"], found[:2])


def test_quantised_layers_keep_their_numbers(tmp_path: Path) -> None:
    """The first layer's requantisation is the same with and without samples."""
    net = in_part()
    model = open_model(net.save(tmp_path))
    hows = []
    for graph in (model.build(()), compiled(model.to_calibrate(), samples(net)).graph):
        node = next(one for one in graph.nodes if isinstance(one.operator, Requantise))
        assert isinstance(node.operator, Requantise)
        hows.append(repr((node.operator.how, node.output.scale, node.output.zero_point)))
    assert hows[0] == hows[1]


def test_without_samples_the_host_computes_the_rest(tmp_path: Path) -> None:
    net = in_part()
    x = samples(net, 3)
    graph = open_model(net.save(tmp_path)).build(())
    hosted = {one.operator.node.kind for one in graph.nodes if isinstance(one.operator, Host)}
    assert {"Conv", "Relu", "Add", "MaxPool", "MatMul"} <= hosted
    # halves of the first layer's steps: float32 rounds some of them differently from integers
    np.testing.assert_allclose(run_integers(graph, x)["y"], wanted(net, x), atol=0.02)


def test_more_bits_are_refused(tmp_path: Path) -> None:
    net = in_part()
    model = open_model(net.save(tmp_path)).to_calibrate()
    with pytest.raises(MapperError, match="partly quantised"):
        quantise_graph(model.build(()), {}, Dataset({}), Precision(bits=16), "minmax")


def test_a_quantised_model_has_no_rest(tmp_path: Path) -> None:
    net = Net((1, 4))
    how = How(np.float32(0.1), 3, "uint8")
    net.stored("x", how, "q")
    net.real("q", how, "y")
    assert open_model(net.save(tmp_path)).build_in_part is None
