"""Costs that cuts and parts of layers share equal the costs of each tile generated alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mapper.compiler.codegen.builder import Choices, MemoryPlan, WeightPlan
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region, pixel_vectors
from mapper.compiler.multicore.slices import slice_macro
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.tables import Tables
from mapper.compiler.tiling.tile_pipeline import CutChoice, TileCost
from mapper.compiler.tiling.tiles import extent_of, tiles_of
from mapper.compiler.tiling.units import tile_cost
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.programs import DUAL, SHAPE, compiled

pytestmark = pytest.mark.jit


def region_of(tensor: Tensor, columns: int) -> Region:
    pixel = pixel_vectors(tensor, columns)
    row = pixel * tensor.width
    return Region(tensor, 0, row * tensor.height, 0, 1, pixel, row)


def parts_of(macro: Macro, shape: object) -> Iterator[tuple[Macro, Emitter]]:
    """Yield parts of a macro node of several heights, with an emitter each."""
    extent = extent_of(macro, shape)  # type: ignore[arg-type]
    for rows in {min(4, extent.rows), extent.rows}:
        for top in {0, extent.rows - rows}:
            part = slice_macro(macro, Span(top, top + rows), Span(0, extent.blocks), 16)
            tensors = [*part.macro.inputs, *part.macro.outputs]
            regions = {one: region_of(one, 16) for one in tensors}
            memory = MemoryPlan(WeightPlan(frozenset(), 0), stop=4096)
            yield part.macro, Emitter(shape, regions, Choices(), memory)  # type: ignore[arg-type]


def plain(core: Emitter, macro: Macro, choice: CutChoice) -> tuple[list[TileCost], int]:
    """Generate all tiles of a cut: return their costs, and the micro-ops of all."""
    trial = Emitter(core.shape, core.regions, core.options, core.memory)
    trial.macro, trial.number = macro, 0
    trial.tables = Tables(core.shape, bounded=False)
    product = trial.begin()
    costs = []
    whole = Tables(core.shape, bounded=False)
    for tile in tiles_of(macro, choice.cut, core.shape):
        state = trial.state
        for tables in (Tables(core.shape, bounded=False), whole):
            trial.state, trial.steps, trial.tables = state, [], tables
            trial.emit_tile(product, tile, choice.cut)
            if tables is not whole:
                count = len(tables.micro_ops)
                costs.append(tile_cost(trial.steps, count, core.shape, tables.headers))
    return costs, len(whole.micro_ops)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("case", ["16", "dual"])
@pytest.mark.parametrize("seed", range(2))
def test_shared_costs_equal_own_costs(seed: int, case: str) -> None:
    """The first tile of each size and all micro-ops, in parts that share one search."""
    shape = DUAL if case == "dual" else SHAPE
    macros = compiled(random_network(seed), shape).compiled.macros
    searches, seen = CutSearches(), 0
    for whole in macros:
        for macro, core in parts_of(whole, shape):
            for choice in searches.ways(core, macro, 0, None):
                costs, micro_ops = plain(core, macro, choice)
                if choice.counted:
                    assert choice.counted == micro_ops
                if shape is SHAPE:  # distances of pairs are instructions of the tile before
                    assert choice.tiles[0] == costs[0]
                seen += 1
    assert seen
