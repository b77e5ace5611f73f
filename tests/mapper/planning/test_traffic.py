"""The traffic plan predicts the packed size."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.planning.traffic import packed_bytes, ranges_for
from storage.scratch.packed import pack


@pytest.mark.parametrize("labels", [2, 255, 300, 1000, 60_000, 69_032, 90_000, 300_000, 10**9])
def test_packed_labels_have_the_planned_size(labels: int) -> None:
    found = len(pack(np.random.default_rng(1).integers(0, labels, 100_000).astype(np.int32)))
    assert packed_bytes(labels) == pytest.approx(found / 100_000, rel=0.01)


def test_ranges_limit_the_memory_of_a_workers_sums() -> None:
    assert ranges_for(1000, 5, 2) == 5
    assert ranges_for(1000, 500, 2) == 8
    assert ranges_for(1 << 40, 1 << 20, 16) == 1 << 11
