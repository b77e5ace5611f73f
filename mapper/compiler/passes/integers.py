"""The passes over graphs of integers, in their order: none of them changes a result."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.graph.graph import Graph
from mapper.compiler.passes import few_channels
from mapper.compiler.passes.bits import pack_bits, signs_in_bytes
from mapper.compiler.passes.concat import concatenate_last
from mapper.compiler.passes.few_channels import FewChannels
from mapper.compiler.passes.pool_first import pool_sums_first
from mapper.compiler.passes.siblings import Weighing, join_siblings
from mapper.compiler.passes.split_groups import place_groups
from mapper.compiler.passes.trial import memory_needed, trial_of
from mapper.compiler.schedule.order import heavy_addends_last


def optimise_integers(
    graph: Graph, shape: NpuShape, choices: Choices, reuse: bool, off: Collection[str] = (),
    few: FewChannels = "auto",
) -> list[str]:  # fmt: skip
    """Apply all passes, but for some; returns the log.

    few : who makes the windows of layers of few channels
    reuse : whether maps whose lives do not meet share memory
    """

    def fits(whole: Graph) -> bool:
        return not shape.map_vectors or memory_needed(whole, shape, reuse) <= shape.map_vectors

    told = pack_bits(graph, shape.binary)
    signs_in_bytes(graph)
    trial = trial_of(shape, replace(choices, first_tile=None))
    if "siblings" not in off:
        lines = join_siblings(graph, Weighing(shape.columns, trial, fits))
        told += [f"siblings: {line}" for line in lines]
    if "concat" not in off:
        told += [f"concat: {line}" for line in concatenate_last(graph, trial)]
    if "few-channels" not in off:
        how = few_channels.Weighing(shape, trial, fits)
        told += few_channels.window_inputs(graph, few, how)
    if "pool-first" not in off and "fuse" not in off:
        told += pool_sums_first(graph)  # sums are pooled where they are made
    told += [
        f"split-groups: {line}"
        for line in place_groups(graph, shape.columns, "split-groups" not in off)
    ]
    return told + ([] if "addends" in off else heavy_addends_last(graph))
