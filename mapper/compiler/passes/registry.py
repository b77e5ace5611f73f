"""The passes: those over graphs of floats, in their order, and what can be switched off."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mapper.compiler.graph.graph import Graph
from mapper.compiler.passes.input_scale import fold_input_scale
from mapper.compiler.passes.legalise import channel_convolutions
from mapper.compiler.passes.normalise import activate_first, dense_as_conv, fold_affine
from mapper.compiler.passes.pad import fold_padding
from mapper.compiler.passes.shuffles import fold_shuffles
from mapper.compiler.passes.signs import simplify_signs

Pass = Callable[[Graph], list[str]]
"""Changes a graph; returns a line for each node that it changed."""

FLOAT_PASSES: dict[str, Pass] = {
    "input-scale": fold_input_scale,
    "pad": fold_padding,
    "batchnorm": fold_affine,
    "dense": dense_as_conv,
}
"""Over graphs of floats, in their order; cores have nothing else for dense layers."""


def optimise(graph: Graph, off: Collection[str] = ()) -> list[str]:
    """Apply all passes over graphs of floats, but for some; returns the log.

    Activations go before pooling, and what is left over becomes what cores compute, in any case.
    """
    told = [f"signs: {line}" for line in simplify_signs(graph)]
    told += [f"shuffles: {line}" for line in fold_shuffles(graph)]
    for name, change in FLOAT_PASSES.items():
        if name not in off:
            told += [f"{name}: {line}" for line in change(graph)]
    return told + activate_first(graph) + channel_convolutions(graph)
