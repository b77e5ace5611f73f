"""Maps with overlapping lifetimes share no vector."""

from __future__ import annotations

from itertools import combinations

import pytest

from mapper.compiler.memory.planner import Region, memory_use
from mapper.errors import DoesNotFitError
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.programs import SHAPE, compiled

pytestmark = pytest.mark.jit


def meet(a: Region, b: Region) -> bool:
    return a.born <= b.dies and b.born <= a.dies


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_overlapping_lifetimes_share_no_vector(seed: int, reuse: bool) -> None:
    try:
        found = list(
            compiled(random_network(seed), SHAPE, reuse=reuse).compiled.code.regions.values()
        )
    except DoesNotFitError as error:
        pytest.skip(str(error))
    for a, b in combinations(found, 2):
        if not reuse or meet(a, b):
            assert a.first + a.vectors <= b.first or b.first + b.vectors <= a.first
    used = max(one.first + one.vectors for one in found)
    whole = sum(one.vectors for one in found)
    assert used == whole if not reuse else used <= whole


def test_the_log_reports_bytes_and_their_lower_bound() -> None:
    made = compiled(random_network(1), SHAPE)
    use = memory_use(made.compiled.code.regions)
    assert 0 < use.bound <= use.used
    text = f"{16 * use.used:,} bytes used, lower bound {16 * use.bound:,} bytes"
    assert any(text in line for line in made.compiled.log)
