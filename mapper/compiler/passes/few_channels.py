"""Convolutions of few input channels become 1x1 convolutions over their windows.

A matrix call takes as many inputs as the array has columns. A first layer of 3 channels and 7x7
kernels takes 49 calls for a pixel, 13 of 16 columns idle; of its windows of 147 values it takes 10.
The host makes the windows, padding included.
"""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Node, Window, Windows
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of


def window_inputs(graph: Graph, columns: int) -> list[str]:
    """Let the host make the windows of convolutions on the model's inputs where that saves calls.

    columns : input channels of a matrix call
    """
    told = []
    for view in list(graph.inputs.values()):
        tensor = view.tensor
        node = graph.only_user(tensor)
        if node is None or not isinstance(node.operator, Conv) or node.operator.groups != 1:
            continue
        window, weights = node.operator.window, node.inputs[1]
        outputs, kh, kw, inputs = weights.shape
        before, after = kh * kw * blocks_of(inputs, columns), blocks_of(kh * kw * inputs, columns)
        if after >= before or (kh, kw) == (1, 1):
            continue
        assert weights.value is not None
        shape = (1, node.output.height, node.output.width, kh * kw * inputs)
        made = Tensor(
            f"{tensor.name}.windows", shape, tensor.type, tensor.scale, tensor.zero_point,
            stored=True,
        )  # fmt: skip
        flat = weights.value.reshape(outputs, 1, 1, -1)
        node.operator = Conv(Window((1, 1)))
        node.inputs[:2] = [made, Tensor(weights.name, flat.shape, weights.type, value=flat)]
        tensor.stored = False
        graph.nodes.insert(0, Node(Windows(window), [tensor], [made], node.sources))
        told.append(f"{node.label}: windows made by the host, {before} -> {after} calls a pixel")
    return told
