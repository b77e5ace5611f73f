"""The network of most tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mapper.helpers import random_network


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 50, 200)
