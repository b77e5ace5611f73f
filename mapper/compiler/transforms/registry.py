"""All passes in order, and the stages where they run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.memory.regions import Places, lanes_of
from mapper.compiler.memory.regions import share as share_regions
from mapper.compiler.transforms.addends import ADDENDS
from mapper.compiler.transforms.base import Context, Pass, sweep
from mapper.compiler.transforms.batchnorm import BATCHNORM, before_signs
from mapper.compiler.transforms.bits import pack_bits, signs_in_bytes
from mapper.compiler.transforms.blocks import whole_blocks
from mapper.compiler.transforms.concat import CONCAT
from mapper.compiler.transforms.constants import CONSTANTS, folded
from mapper.compiler.transforms.copies import COPY, load_rest
from mapper.compiler.transforms.dense import DENSE, flatten_rest
from mapper.compiler.transforms.few_channels import FEW_CHANNELS
from mapper.compiler.transforms.fold import FOLD
from mapper.compiler.transforms.fuse import FUSE, fuse
from mapper.compiler.transforms.input_scale import INPUT_SCALE
from mapper.compiler.transforms.legalise import channel_convolutions
from mapper.compiler.transforms.normalise import activate_first
from mapper.compiler.transforms.pad import PAD
from mapper.compiler.transforms.pool_first import POOL_FIRST
from mapper.compiler.transforms.share import SHARE, copy_parts
from mapper.compiler.transforms.shuffles import fold_shuffles
from mapper.compiler.transforms.siblings import SIBLINGS
from mapper.compiler.transforms.signs import simplify_signs
from mapper.compiler.transforms.split_groups import SPLIT_GROUPS, join_groups
from mapper.compiler.transforms.split_outputs import split_outputs

PASSES: tuple[Pass, ...] = (
    CONSTANTS, INPUT_SCALE, PAD, BATCHNORM, DENSE,
    SIBLINGS, CONCAT, FOLD, POOL_FIRST, FUSE, FEW_CHANNELS, SPLIT_GROUPS, ADDENDS, SHARE, COPY,
)  # fmt: skip
"""Passes in the order of their switches.

Macro nodes are built after all of them; fusion changes no node, so its position here is irrelevant.
"""
ON_FLOATS = (CONSTANTS, INPUT_SCALE, PAD, BATCHNORM, DENSE)
ON_INTEGERS = (SIBLINGS, CONCAT, FOLD, POOL_FIRST, FEW_CHANNELS, SPLIT_GROUPS, ADDENDS)
SIGNS = replace(BATCHNORM, sites=before_signs)
NEEDS = {POOL_FIRST: FUSE}
"""Passes that require another one: sums are pooled on their tiles."""


class LaidOut(NamedTuple):
    """Macro nodes and the layout of their maps.

    macros : macro nodes of an integer graph, in an executable order
    places : maps stored inside other maps; log : log lines of these passes
    """

    macros: list[Macro]
    places: Places
    log: list[str]


def optimise(graph: Graph, off: Collection[str] = (), context: Context | None = None) -> list[str]:
    """Apply the passes over floating-point graphs; return the log.

    off : names of passes that are switched off
    Factors and activations before signs fold into thresholds first. Activations always move before
    pooling, and remaining nodes always become core operators.
    """
    context = context or Context()
    told = folded(graph) + _signs(graph, off, context)
    told += [f"shuffles: {line}" for line in fold_shuffles(graph)]
    for one in ON_FLOATS:
        told += run(one, graph, context, off)
    return told + activate_first(graph) + channel_convolutions(graph)


def optimise_quantised(
    graph: Graph, off: Collection[str] = (), context: Context | None = None
) -> list[str]:
    """Apply the passes to a model that is already quantised, without changing its numbers."""
    return folded(graph) + run(DENSE, graph, context or Context(), off)


def _signs(graph: Graph, off: Collection[str], context: Context) -> list[str]:
    told: list[str] = []
    while True:
        lines = [f"signs: {line}" for line in simplify_signs(graph)]
        lines += run(SIGNS, graph, context, off)
        if not lines:
            return told
        told += lines


def optimise_integers(graph: Graph, context: Context, off: Collection[str] = ()) -> list[str]:
    """Apply the passes over integer graphs; return the log. None of them changes a result.

    off : names of passes that are switched off
    Remaining dense layers, signs and groups become core operators.
    """
    told = flatten_rest(graph) + pack_bits(graph, context.shape.binary)
    signs_in_bytes(graph)
    for one in ON_INTEGERS:
        told += run(one, graph, context, off)
        if one is SPLIT_GROUPS:
            told += [f"{one.name}: {line}" for line in join_groups(graph, context)]
    return told + split_outputs(graph, context.shape) + whole_blocks(graph, context.shape.columns)


def lay_out(graph: Graph, context: Context, off: Collection[str] = ()) -> LaidOut:
    """Return the macro nodes, after deciding which maps share memory and which are stored twice."""
    told = run(SHARE, graph, context, off) + copy_parts(graph, context)
    places, shared = share_regions(graph, lanes_of(context.shape))
    told += shared + run(COPY, graph, context, off) + load_rest(graph, context)
    return LaidOut(fuse(graph, FUSE.name not in off, context, told), places, told)


def run(one: Pass, graph: Graph, context: Context, off: Collection[str]) -> list[str]:
    """Apply a pass unless it is switched off; return the log."""
    needed = NEEDS.get(one)
    if one.name in off or (needed is not None and needed.name in off):
        return []
    return sweep(one, graph, context)
