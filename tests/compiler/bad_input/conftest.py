"""Command-line fixtures of the `mapper` tests, and a compiled model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.bad_input.good import compile_good
from tests.mapper.conftest import Run, fails, folder, nowhere, run, tidy

__all__ = ["fails", "folder", "nowhere", "out", "run", "spread", "tidy"]


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """The good model, compiled for one core."""
    compile_good(folder, run, "--chip", "1x1")
    return folder / "out"


@pytest.fixture
def spread(folder: Path, run: Run) -> Path:
    """The good model, compiled for four cores."""
    compile_good(folder, run, "--chip", "2x2")
    return folder / "out"
