"""Shared fixtures: where real data is, and which tests need the JIT."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import numba
import pytest

from mapper.warmup import forget_kernels, trust_kernels


def pytest_configure(config: pytest.Config) -> None:
    """Compile anew when a file changed that other files take kernels from; see `forget_kernels`."""
    if numba.config.DISABLE_JIT or hasattr(config, "workerinput"):
        return
    root = Path(__file__).resolve().parents[1]
    sources = {
        str(path.relative_to(root).with_suffix("")).replace("/", "."): path.read_text()
        for package in ("mapper", "storage", "chipsim")
        for path in sorted((root / package).rglob("*.py"))
    }
    kernels = {
        name: set(re.findall(r"^@njit.*\ndef (\w+)", text, re.MULTILINE))
        for name, text in sources.items()
    }
    taken = re.compile(r"^from ([\w.]+) import (\([^)]*\)|.*)$", re.MULTILINE)
    shared = {
        name
        for text in sources.values()
        for name, taken_from in taken.findall(text)
        if kernels.get(name, set()) & set(re.findall(r"\w+", taken_from))
    }
    text = "".join(sources[name] for name in sorted(shared))
    digest = hashlib.sha256(text.encode()).hexdigest()
    cache = getattr(config, "cache", None)  # pytest may be told to do without
    if cache and cache.get("mapper/shared", None) != digest:
        forget_kernels()
        cache.set("mapper/shared", digest)
    trust_kernels()  # or programs that tests start would forget what other tests have compiled


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``jit`` when NUMBA_DISABLE_JIT is set.

    Pages of the documentation go last: they need nearly all kernels, which then are compiled.
    """
    items.sort(key=lambda item: "docs" in item.path.parts)
    if not numba.config.DISABLE_JIT:
        return
    skip = pytest.mark.skip(reason="runs in the compiled pass, which suffices")
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
