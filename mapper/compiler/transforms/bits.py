"""Store maps of +1 and -1 between binary layers as bits, 128 channels per vector.

Binary products take an eighth of the matrix calls, and their weights an eighth of the memory. Other
maps of +1 and -1 are stored in bytes, with the same numbers.
"""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node, Quantise, Requantise, Sign, Threshold
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.binary import Thresholds
from mapper.compiler.transforms.base import Context

MAKES = Sign | Threshold


def pack_bits(graph: Graph, context: Context) -> None:
    """Store maps as bits if only binary layers read them."""
    log = context.log
    for maker in [node for node in graph.nodes if makes_signs(node)]:
        tensor = maker.output
        if not context.shape.binary:
            log.add(f"{maker.label}: in bytes, because the core has no binary unit")
        elif not _legal(graph, tensor):
            log.add(f"{maker.label}: in bytes, because layers that are not binary read it")
        else:
            tensor.type = "bits"
            log.lines += [f"{node.label}: {_calls(node)}" for node in graph.users(tensor)]
    for node in graph.nodes_of(Conv):
        if node.inputs[0].type == "bits":
            node.inputs[1].type = "bits"


def makes_signs(node: Node) -> bool:
    """Return whether a node produces only +1 and -1."""
    hosted = isinstance(node.operator, Quantise) and isinstance(node.operator.levels, Sign)
    return hosted or isinstance(node.operator, MAKES)


def _legal(graph: Graph, tensor: Tensor) -> bool:
    users = graph.users(tensor)
    return bool(users) and not graph.is_output(tensor) and all(map(_is_binary, users))


def _is_binary(node: Node) -> bool:
    if not isinstance(node.operator, Conv) or node.operator.groups != 1:
        return False
    weights = node.inputs[1].value
    return weights is not None and bool((np.abs(weights) == 1).all())


def _calls(node: Node) -> str:
    outputs, kh, kw, inputs = node.inputs[1].shape
    return f"binary, {outputs} kernels of {kh}x{kw}x{inputs} bits"


def signs_in_bytes(graph: Graph) -> None:
    """Compute signs that are stored in bytes as sums clipped to +1 and -1.

    2 * (d - T) + 1 is never 0, nor is its negative.
    """
    for node in graph.nodes:
        if not isinstance(node.operator, MAKES) or node.output.type == "bits":
            continue
        if isinstance(node.operator, Threshold):
            limit = Thresholds(node.operator.least, node.operator.flip)
        else:
            zeros = np.zeros(node.output.channels, np.int64)
            limit = Thresholds(zeros + node.inputs[0].zero_point, zeros)
        side = 1 - 2 * limit.flip
        least = np.clip(limit.least, -(1 << 30) + 1, (1 << 30) - 1)
        factor = Multiplier(2 * side, np.zeros_like(side))
        node.operator = Requantise(
            Requantisation(factor, 0, -1, 1, "floor", offset=side * (1 - 2 * least))
        )
