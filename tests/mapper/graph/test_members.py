"""Vertices by core, against sets."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph.members import members_of, relocate, swap


@pytest.mark.parametrize("seed", range(10))
def test_members_match_the_cores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    core = rng.integers(0, 4, 20).astype(np.int32)
    held = members_of(core, 4, 3)
    for _ in range(40):
        v, u = (int(each) for each in rng.integers(0, 20, 2))
        a, b = int(core[v]), int(rng.integers(4))
        if a != b and held.held[b] < held.members.shape[1]:
            relocate(*held, v, a, b)
            core[v] = b
        a, b = int(core[v]), int(core[u])
        if a != b:
            swap(held.members, held.place, v, a, u, b)
            core[v], core[u] = b, a
        for k in range(4):
            row = held.members[k, : held.held[k]].tolist()
            assert sorted(row) == np.flatnonzero(core == k).tolist()
            assert [held.place[each] for each in row] == list(range(len(row)))
