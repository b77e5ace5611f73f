"""The plan of the host's work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.partition.hostplan import plan_host
from mapper.compiler.quantise.convert import Converter, Precision
from mapper.compiler.quantise.ranges import measure_ranges
from mapper.errors import MapperError
from tests.storage.formats.onnx_models import model, node, onnx


def test_nodes_of_the_host_between_those_of_cores_are_named(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {name: random.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32) for name in "ab"}
    nodes = [node("Conv", "x a", "c"), node("Sigmoid", "c", "s"), node("Conv", "s b")]
    onnx.save(model(nodes, weights, {"x": (1, 4, 8, 8)}), str(tmp_path / "model.onnx"))
    reader = Reader(tmp_path / "model.onnx", FLOAT)
    graph = reader.read()
    ((_, view),) = graph.inputs.items()
    feeds = {view.tensor: random.normal(0, 1, (4, 8, 8, 4)).astype(np.float32)}
    converter = Converter(graph, Precision())
    made = converter.convert(measure_ranges(graph, feeds, converter.quantised_tensors()))
    with pytest.raises(MapperError, match="node 'n_s' runs on the host, and nodes behind it on"):
        plan_host(made, reader.opsets)
