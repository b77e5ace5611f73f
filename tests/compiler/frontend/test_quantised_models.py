"""Trained quantised models: integers of the model, and of other runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import quantise
from mapper.compiler.numerics.reference import INTEGER
from tests.compiler.onnx_sessions import session_of

DEEPLOY = {
    "AnomalyDetection": 20, "CNN_Linear2": 14, "ImageClassification": 25, "KeywordSpotting": 21,
    "miniMobileNet": 10,
}  # fmt: skip


def opened(path: Path) -> Graph:
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    model = open_model(path)
    assert model.quantised
    return model.build(())


def photographs(data_dir: Path) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return 100 images, channels first, and their labels."""
    table = np.loadtxt(data_dir / "models" / "eran_cifar10_test100.csv", delimiter=",")
    images = table[:, 1:].reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images, np.float32), table[:, 0].astype(np.int64)


@pytest.mark.parametrize("name", list(DEEPLOY))
def test_d08_integer_networks_equal_every_activation(data_dir: Path, name: str) -> None:
    """90 golden tensors of five networks, and their outputs."""
    folder = data_dir / "models"
    graph = opened(folder / f"deeploy_{name}_network.onnx")
    assert not [node for node in graph.nodes if isinstance(node.operator, Host)]
    given, golden, results = (
        np.load(folder / f"deeploy_{name}_{part}.npz")
        for part in ("inputs", "activations", "outputs")
    )
    ((_, view),) = graph.inputs.items()
    x = given[given.files[0]]
    feeds = {view.tensor: view.stored(x) + view.tensor.zero_point}
    made = [node.output for node in graph.nodes]
    found = run_graph(graph, feeds, INTEGER, made)
    whole = {tensor: (found[tensor] - tensor.zero_point).transpose(0, 3, 1, 2) for tensor in made}
    values = [np.ascontiguousarray(one).ravel() for one in whole.values()]
    assert len(golden.files) == DEEPLOY[name]
    for number, part in enumerate(golden.files):
        wanted = golden[part].ravel()
        same = [one for one in values if one.size == wanted.size and np.array_equal(one, wanted)]
        assert same, (number, part)
    ((_, last),) = graph.outputs.items()
    assert np.array_equal(whole[last.tensor].ravel(), results[results.files[0]].ravel())


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "least"), [("pt_QOperator", 100), ("pt_QDQ", 100), ("pc_QDQ", 97)]
)
def test_c02_logits_equal_those_of_onnxruntime(data_dir: Path, name: str, least: int) -> None:
    """For QDQ models, onnxruntime uses its integer kernels on demand."""
    pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
    import onnx

    path = data_dir / "models" / f"mlperf_resnet8_{name}.onnx"
    graph = opened(path)
    images, _ = photographs(data_dir)
    softmax = next(node for node in graph.nodes if isinstance(node.operator, Host))
    logits = softmax.inputs[0]
    model = onnx.load(str(path))
    stored = logits.name
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(stored))
    session = session_of(model.SerializeToString())
    ((given, view),) = graph.inputs.items()
    wanted = np.concatenate([session.run([stored], {given: one[None]})[0] for one in images])
    taken = view.tensor
    maps = quantise(view.stored(images), taken.scale, taken.zero_point, taken.bits)
    whole = run_graph(graph, {taken: maps}, INTEGER, [logits])[logits]
    offset = 128 if wanted.dtype == np.uint8 else 0
    same = (whole.reshape(100, -1) + offset == wanted.reshape(100, -1)).all(1)
    assert same.sum() >= least
