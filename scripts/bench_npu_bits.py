"""Cycles of 16-bit layers compared with paired 8-bit layers, on one core of each dual preset.

A pointwise layer with ReLU precedes each measured layer, so its input has a zero point.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_compile import silence
from bench_npu_figures import Figure, at_most
from onnx import helper, numpy_helper, save

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.cli.main import main as mapper_main

RATIO = 2.5
"""Limit of the cycles in 16 bits over the cycles in 8 bits; products take twice as many."""
SAMPLES = 4


class Layer(NamedTuple):
    """A convolution: side of its map, channels, and side of its kernel."""

    side: int
    inputs: int
    outputs: int
    kernel: int


LAYERS = (Layer(16, 32, 32, 3), Layer(16, 64, 64, 1), Layer(8, 64, 64, 3), Layer(32, 16, 16, 3),
          Layer(16, 64, 128, 3), Layer(16, 128, 64, 3))  # fmt: skip
"""Layers bound by the matrix unit; in 16 bits, weights of the last two exceed the core."""


def bit_figures() -> Iterator[Figure]:
    """Yield the cycles of each layer in 8 and 16 bits; writes into the current folder."""
    for preset in (name for name, one in NPU_SHAPES.items() if one.multiplier == "dual"):
        for layer in LAYERS:
            _save(layer)
            of = f"{preset}, {layer.side}x{layer.side}, {layer.inputs} to {layer.outputs} channels"
            of = f"{of}, {layer.kernel}x{layer.kernel}"
            eight, sixteen = (_cycles(preset, bits) for bits in ("8", "16"))
            yield Figure(of, "cycles in 8 bits", eight)
            yield at_most(of, "cycles in 16 bits / 8 bits", sixteen / eight, RATIO)


def _save(layer: Layer) -> None:
    """Write the layer with random weights, and samples of its input."""
    random, (side, inputs, outputs, kernel) = np.random.default_rng(0), layer
    sizes = {"v": (inputs, inputs, 1, 1), "w": (outputs, inputs, kernel, kernel)}
    weights = {name: random.normal(0, 1, size).astype(np.float32) for name, size in sizes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], "before"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w"], ["y"], "layer", pads=[kernel // 2] * 4),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", 1, [1, inputs, side, side])],
        [helper.make_tensor_value_info("y", 1, [1, outputs, side, side])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=10), "layer.onnx")
    np.save("layer.npy", random.normal(0, 1, (SAMPLES, inputs, side, side)).astype(np.float32))


def _cycles(preset: str, bits: str) -> int:
    """Return the cycles of the last layer."""
    words = ["--chip", "1x1", "--npu", preset, "--bits", bits, "--calibrate", "layer.npy"]
    words += [
        "--method",
        "minmax",
        "--min-signal",
        "0",
        "-o",
        "layer",
        "--force",
        "--no-cache",
        "-q",
    ]
    with silence() as said:
        if mapper_main(["compile", "layer.onnx", *words]):
            raise RuntimeError(Path(said).read_text().strip())
    found: int = json.loads(Path("layer/report.json").read_text())["layers"][-1]["cycles"]
    return found
