"""Fixture: an empty current folder and a home folder for each page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mapper.conftest import nothing_to_compile


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Enter an empty folder; kernels are compiled on demand."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    # YoWASP caches its compiled Yosys there, which takes a minute to compile
    monkeypatch.setenv(
        "XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("mapper.kernels.warmup.compile_kernels", nothing_to_compile)
    monkeypatch.chdir(work)
    yield work
