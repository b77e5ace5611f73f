"""Move activations before max pooling, so that they become part of the layer before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Node, Pool
from mapper.compiler.ir.tensor import Tensor


def activate_first(graph: Graph) -> list[str]:
    """Swap max pooling and activations that never decrease; return the log.

    Always runs: an activation without a layer takes another pass over the map. Pooling of sums is a
    separate pass.
    """
    told = []
    for node in [node for node in graph.nodes if isinstance(node.operator, Activation)]:
        maker = graph.maker(node.inputs[0])
        if maker is None or not isinstance(maker.operator, Pool) or maker.operator.kind != "max":
            continue
        assert isinstance(node.operator, Activation)
        slope: Any = node.inputs[1].value if len(node.inputs) > 1 else node.operator.slope
        if np.min(slope) < 0 or graph.only_user(maker.output) is not node:
            continue
        middle = Tensor(f"{node.output.name}.before_pool", maker.inputs[0].shape)
        first = Node(node.operator, [maker.inputs[0], *node.inputs[1:]], [middle], node.sources)
        graph.nodes.insert(graph.nodes.index(maker), first)
        graph.nodes.remove(node)
        maker.inputs[0], maker.outputs = middle, node.outputs
        told.append(f"{node.label}: before {maker.label}")
    return told
