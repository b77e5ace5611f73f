"""An empty folder for each page, and a home of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mapper.conftest import nothing_to_compile


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: empty. Kernels are compiled when they are used, not beforehand."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    # where YoWASP keeps its compiled Yosys, which takes a minute to make
    monkeypatch.setenv(
        "XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("mapper.warmup.compile_kernels", nothing_to_compile)
    monkeypatch.chdir(work)
    yield work
