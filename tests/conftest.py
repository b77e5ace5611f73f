"""Shared fixtures: where real data is, and which tests need the JIT."""

from __future__ import annotations

import os
from pathlib import Path

import numba
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``jit`` when NUMBA_DISABLE_JIT is set."""
    if not numba.config.DISABLE_JIT:
        return
    skip = pytest.mark.skip(reason="too slow with the JIT off; runs in the compiled pass")
    for item in items:
        if "jit" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real inputs: $MAPPER_DATA or ../shared/data beside the repository."""
    named = os.environ.get("MAPPER_DATA")
    root = Path(__file__).resolve().parents[1]
    folder = Path(named) if named else root.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data: set MAPPER_DATA to the folder that holds graphs/")
    return folder
