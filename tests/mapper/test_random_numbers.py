"""Generators and hashes against plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.random_numbers import draw, draw_star, mixed
from tests.reference import placers, streamed
from tests.reference.exchange import Draws

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_draw_star(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = np.array([rng.integers(1, 2**63)], np.uint64)
    draws = Draws(int(state[0]))
    for below in rng.integers(1, 1 << 20, 30).tolist():
        assert draw_star(state, below) == draws.draw(below)
        assert int(state[0]) == draws.state


@pytest.mark.parametrize("seed", [1, 12345, (1 << 62) + 987654321])
def test_draw(seed: int) -> None:
    state, twin = np.array([seed], np.uint64), placers.Xorshift(seed)
    for below in (1, 2, 1024, 1 << 30, 77):
        for _ in range(20):
            drawn = draw(state, below)
            assert 0 <= drawn < below
            assert drawn == twin.draw(below)


@pytest.mark.parametrize("seed", range(20))
def test_mixed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, salt = (int(x) for x in rng.integers(0, 2**31, 3))
    assert int(mixed(a, b, salt << 31)) == streamed.mix(a, b, salt << 31)
    assert int(mixed(b, a, salt)) == streamed.mix(b, a, salt)
