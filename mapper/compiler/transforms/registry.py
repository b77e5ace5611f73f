"""All passes in order, and the stages where they run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.reorder import delay_depth_to_space
from mapper.compiler.memory.regions import Places, lanes_of
from mapper.compiler.memory.regions import share as share_regions
from mapper.compiler.transforms.addends import ADDENDS
from mapper.compiler.transforms.base import Context, Pass, sweep
from mapper.compiler.transforms.concat import CONCAT
from mapper.compiler.transforms.copies import COPY, load_rest
from mapper.compiler.transforms.few_channels import FEW_CHANNELS
from mapper.compiler.transforms.floats.batchnorm import BATCHNORM, before_signs
from mapper.compiler.transforms.floats.blocks import whole_blocks
from mapper.compiler.transforms.floats.constants import CONSTANTS, log_folded
from mapper.compiler.transforms.floats.dense import DENSE, flatten_rest
from mapper.compiler.transforms.floats.functions import join_functions
from mapper.compiler.transforms.floats.input_scale import INPUT_SCALE
from mapper.compiler.transforms.floats.legalise import activate_first, channel_convolutions
from mapper.compiler.transforms.floats.pad import PAD
from mapper.compiler.transforms.floats.shuffles import fold_shuffles
from mapper.compiler.transforms.floats.signs import pack_bits, signs_in_bytes, simplify_signs
from mapper.compiler.transforms.fold import FOLD
from mapper.compiler.transforms.fuse import FUSE, fuse
from mapper.compiler.transforms.phases import split_phases
from mapper.compiler.transforms.pool_first import POOL_FIRST
from mapper.compiler.transforms.relays import relay
from mapper.compiler.transforms.share import SHARE, copy_parts
from mapper.compiler.transforms.siblings import SIBLINGS
from mapper.compiler.transforms.split_groups import SPLIT_GROUPS, join_groups
from mapper.compiler.transforms.split_outputs import split_outputs
from mapper.compiler.transforms.tables import join_tables

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
    places : maps stored inside other maps
    """

    macros: list[Macro]
    places: Places


def optimise(graph: Graph, off: Collection[str] = (), context: Context | None = None) -> None:
    """Apply the passes over floating-point graphs.

    off : names of passes that are switched off
    Factors and activations before signs fold into thresholds first. Activations always move before
    pooling, and remaining nodes always become core operators.
    """
    context = context or Context()
    log_folded(graph, context)
    delay_depth_to_space(graph)
    while simplify_signs(graph, context) | run(SIGNS, graph, context, off):
        pass
    join_functions(graph, context)
    fold_shuffles(graph, context)
    for one in ON_FLOATS:
        run(one, graph, context, off)
    activate_first(graph, context)
    channel_convolutions(graph, context)


def optimise_quantised(
    graph: Graph, off: Collection[str] = (), context: Context | None = None
) -> None:
    """Apply the passes to a model that is already quantised, without changing its numbers."""
    context = context or Context()
    log_folded(graph, context)
    run(DENSE, graph, context, off)


def optimise_integers(graph: Graph, context: Context, off: Collection[str] = ()) -> None:
    """Apply the passes over integer graphs. None of them changes a result.

    off : names of passes that are switched off
    Remaining dense layers, signs and groups become core operators.
    """
    split_phases(graph, context)
    flatten_rest(graph, context)
    pack_bits(graph, context)
    signs_in_bytes(graph)
    join_tables(graph, context)
    for one in ON_INTEGERS:
        run(one, graph, context, off)
        if one is SPLIT_GROUPS:
            join_groups(graph, context)
    split_outputs(graph, context)
    whole_blocks(graph, context)
    relay(graph, context)


def lay_out(graph: Graph, context: Context, off: Collection[str] = ()) -> LaidOut:
    """Return the macro nodes, after deciding which maps share memory and which are stored twice."""
    run(SHARE, graph, context, off)
    copy_parts(graph, context)
    places = share_regions(graph, lanes_of(context.shape), context.log)
    run(COPY, graph, context, off)
    load_rest(graph, context)
    return LaidOut(fuse(graph, FUSE.name not in off, context), places)


def run(one: Pass, graph: Graph, context: Context, off: Collection[str]) -> bool:
    """Apply a pass unless it is switched off; return whether it changed anything."""
    needed = NEEDS.get(one)
    if one.name in off or (needed is not None and needed.name in off):
        return False
    return sweep(one, graph, context)
