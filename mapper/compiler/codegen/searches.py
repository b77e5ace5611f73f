"""Searches for cuts, shared by equal parts of layers.

A compilation cuts the same layers many times: for each number of cores, and again for the programs
of each cut. Parts of equal size in the middle of a map differ by their addresses only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.codegen.tile_trials import TileCodes, TileTrials
from mapper.compiler.ir import node as op
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region
from mapper.compiler.tiling.onchip import DEFAULT, Breadth, choices
from mapper.compiler.tiling.tile_pipeline import CutChoice

Plane = tuple[int, int] | None


class CutSearches:
    """Choices of cuts that were found before in this compilation."""

    def __init__(self, breadth: Breadth = DEFAULT) -> None:
        self.breadth = breadth
        self._known: dict[Hashable, list[CutChoice]] = {}
        self._codes = TileCodes()

    def ways(self, emitter: Emitter, macro: Macro, number: int, plane: Plane) -> list[CutChoice]:
        """Return the possible cuts of a macro node with the cost of their tiles; emit nothing.

        plane : rows and columns of its tiles, None to choose them
        """
        core = _of_core(emitter)
        whole = tuple(_of_macro(emitter, macro, _of_tensor))
        key = number in emitter.dynamic, plane, *core, whole
        if key not in self._known:
            layer = core, tuple(_of_macro(emitter, macro, _of_any_size))
            trials = TileTrials(emitter, macro, number, layer, self._codes)
            self._known[key] = choices(
                macro, emitter.shape, trials.cost, trials.micro_ops, plane, self.breadth
            )
        return self._known[key]


def _of_core(core: ProgramBuilder) -> tuple[Hashable, ...]:
    """Return the options of a core that affect the cost of a tile."""
    weights = core.memory.weights
    static = weights.static if weights.dynamic else 0
    return replace(core.options, lag=0.0), core.memory.reloaded, static


def _of_macro(
    core: ProgramBuilder, macro: Macro, of_tensor: Callable[[Tensor], Hashable]
) -> Iterator[Hashable]:
    """Yield all of a macro node that its instructions depend on, except addresses and values."""
    yield macro.words
    nodes = [macro.windows, *macro.nodes, macro.sign]
    yield tuple(None if node is None else _of_node(node, of_tensor) for node in nodes)
    inputs = macro.inputs
    yield tuple((inputs.index(one), _of_region(core.regions[one])) for one in inputs)
    for tensor in macro.outputs:
        targets = core.targets_of(tensor)
        if of_tensor is _of_tensor:
            yield tuple((one.rows, one.blocks) for one in targets)
        yield tuple((one.kind, _of_region(one.region)) for one in targets)


def _of_node(node: Node, of_tensor: Callable[[Tensor], Hashable]) -> Hashable:
    operator: Any = node.kind
    if isinstance(node.operator, op.Conv | op.Pool | op.Upsample | op.WindowColumns):
        operator = node.operator
    elif isinstance(node.operator, op.Requantise):
        how = node.operator.how
        offset = np.asarray(how.offset)
        operator = (how.factor.m0.tobytes() if how.factor.m0.ndim > 1 else None,
                    how.negative is None, how.shift, bool(offset.any()),
                    int(abs(offset).max()).bit_length())  # fmt: skip
    elif isinstance(node.operator, op.Lookup):
        operator = node.operator.interpolates
    return operator, *(of_tensor(one) for one in (*node.inputs, *node.outputs))


def _of_tensor(tensor: Tensor) -> Hashable:
    shape = tensor.shape if tensor.value is None else tensor.value.shape
    return tensor.type, shape, tensor.zero_point, tensor.planes, tensor.stored


def _of_any_size(tensor: Tensor) -> Hashable:
    """Return a tensor without its rows and columns."""
    shape = tensor.shape[3:] if tensor.value is None else tensor.value.shape
    return tensor.type, shape, tensor.zero_point, tensor.planes, tensor.stored


def _of_region(region: Region) -> Hashable:
    return region.pixel, region.row, region.high, region.border, region.slots > 0
