"""Floating-point graph of a model after all passes, with unprofitable islands on the host."""

from __future__ import annotations

from collections.abc import Collection

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import ASKED
from mapper.compiler.model import IDLE, Model, built, idle
from mapper.compiler.partition.islands import islands, lonely
from mapper.compiler.quantisation.rest import is_in_part
from mapper.compiler.stages import stage
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.constants import CONSTANTS
from mapper.compiler.transforms.registry import optimise

DEFAULT_SHAPE = NpuShape()


def optimised(
    model: Model, kept: Collection[str], off: Collection[str] = (), shape: NpuShape = DEFAULT_SHAPE
) -> tuple[Graph, list[str]]:
    """Return the floating-point graph of a model after all passes, with unprofitable islands on the
    host; and the log.

    kept : ONNX nodes to keep on the host; off : passes to skip
    shape : core shape, for the savings in the log
    """
    fold = CONSTANTS.name not in off
    with stage("read"):
        graph = built(model, kept, fold)
    with stage("optimise"):
        told = optimise(graph, off, Context(shape))
    if is_in_part(graph):
        return graph, told
    judged = graph
    if off and len(islands(graph)) > 1:
        judged = model.build(kept)
        optimise(judged)
    found = lonely(judged, {part.name for part in model.parts})
    found |= dict.fromkeys(idle(judged) - set(kept), IDLE)
    if found:
        with stage("read"):
            graph = built(model, {**dict.fromkeys(kept, ASKED), **found}, fold)
        with stage("optimise"):
            told = optimise(graph, off, Context(shape))
    graph.notes += [f"{name}: stays on the host: {why}" for name, why in found.items()]
    return graph, told
