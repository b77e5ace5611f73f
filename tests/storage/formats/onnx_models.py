"""ONNX test models.

All weights of the small models are positive and no bias is added. So the sum over all paths through
the network, of the products of weights, is the response of the model to a unit vector, as computed
by the reference implementation of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.store.network import NetworkFile
from tests.storage.formats.conftest import edges_of

onnx = pytest.importorskip("onnx", reason="ONNX models need onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
reference = pytest.importorskip("onnx.reference")

Convert = Callable[..., Path]
Array = Any
RNG = np.random.default_rng(2)


def weights(*shape: int) -> Array:
    """Return whole numbers from 1 to 3, which are exact in every unit."""
    return RNG.integers(1, 4, shape).astype(np.float32)


def model(
    nodes: Sequence[Any],
    constants: dict[str, Array] | None = None,
    inputs: dict[str, Sequence[int | str | None]] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> Any:
    given = inputs if inputs is not None else {"x": (1, 2, 5, 6)}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(
        kind, names, output.split(), name=f"n_{output.split()[0]}", **attributes
    )


def response(net: Path, inputs: int, outputs: int) -> Array:
    """Return the sum over all paths from each first neuron to each last one; (outputs, inputs)."""
    with NetworkFile(net) as network:
        n = network.vertices
    matrix = np.zeros((n, n))
    for (source, target), weight in edges_of(net).items():
        assert source < target
        matrix[target, source] = weight
    return np.linalg.inv(np.eye(n) - matrix)[n - outputs :, :inputs]


def check(converted: Convert, made: Any, size: Sequence[int] = (1, 2, 5, 6)) -> Path:
    """Import a model of one input and compare it with the computed response."""
    net = converted("a.onnx", made.SerializeToString())
    evaluator = reference.ReferenceEvaluator(made)
    inputs = int(np.prod(size))
    columns = []
    for index in range(inputs):
        unit = np.zeros(inputs, np.float32)
        unit[index] = 1
        columns.append(np.asarray(evaluator.run(None, {"x": unit.reshape(size)})[0]).ravel())
    expected = np.array(columns).T
    assert np.allclose(response(net, inputs, len(expected)), expected, rtol=1e-4)
    assert expected.any()
    return net
