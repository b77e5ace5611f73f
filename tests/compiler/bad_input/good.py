"""A small model that compiles fast, and samples for it; tests damage them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.mapper.conftest import Result, Run
from tests.storage.formats.onnx_models import onnx

SIZE, CHANNELS, KERNELS, CLASSES, FRAMES = 6, 2, 4, 3, 6
QUICK = ("--method", "minmax", "--min-signal", "-100", "--max-loss", "100")


@dataclass
class Good:
    """A convolution, pooling and a dense layer; each part may be replaced before it is saved."""

    nodes: list[Any]
    constants: dict[str, NDArray[Any]]
    samples: dict[str, NDArray[Any]]
    inputs: dict[str, list[int | str]]
    opset: int = 17
    ir_version: int = 10
    outputs: list[str] = field(default_factory=lambda: ["y"])

    def node(self, name: str) -> Any:
        return next(one for one in self.nodes if one.name == name)

    def model(self) -> Any:
        helper = onnx.helper
        graph = helper.make_graph(
            self.nodes,
            "good",
            [helper.make_tensor_value_info(name, 1, shape) for name, shape in self.inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in self.outputs],
            [onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=self.ir_version)

    def save(self, folder: Path) -> None:
        onnx.save(self.model(), str(folder / "good.onnx"))
        np.savez(folder / "samples.npz", **self.samples)


def good() -> Good:
    random = np.random.default_rng(3)

    def weights(*shape: int) -> NDArray[np.float32]:
        made: NDArray[np.float32] = random.normal(0, 0.3, shape).astype(np.float32)
        return made

    make = onnx.helper.make_node
    inside = SIZE // 2
    return Good(
        nodes=[
            make("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
            make("Relu", ["c"], ["r"], "relu"),
            make("MaxPool", ["r"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
            make("Flatten", ["p"], ["f"], "flatten"),
            make("Gemm", ["f", "dense_w", "dense_b"], ["y"], "dense"),
        ],
        constants={
            "w": weights(KERNELS, CHANNELS, 3, 3),
            "b": weights(KERNELS),
            "dense_w": weights(KERNELS * inside * inside, CLASSES),
            "dense_b": weights(CLASSES),
        },
        samples={"x": weights(FRAMES, CHANNELS, SIZE, SIZE), "y": np.arange(FRAMES) % CLASSES},
        inputs={"x": [1, CHANNELS, SIZE, SIZE]},
    )  # fmt: skip


def compile_good(folder: Path, run: Run, *options: str, it: Good | None = None) -> Result:
    """Compile a model, by default the good one, into the folder `out`."""
    (it or good()).save(folder)
    found = run("compile", "good.onnx", *QUICK, "--calibrate", "samples.npz", *options)
    assert found.code == 0, found.err
    return found
