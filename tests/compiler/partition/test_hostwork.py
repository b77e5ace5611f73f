"""Cycles of the host for nodes between functions of cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.explain import explain
from mapper.compiler.model import open_model
from mapper.compiler.optimise import optimised
from mapper.compiler.partition.functions import divide
from mapper.compiler.partition.hostwork import host_notes
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.fuse import fuse
from tests.storage.formats.onnx_models import model, node, onnx

SIDE, CHANNELS = 8, 6
MAP = CHANNELS * SIDE * SIDE
CONSTANTS = {
    "a": np.ones((CHANNELS, CHANNELS, 3, 3), np.float32),
    "b": np.ones((10, CHANNELS, 5, 5), np.float32),
    "c": np.ones((CHANNELS, 10, 3, 3), np.float32),
    "t": np.ones((CHANNELS, 4, 2, 2), np.float32),
    "d": np.ones((CHANNELS, 4, 3, 3), np.float32),
    "m": np.ones((MAP, 64), np.float32),
    "n": np.ones((96, 64), np.float32),
}
SAME = {"pads": [1] * 4}
CASES: dict[str, tuple[list[Any], str, int]] = {
    "elements": ([node("Asinh", "x1", "x2"), node("Conv", "x2 a", **SAME)], "n_x2", 3 * MAP),
    # a kernel of 5x5 over 6 channels for each of 10 x 64 results
    "convolution": (
        [node("Conv", "x1 b", "x2", pads=[2] * 4), node("Conv", "x2 c", **SAME)],
        "n_x2", MAP + 640 * 150 + 640,
    ),
    # each of 384 inputs is multiplied with 4 x 2 x 2 weights
    "transposed": (
        [node("ConvTranspose", "x1 t", "x2", strides=[2, 2]), node("Conv", "x2 d", **SAME)],
        "n_x2", MAP + MAP * 16 + 4 * 256,
    ),
    "product": (
        [node("Flatten", "x1", "f"), node("MatMul", "f m", "x2"), node("Gemm", "x2 n", transB=1)],
        "n_x2", MAP + MAP * 64 + 64,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_work_of_a_node(name: str, tmp_path: Path) -> None:
    """Elements that are read and written, and products or elements of the node."""
    nodes, host, wanted = CASES[name]
    nodes = [node("Conv", "x a", "x0", **SAME), node("Relu", "x0", "x1"), *nodes]
    used = {one for each in nodes for one in each.input}
    constants = {key: one for key, one in CONSTANTS.items() if key in used}
    made = model(nodes, constants, {"x": (1, CHANNELS, SIDE, SIDE)})
    onnx.save(made, str(tmp_path / "model.onnx"))
    settings = CompileSettings(keep=() if name == "elements" else (host,))
    path = tmp_path / "model.onnx"
    for speed, cycles in ((1.0, wanted), (4.0, -(-wanted // 4))):
        rows = {row.node: row for row in explain(open_model(path), settings, speed)}
        assert rows[host].where == "host"
        assert {row.node: row.cycles for row in rows.values() if row.cycles} == {host: cycles}


def test_notes_name_operator_reason_and_cycles(tmp_path: Path) -> None:
    """The node between two layers costs cycles of the period, those at the end none."""
    ends = [node("Asinh", f"x{number}", f"x{number + 1}") for number in range(3, 8)]
    nodes = [
        node("Conv", "x a", "x1", **SAME), node("Asinh", "x1", "x2"),
        node("Conv", "x2 c", "x3", **SAME), *ends[:-1], node("Asinh", "x7"),
    ]  # fmt: skip
    constants = {"a": CONSTANTS["a"], "c": CONSTANTS["a"]}
    made = model(nodes, constants, {"x": (1, CHANNELS, SIDE, SIDE)})
    onnx.save(made, str(tmp_path / "model.onnx"))
    graph = optimised(open_model(tmp_path / "model.onnx"), ())
    lines = host_notes(graph, divide(graph, fuse(graph)), 2)
    why = "(Asinh) stays on the host: no core computes Asinh"
    assert lines[0] == f"n_x2 {why}; it takes {3 * MAP // 2} cycles of the host per frame"
    assert lines[1] == f"n_x4 {why}; it does not delay the cores, at an end of the model"
    assert [len(lines), lines[-1]] == [5, "2 more nodes on the host; --explain lists them"]
