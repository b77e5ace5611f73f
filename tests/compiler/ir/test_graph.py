"""Graphs: nodes are in an executable order, and files contain all of a graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.text import graph_from_json, graph_text, graph_to_json
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.formulas import quantise
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.registry import optimise
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.quantisation.test_convert import quantised

MODELS = ("mnist-8", "mnist_pytorch_ort", "mlperf_resnet8_fp32", "mlperf_resnet8_pc_QDQ",
          "mlperf_resnet8_pt_QOperator", "deeploy_miniMobileNet_network", "squeezenet_winml",
          "tfc_2w2a")  # fmt: skip


def require_order(graph: Graph) -> None:
    """Check that nodes read only constants, inputs and earlier results, and that each map has one
    source.
    """
    made = {view.tensor for view in graph.inputs.values()}
    for node in graph.nodes:
        assert {tensor for tensor in node.inputs if tensor.value is None} <= made, node.label
        assert not made & set(node.outputs), node.label
        assert node.sources, "each node names the model nodes it computes"
        made |= set(node.outputs)
    assert {view.tensor for view in graph.outputs.values()} <= made


@pytest.mark.parametrize("name", MODELS)
def test_a01_nodes_are_in_an_executable_order(name: str, data_dir: Path) -> None:
    """A01: after reading, and after the passes."""
    path = data_dir / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    graph = open_model(path).build(())
    require_order(graph)
    optimise(graph)
    require_order(graph)


@pytest.mark.parametrize("seed", range(6))
def test_a01_graphs_round_trip_through_files(seed: int) -> None:
    """A01: nodes, tensors with type, shape, scale, zero point and place, and their users."""
    build = random_network(seed)
    require_order(build.graph)
    optimise(build.graph)
    graph = quantised(build).graph
    require_order(graph)
    for at, tensor in enumerate(graph.tensors()):
        tensor.address = at if tensor.stored else None
    data, arrays = graph_to_json(graph)
    back = graph_from_json(json.loads(json.dumps(data)), arrays)
    require_order(back)
    for one, other in zip(graph.tensors(), back.tensors(), strict=True):
        fields = ("name", "shape", "type", "scale", "zero_point", "stored", "address")
        for field in fields:
            assert getattr(one, field) == getattr(other, field), field
        users = ([node.label for node in made.users(one if made is graph else other)]
                 for made in (graph, back))  # fmt: skip
        assert len({tuple(found) for found in users}) == 1
    assert [(node.kind, node.sources) for node in graph.nodes] == [
        (node.kind, node.sources) for node in back.nodes
    ]
    ((_, view),) = graph.inputs.items()
    stored = quantise(build.samples(2), view.tensor.scale, view.tensor.zero_point, view.tensor.bits)
    results = []
    for made in (graph, back):
        taken, wanted = made.inputs["x"].tensor, made.outputs["y"].tensor
        results.append(run_graph(made, {taken: stored}, INTEGER, [wanted])[wanted])
    assert np.array_equal(*results)
    lines = graph_text(graph).splitlines()
    assert [line.split()[0] for line in lines] == [node.kind for node in graph.nodes]
    assert all(node.output.name in line for node, line in zip(graph.nodes, lines, strict=True))
