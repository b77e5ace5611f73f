"""Nodes with any number of inputs and outputs are read, or refused in one line."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.model import HANDLERS, open_model
from mapper.errors import MapperError
from storage.errors import StorageError
from storage.formats import import_network
from storage.formats.layers.onnxbuild import ENDING, MEASURING, MOVING, PAIRING, PASSING
from storage.formats.layers.onnxops import OPERATORS
from tests.storage.formats.onnx_models import helper, numpy_helper, onnx

KINDS = sorted({*HANDLERS, *OPERATORS, *ENDING, *MEASURING, *MOVING, *PAIRING, *PASSING,
                "Constant", "ConstantOfShape", "If", "Quant", "QLinearConv"})  # fmt: skip
BATCHES = (1, 2)


def write(path: Path, kind: str, inputs: int, outputs: int, batch: int) -> None:
    """Write a model with a node of some inputs and outputs, whose first output is used."""
    names = [["x", "w", "b", "s"][at % 4] for at in range(inputs)]
    node = helper.make_node(kind, names, [f"y{at}" for at in range(outputs)], "n")
    relu = helper.make_node("Relu", ["y0" if outputs else "x"], ["z"], "r")
    graph = helper.make_graph(
        [node, relu], "g", [helper.make_tensor_value_info("x", 1, [batch, 2, 3, 3])],
        [helper.make_empty_tensor_value_info("z")],
        [numpy_helper.from_array(np.ones(shape, np.float32), name)
         for name, shape in (("w", (2, 2, 1, 1)), ("b", 2), ("s", 1))],
    )  # fmt: skip
    imports = [helper.make_opsetid(one, 17 if not one else 1) for one in ("", "com.microsoft")]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), str(path))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_inputs_and_outputs(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for inputs, outputs, batch in product((0, 1, 2, 4, 9), (0, 1, 3), BATCHES):
        write(path, kind, inputs, outputs, batch)
        try:
            open_model(path)
        except MapperError as error:
            assert "\n" not in str(error)
        try:
            import_network(path, tmp_path / "net.bin")
        except StorageError as error:
            assert str(path) in str(error)
