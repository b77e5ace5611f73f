"""Fixture: a network as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

SMALL: dict[str, Any] = {"neurons_per_core": 4, "threads": 1, "memory": "300MiB"}


@pytest.fixture
def edges(folder: Path) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 200))
    source[0], target[0] = 49, 0
    return source, target, rng.integers(1, 6, 200)
