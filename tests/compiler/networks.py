"""Small networks as graphs of the compiler, without ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import (
    Activation,
    Add,
    Concat,
    Conv,
    Node,
    Operator,
    Pool,
    Slice,
    Window,
)
from mapper.compiler.ir.tensor import Pad, Tensor

SAME = Window((3, 3), (1, 1), Pad(1, 1, 1, 1))


class Builder:
    """Adds nodes to a graph, and infers the shapes of their results."""

    def __init__(self, height: int, width: int, channels: int, seed: int = 0) -> None:
        self.graph = Graph()
        self.random = np.random.default_rng(seed)
        self.input = Tensor("x", (1, height, width, channels))
        self.graph.inputs["x"] = View(self.input, shape=(1, channels, height, width))

    def node(self, operator: Operator, inputs: list[Tensor], shape: tuple[int, int, int]) -> Tensor:
        name = f"n{len(self.graph.nodes)}"
        made = Tensor(f"{name}.out", (1, *shape))
        self.graph.nodes.append(Node(operator, inputs, [made], (name,)))
        return made

    def constant(self, value: NDArray[Any]) -> Tensor:
        return Tensor("constant", value.shape, value=value.astype(np.float32))

    def conv(self, data: Tensor, outputs: int, window: Window = SAME, groups: int = 1) -> Tensor:
        shape = (outputs, *window.size, data.channels // groups)
        fan_in = window.size[0] * window.size[1] * shape[3]
        weights = self.constant(self.random.normal(0, fan_in**-0.5, shape))
        bias = self.constant(self.random.normal(0, 0.2, outputs))
        rows, columns = window.results(data.height, data.width)
        return self.node(Conv(window, groups), [data, weights, bias], (rows, columns, outputs))

    def like(self, operator: Operator, *inputs: Tensor) -> Tensor:
        return self.node(operator, list(inputs), inputs[0].shape[1:])  # type: ignore[arg-type]

    def relu(self, data: Tensor) -> Tensor:
        return self.like(Activation(low=0.0), data)

    def pool(self, data: Tensor, operator: Pool) -> Tensor:
        rows, columns = operator.window.results(data.height, data.width)
        return self.node(operator, [data], (rows, columns, data.channels))

    def concat(self, *inputs: Tensor, axis: int = 3) -> Tensor:
        shape = list(inputs[0].shape[1:])
        shape[axis - 1] = sum(one.shape[axis] for one in inputs)
        return self.node(Concat(axis), list(inputs), (shape[0], shape[1], shape[2]))

    def slice(self, data: Tensor, first: int, size: int, axis: int = 3) -> Tensor:
        shape = list(data.shape[1:])
        shape[axis - 1] = size
        return self.node(Slice(axis, first), [data], (shape[0], shape[1], shape[2]))

    def end(self, tensor: Tensor) -> Graph:
        shape = (1, tensor.channels, tensor.height, tensor.width)
        self.graph.outputs["y"] = View(tensor, shape=shape)
        return self.graph

    def samples(self, frames: int) -> NDArray[np.float32]:
        return self.random.normal(0, 1, (frames, *self.input.shape[1:])).astype(np.float32)


def residual(seed: int = 0, channels: int = 6) -> Builder:
    """Build three convolutions, the last two in a residual branch, and a global mean."""
    build = Builder(9, 7, 3, seed)
    first = build.relu(build.conv(build.input, channels))
    second = build.conv(build.relu(build.conv(first, channels)), channels)
    summed = build.relu(build.like(Add(), second, first))
    build.end(build.pool(summed, Pool("average", Window((9, 7)))))
    return build
