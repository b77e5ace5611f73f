"""Fixtures: runs whose mappings are exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import CHIP, TOML, N


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """A run of a network with its own ids, sizes and fractional weights."""
    (folder / "mine.toml").write_text(TOML)
    rng = np.random.default_rng(4)
    ids = np.sort(rng.choice(1000, N, replace=False))
    with NetworkWriter(folder / "net.bin", N) as writer:
        writer.add(*rng.integers(0, N, (2, 160)), rng.integers(1, 20, 160) / 4)
        writer.set_attribute("id", ids)
        writer.set_attribute("size", rng.integers(1, 3, N))
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "out").code == 0
    return folder / "out"


@pytest.fixture
def whole(folder: Path, run: Run) -> Path:
    """The same with integer weights, as cores require."""
    (folder / "mine.toml").write_text(TOML)
    rng = np.random.default_rng(5)
    with NetworkWriter(folder / "net.bin", N) as writer:
        writer.add(*rng.integers(0, N, (2, 160)), rng.integers(1, 20, 160))
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "whole").code == 0
    return folder / "whole"
