"""Floating-point graph of a model after all passes, with unprofitable islands on the host."""

from __future__ import annotations

from collections.abc import Collection

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import ASKED
from mapper.compiler.model import IDLE, Model, built, idle
from mapper.compiler.partition.islands import islands, lonely
from mapper.compiler.quantisation.rest import is_in_part
from mapper.compiler.stages import stage
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.floats.constants import CONSTANTS
from mapper.compiler.transforms.registry import optimise


def optimised(
    model: Model, kept: Collection[str], off: Collection[str] = (),
    context: Context | None = None,
) -> Graph:  # fmt: skip
    """Return the floating-point graph of a model after all passes, with unprofitable islands on the
    host.

    kept : ONNX nodes to keep on the host; off : passes to skip
    context : its core, for the savings in the log, and its log
    """
    context = context or Context()
    before = len(context.log.lines)

    def made(nodes: Collection[str]) -> Graph:
        with stage("read"):
            graph = built(model, nodes, CONSTANTS.name not in off)
        with stage("optimise"):
            optimise(graph, off, context)
        return graph

    graph = judged = made(kept)
    if is_in_part(graph):
        return graph
    if off and len(islands(graph)) > 1:
        judged = model.build(kept)
        optimise(judged)
    found = lonely(judged, {part.name for part in model.parts})
    found |= dict.fromkeys(idle(judged) - set(kept), IDLE)
    if found:
        del context.log.lines[before:]
        graph = made({**dict.fromkeys(kept, ASKED), **found})
    return graph
