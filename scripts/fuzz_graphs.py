"""Small models of several styles, whose graphs `fuzz_damages` damages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import helper, numpy_helper

from tests.compiler.bad_input.good import CHANNELS, SIZE, good
from tests.compiler.random_models import quantised


class Base(NamedTuple):
    """A model that compiles. real : whether it has floating-point tensors that need calibration"""

    name: str
    model: Any
    real: bool


def good_models(folder: Path) -> list[Base]:
    """Return models that compile; `good` has samples for them. folder : folder for files of
    tools
    """
    plain = good()
    whole, samples = plain.model(), plain.samples["x"]
    random = np.random.default_rng(0)
    found = [Base("float", whole, True), Base("moved", _moved(), True)]
    for style in ("QDQ", "QDQ channel", "QOperator", "dynamic"):
        model = quantised(whole, samples, style, random, folder)  # type: ignore[arg-type]
        assert model is not None, style
        found.append(Base(style, model, style == "dynamic"))
    return found


def _moved() -> Any:
    """Return a model that moves elements, with constants that nodes compute from shapes."""
    make, random = helper.make_node, np.random.default_rng(1)

    def tensor(*shape: int) -> Any:
        return random.normal(0, 0.3, shape).astype(np.float32)

    constants = {
        "w": tensor(4, CHANNELS, 1, 1), "m": tensor(4 * 9, 3), "one": np.array([1]),
        "zero": np.array([0]), "minus": np.array([-1]), "size": np.array([2]),
        "four": np.array([4]), "from": np.array(0), "to": np.array(4), "by": np.array(1),
        "pads": np.array([0, 0, 0, 0, 0, 0, 0, 0]), "scales": np.float32([1, 1, 2, 2]),
        "starts": np.array([0, 0]), "ends": np.array([6, 6]), "axes": np.array([2, 3]),
        "halves": np.array([2, 2]), "times": np.array([1, 4, 1, 1]), "unit": tensor(1, 1, 1, 1),
    }  # fmt: skip
    nodes = [
        make("Conv", ["x", "w"], ["c"], "conv"),
        make("Split", ["c", "halves"], ["c1", "c2"], "split", axis=1),
        make("Concat", ["c2", "c1"], ["j"], "concat", axis=1),
        make("Resize", ["j", "", "scales"], ["u"], "resize", mode="nearest"),
        make("Slice", ["u", "starts", "ends", "axes"], ["s"], "slice"),
        make("Pad", ["s", "pads"], ["a"], "pad"),
        make("Tile", ["unit", "times"], ["t"], "tile"),
        make("Range", ["from", "to", "by"], ["r"], "range"),
        make("Cast", ["r"], ["rf"], "cast", to=1),
        make("Unsqueeze", ["rf", "size_axes"], ["ru"], "unsqueeze"),
        make("Add", ["t", "ru"], ["tr"], "add_constants"),
        make("Mul", ["a", "tr"], ["b"], "scale"),
        make("Softmax", ["b"], ["h"], "softmax", axis=1),
        make("MaxPool", ["h"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        make("Shape", ["p"], ["ps"], "shape"),
        make("Gather", ["ps", "zero"], ["p0"], "gather", axis=0),
        make("Concat", ["p0", "minus"], ["to_shape"], "concat_shape", axis=0),
        make("Reshape", ["p", "to_shape"], ["f"], "reshape"),
        make("ConstantOfShape", ["three"], ["k"], "fill",
             value=numpy_helper.from_array(np.float32([0.5]))),
        make("Expand", ["k", "row"], ["e"], "expand"),
        make("MatMul", ["f", "m"], ["d"], "matmul"),
        make("Add", ["d", "e"], ["y"], "bias"),
    ]  # fmt: skip
    constants |= {"size_axes": np.array([0, 2, 3]), "three": np.array([3]), "row": np.array([1, 3])}
    graph = helper.make_graph(
        nodes, "moved", [helper.make_tensor_value_info("x", 1, [1, CHANNELS, SIZE, SIZE])],
        [helper.make_tensor_value_info("y", 1, [1, 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
