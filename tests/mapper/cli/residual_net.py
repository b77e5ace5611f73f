"""A small network of convolutions for the tests of `mapper compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.storage.formats.onnx_models import onnx


def save_residual_net(
    path: Path,
    random: np.random.Generator,
    *,
    side: int,
    channels: int,
    classes: int,
    third: bool = False,
) -> None:
    """Write a model with padded convolutions, a residual sum, pooling, a dense layer and Softmax.

    side : width and height of the input, which has two channels
    third : a third convolution follows the sum
    """

    def constant(name: str, *shape: int) -> Any:
        values = random.normal(0, max(1, np.prod(shape[1:])) ** -0.5, shape).astype(np.float32)
        return onnx.numpy_helper.from_array(values, name)

    make, values = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], "first", pads=[1, 1, 1, 1]),
        make("Relu", ["c1"], ["r1"], "relu"),
        make("Conv", ["r1", "w2", "b2"], ["c2"], "second", pads=[1, 1, 1, 1]),
        make("Add", ["c2", "r1"], ["s"], "sum"),
        *[make("Conv", ["s", "w4", "b2"], ["c3"], "third", pads=[1, 1, 1, 1])] * third,
        make("MaxPool", ["c3" if third else "s"], ["p"], "pool", kernel_shape=[2, 2],
             strides=[2, 2]),
        make("Flatten", ["p"], ["f"], "flatten"),
        make("Gemm", ["f", "w3", "b3"], ["g"], "dense"),
        make("Softmax", ["g"], ["y"], "softmax"),
    ]  # fmt: skip
    constants = [
        constant("w1", channels, 2, 3, 3), constant("b1", channels),
        constant("w2", channels, channels, 3, 3), constant("b2", channels),
        *([constant("w4", channels, channels, 3, 3)] if third else []),
        constant("w3", channels * side * side // 4, classes), constant("b3", classes),
    ]  # fmt: skip
    graph = onnx.helper.make_graph(
        nodes, "net", [values("x", 1, [1, 2, side, side])], [values("y", 1, [1, classes])],
        constants,
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), str(path))
