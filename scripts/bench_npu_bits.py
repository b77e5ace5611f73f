"""Cycles of 16-bit layers compared with paired 8-bit layers, on one core of each dual preset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_compile import silence
from bench_npu_figures import Figure, at_most
from onnx import helper, numpy_helper, save

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.cli.main import main as mapper_main
from mapper.compiler.artifacts.cycles import run_cycles
from mapper.compiler.artifacts.manifest import read_folder

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
    weights = random.normal(0, 1, (outputs, inputs, kernel, kernel)).astype(np.float32)
    pads = [kernel // 2] * 4
    node = helper.make_node("Conv", ["x", "w"], ["y"], "layer", pads=pads)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", 1, [1, inputs, side, side])],
        [helper.make_tensor_value_info("y", 1, [1, outputs, side, side])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    save(helper.make_model(graph, opset_imports=[opset], ir_version=10), "layer.onnx")
    np.save("layer.npy", random.normal(0, 1, (SAMPLES, inputs, side, side)).astype(np.float32))


def _cycles(preset: str, bits: str) -> int:
    """Return the cycles of a frame."""
    words = ["--chip", "1x1", "--npu", preset, "--bits", bits, "--calibrate", "layer.npy"]
    words += ["--method", "minmax", "--min-signal", "0", "-o", "layer", "--force", "-q"]
    with silence() as said:
        if mapper_main(["compile", "layer.onnx", *words]):
            raise RuntimeError(Path(said).read_text().strip())
    return sum(times.cycles for times in run_cycles(read_folder(Path("layer")), None).times)
