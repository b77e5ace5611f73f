"""Max pooling before requantisation: a quarter of the sums need a multiplication then."""

from __future__ import annotations

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Pool, Requantise
from mapper.compiler.graph.tensor import Tensor


def pool_sums_first(graph: Graph) -> list[str]:
    """Legal where no channel's factor is negative, for requantisation never decreases then, and the
    sums stay in the accumulators of one macro node."""
    told = []
    for node in list(graph.nodes):
        if not isinstance(node.operator, Pool) or node.operator.kind != "max":
            continue
        maker = graph.maker(node.inputs[0])
        if maker is None or any(node.operator.window.pad):
            continue
        if not isinstance(maker.operator, Requantise) or graph.only_user(maker.output) is not node:
            continue
        before = graph.maker(maker.inputs[0])
        if before is None or not isinstance(before.operator, Conv):
            continue
        how = maker.operator.how
        factors = [how.factor.m0] + ([] if how.negative is None else [how.negative.m0])
        if any((m0 < 0).any() for m0 in factors):
            continue
        sums = maker.inputs[0]
        pooled = Tensor(f"{node.output.name}.sums", node.output.shape, sums.type)
        node.inputs, maker.inputs = [sums], [pooled]
        node.outputs, maker.outputs = [pooled], node.outputs
        at = graph.nodes.index(maker)
        graph.nodes.remove(node)
        graph.nodes.insert(at, node)
        told.append(f"{node.label}: before the requantisation of {maker.label}")
    return told
