"""Running a graph: what a node computes is in a table by the class of its operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Node, Operator
from mapper.compiler.graph.tensor import Tensor

Data = NDArray[Any]
Rule = Callable[[Node, list[Data]], Data]
Rules = Mapping[type[Operator], Rule]


def run_graph(
    graph: Graph, feeds: Mapping[Tensor, Data], rules: Rules, keep: Iterable[Tensor]
) -> dict[Tensor, Data]:
    """The data of some tensors, for those of the inputs, shape (frames, ...) each.

    What no node takes any more is let go.
    """
    kept = dict.fromkeys(keep)
    last = {tensor: at for at, node in enumerate(graph.nodes) for tensor in node.inputs}
    data: dict[Tensor, Data] = dict(feeds)
    for at, node in enumerate(graph.nodes):
        missing = kept.keys() - data.keys()
        if not missing:
            break
        if type(node.operator) not in rules or node.output in data:
            continue  # of the host, behind all that is wanted
        taken = [
            tensor.value if tensor.value is not None else data[tensor] for tensor in node.inputs
        ]
        data[node.output] = rules[type(node.operator)](node, taken)
        for tensor in node.inputs:
            if last[tensor] == at and tensor not in kept:
                data.pop(tensor, None)
    return {tensor: data[tensor] for tensor in kept}


def concatenated(node: Node, inputs: list[Data]) -> Data:
    return np.concatenate(inputs, node.operator.axis)  # type: ignore[attr-defined]
