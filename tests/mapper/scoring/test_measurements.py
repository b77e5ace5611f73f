"""Recently measured mappings are not measured again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.scoring.measure import Measurements, measure_network
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network


def test_the_last_two_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, chip = random_network(tmp_path / "net.bin", 60, 300), Chip("c", 3, 3)
    rng = np.random.default_rng(0)
    first, second, third = (rng.integers(0, 9, 60).astype(np.int32) for _ in range(3))
    passes = []

    def measured(*given: object) -> object:
        passes.append(1)
        return measure_network(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("mapper.scoring.measure.measure_network", measured)
    with NetworkFile(path) as network:
        some = Measurements(network, chip, 1)
        for core, count in ((first, 1), (second, 2), (first, 2), (second, 2), (third, 3)):
            found = some.measure(core.copy())
            again = measure_network(network, chip, core)
            assert (found.unicast_links == again.unicast_links).all()
            assert len(passes) == count
        assert some.known(first) is None
        core = second.copy()
        core[0] = (core[0] + 1) % 9
        assert some.known(core) is None
        changed = some.measure(core)
        core[:] = 0  # the cached measurement does not change with it
        assert some.known(core) is None
        assert changed is not None
