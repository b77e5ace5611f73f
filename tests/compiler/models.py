"""ONNX models through the front end of the compiler, compared with the reference of ONNX itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.ir.graph import Graph
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from tests.storage.formats.onnx_models import model, onnx, reference


def onnx_model(
    nodes: Sequence[Any], constants: Mapping[str, Any], shape: Sequence[int | str | None],
    outputs: Sequence[str] = ("y",), opset: int = 17, domains: Sequence[str] = (),
    kind: int = onnx.TensorProto.FLOAT,
) -> Any:  # fmt: skip
    """Return a model of the input x that ONNX Runtime accepts.

    domains : other operator sets, of version 1; kind : element type of the input
    """
    arrays = {name: np.asarray(one) for name, one in constants.items()}
    made = model(nodes, arrays, {"x": shape}, outputs, opset)
    made.ir_version = 9
    made.graph.input[0].type.tensor_type.elem_type = kind
    made.opset_import.extend(onnx.helper.make_opsetid(domain, 1) for domain in domains)
    return made


def saved(made: Any, folder: Path) -> Path:
    """Save a model as model.onnx."""
    path = folder / "model.onnx"
    onnx.save(made, str(path))
    return path


def read(made: Any, folder: Path) -> Graph:
    """Return the graph of a floating-point model, without passes."""
    return Reader(saved(made, folder), FLOAT).read()


def computed(graph: Graph, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a graph's results for ONNX inputs, in the form of ONNX."""
    feeds = {view.tensor: view.stored(values[name]) for name, view in graph.inputs.items()}
    wanted = [view.tensor for view in graph.outputs.values()]
    made = run_graph(graph, feeds, FLOATING, wanted)
    return {name: view.array(made[view.tensor]) for name, view in graph.outputs.items()}


def expected(model: Any, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of the ONNX reference implementation, one sample at a time."""
    evaluator = reference.ReferenceEvaluator(model)
    names = [output.name for output in model.graph.output]
    frames = len(next(iter(values.values())))
    rows = [
        evaluator.run(None, {name: value[at : at + 1] for name, value in values.items()})
        for at in range(frames)
    ]
    return {
        name: np.concatenate([np.atleast_1d(row[k]) for row in rows])
        for k, name in enumerate(names)
    }


def values_of(model: Any, seed: int = 0, frames: int = 2) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    constants = {one.name for one in model.graph.initializer}
    shapes = {
        given.name: [d.dim_value for d in given.type.tensor_type.shape.dim]
        for given in model.graph.input
        if given.name not in constants
    }
    return {
        name: random.normal(0, 1, (frames, *shape[1:])).astype(np.float32)
        for name, shape in shapes.items()
    }


def agree(graph: Graph, model: Any, tolerance: float = 1e-5) -> None:
    """Check that all outputs equal the reference, relative to the largest."""
    values = values_of(model)
    wanted = expected(model, values)
    found = computed(graph, values)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape, name
        largest = float(np.abs(array).max())
        assert np.abs(found[name] - array).max() <= tolerance * max(largest, 1e-3), name


def check(model: Any, folder: Path) -> Graph:
    """Check that a model is read, needs no host, and computes the reference results."""
    graph = read(model, folder)
    hosts = [(node.label, node.operator.why) for node in graph.nodes if node.kind == "host"]  # type: ignore[attr-defined]
    assert not hosts
    agree(graph, model)
    return graph
