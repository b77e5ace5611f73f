"""A core against the reference arithmetic; the bench acts as the network."""

from __future__ import annotations

import pytest

from tests.hw.core_bench import CoreBench
from tests.hw.core_runs import check_core
from tests.hw.networks import TINY


@pytest.fixture(scope="module")
def bench() -> CoreBench:
    return CoreBench(TINY)


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(24))
def test_core_matches_reference(bench: CoreBench, seed: int) -> None:
    check_core(bench, seed)
