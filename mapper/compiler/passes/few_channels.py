"""Convolutions of few input channels become 1x1 convolutions over their windows.

A matrix call takes as many inputs as the array has columns. A first layer of 3 channels and 7x7
kernels takes 49 calls for a pixel, 13 of 16 columns idle; of its windows of 147 values it takes 10.
The host makes the windows, padding included.
"""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Node, Quantise, Window, Windows
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.memory.planner import blocks_of


def window_inputs(graph: Graph, columns: int) -> list[str]:
    """Let the host make the windows of convolutions on the model's inputs where that saves calls.

    columns : input channels of a matrix call
    """
    told = []
    inputs_ = [view.tensor for view in graph.inputs.values()]
    inputs_ += [node.output for node in graph.nodes if isinstance(node.operator, Quantise)]
    for tensor in inputs_:
        node = graph.only_user(tensor)
        if node is None or not isinstance(node.operator, Conv) or node.operator.groups != 1:
            continue
        window, weights = node.operator.window, node.inputs[1]
        outputs, kh, kw, inputs = weights.shape
        bits = tensor.type == "bits"
        size = 8 * columns if bits else columns
        before, after = kh * kw * blocks_of(inputs, size), blocks_of(kh * kw * inputs, size)
        if after >= before or (kh, kw) == (1, 1) or (bits and any(node.operator.window.pad)):
            continue  # there is no bit for the zeros around a map
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
        graph.nodes.insert(
            graph.nodes.index(node), Node(Windows(window), [tensor], [made], node.sources)
        )
        told.append(f"{node.label}: windows made by the host, {before} -> {after} calls a pixel")
    return told
