"""Cells that the checker finds for tables and products, in random programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.compiler.artifacts.checks.touches import instructions_of
from tests.chipsim.npu.programs import SHAPES, random_case
from tests.compiler.codegen.test_cdriver import image_of
from tests.hw.npu.programs import MEMORIES, Traced

CHECKED = [("RQ", "LOOKUP"), ("ALU", "MUL")]
SEEDS = 100


def cells(touches: Sequence[tuple[str, NDArray[np.int64]]]) -> set[tuple[str, int]]:
    return {(memory, cell) for memory, some in touches for cell in some.ravel().tolist()}


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("name", list(SHAPES))
def test_tables_and_products_touch_the_cells_of_the_reference(name: str) -> None:
    shape, seen = SHAPES[name], dict.fromkeys(CHECKED, 0)
    for seed in range(SEEDS):
        case = random_case(shape, seed, 12, False)
        case = replace(case, steps=[step for step in case.steps if step[:2] in CHECKED])
        twin = case.twin()
        memories = {memory: Traced(getattr(twin, own)) for own, memory in MEMORIES.items()}
        for own, memory in MEMORIES.items():
            setattr(twin, own, memories[memory])
        for step, one in zip(case.steps, instructions_of(image_of(case), shape, ""), strict=False):
            for traced in memories.values():
                traced.read, traced.written = set(), set()
            try:
                twin.step(*step[:2], lambda field, fields=step[2]: fields.get(field, 0))
            except IndexError:
                break
            read = {(memory, at) for memory, traced in memories.items() for at in traced.read}
            written = {(memory, at) for memory, traced in memories.items() for at in traced.written}
            assert cells(one.reads) == read and cells(one.writes) == written, (seed, step)
            seen[step[:2]] += bool(written)
    assert min(seen.values()) > 5, seen
