"""Copy a feature map by a convolution whose result has the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.ir import node as op
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.tensor import Tensor, constant


def insert_move(
    graph: Graph, tensor: Tensor, at: int, sources: tuple[str, ...] = ()
) -> Tensor:  # fmt: skip
    """Insert a 1x1 convolution with ones, which copies a map of numbers; return its result.

    at : position in the list of nodes; sources : model nodes that it implements; by default those
        of the node that computes the map
    """
    count, name = tensor.channels, f"{tensor.name}.moved"
    made = tensor.like(name, tensor.shape)
    maker = graph.maker(tensor)
    sources = sources or (maker.sources if maker is not None else (tensor.name,))
    ones = np.eye(count, dtype=np.int64).reshape(count, 1, 1, count)
    conv = op.Conv(Window((1, 1)))
    if tensor.type == "float32":
        weights = constant(f"{name}.weights", ones.astype(np.float32))
        graph.nodes.insert(at, Node(conv, [tensor, weights], [made], sources))
        return made
    wide: Any = "int32" if tensor.bits == 8 else "int64"
    sums = Tensor(f"{name}.sums", tensor.shape, wide)
    bias = np.full(count, -tensor.zero_point, np.int64)
    constants = [
        constant(f"{name}.weights", ones, tensor.type),
        constant(f"{name}.bias", bias, wide),
    ]
    factor = Multiplier(np.full(count, 1 << 23), np.full(count, 23))
    how = Requantisation(factor, tensor.zero_point, tensor.low, tensor.high)
    graph.nodes[at:at] = [
        Node(conv, [tensor, *constants], [sums], sources),
        Node(op.Requantise(how), [sums], [made], sources),
    ]
    return made
