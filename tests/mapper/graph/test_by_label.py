"""Vertices by label, and sums of their values, against processing one vertex at a time."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph import by_label as module
from mapper.graph.by_label import by_label, sums_by_label


@pytest.mark.parametrize("seed", range(20))
def test_against_one_at_a_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOME", 5)  # vertices per step
    rng = np.random.default_rng(seed)
    n, labels = int(rng.integers(0, 30)), int(rng.integers(1, 9))
    label = rng.integers(0, labels, n).astype(np.int32)
    values = rng.integers(0, 2**55, n)  # too large for exact sums in float64
    sums = [0] * labels
    lists: list[list[int]] = [[] for _ in range(labels)]
    place = []
    for v, (one, value) in enumerate(zip(label.tolist(), values.tolist(), strict=True)):
        sums[one] += value
        place.append(len(lists[one]))
        lists[one].append(v)
    assert sums_by_label(label, values, labels).tolist() == sums
    found = by_label(label, labels)
    assert found.members.tolist() == [v for own in lists for v in own]
    assert np.diff(found.start).tolist() == [len(own) for own in lists]
    assert found.place.tolist() == place
    assert found.members.dtype == found.place.dtype == np.int32
