"""Imports of files from the cache: the same network, notes and table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.inputs import cached_import
from mapper.inputs.cached_import import KIND
from storage import formats
from tests.mapper.conftest import Run


@pytest.fixture
def edges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with self-loops and duplicates, of which the cache keeps the import."""
    monkeypatch.setenv("MAPPER_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "256MiB")
    monkeypatch.setattr(cached_import, "LEAST_BYTES", 1)
    random = np.random.default_rng(1)
    lines = [f"{a},{b},{w}" for a, b, w in random.integers(1, 40, (300, 3))]
    path = folder / "edges.csv"
    path.write_text("source,target,weight\n" + "\n".join(lines) + "\n")
    return path


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("it was in the cache")


def test_the_same_network_with_and_without(
    edges: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = run("import", edges, "without.bin", "--no-cache")
    first = run("import", edges, "first.bin")
    with monkeypatch.context() as patch:
        patch.setattr(formats, "import_network", refuse)
        again = run("import", edges, "again.bin")
        with pytest.raises(AssertionError, match="in the cache"):
            run("import", edges, "other.bin", "--rates", "weights")
    assert [one.code for one in (without, first, again)] == [0, 0, 0]
    assert Path("first.bin").read_bytes() == Path("without.bin").read_bytes()
    assert Path("again.bin").read_bytes() == Path("without.bin").read_bytes()
    assert (again.out, again.err) == (first.out.replace("first", "again"), first.err)
    assert "self-loops" in again.err
    assert run("cache", "--json").json()["kinds"][KIND]["results"] == 1


@pytest.mark.parametrize("content", [b"0 1 1\n" * 100, bytes(200)])
def test_no_digest_of_huge_and_empty_files(
    edges: Path, run: Run, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sparse file of a tebibyte is refused at once, not after its digest."""
    edges.write_bytes(content)
    monkeypatch.setattr(cached_import, "LARGEST_BYTES", 400)
    monkeypatch.setattr(cached_import, "hashlib", None)
    found = run("import", edges, "new.bin")
    assert found.code == int(not any(content)), found.err


def test_a_changed_file_is_imported(edges: Path, run: Run) -> None:
    run("import", edges, "first.bin")
    edges.write_text(edges.read_text() + "1,39,7\n39,1,8\n")
    run("import", edges, "second.bin")
    run("import", edges, "fresh.bin", "--no-cache")
    assert Path("second.bin").read_bytes() == Path("fresh.bin").read_bytes()
    assert Path("second.bin").read_bytes() != Path("first.bin").read_bytes()


def test_a_run_uses_an_import(edges: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("import", edges, "first.bin").code == 0
    monkeypatch.setattr(formats, "import_network", refuse)
    assert run("check", edges, "--chip", "2x2").code == 0
    with pytest.raises(AssertionError, match="in the cache"):
        run("check", edges, "--chip", "2x2", "--no-cache")


def test_large_results_are_not_kept(edges: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_import, "SHARE", 1e-9)
    run("import", edges, "first.bin")
    assert run("cache", "--json").json()["kinds"] == {}


def test_a_file_that_changes_meanwhile_is_not_kept(
    edges: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_network = formats.import_network

    def changing(*given: Any, **more: Any) -> Any:
        edges.write_text(edges.read_text() + "1,39,7\n")
        return import_network(*given, **more)

    monkeypatch.setattr(formats, "import_network", changing)
    assert run("import", edges, "first.bin").code == 0
    assert run("cache", "--json").json()["kinds"] == {}


def test_a_result_larger_than_the_budget_is_not_taken(
    edges: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("import", edges, "first.bin").code == 0
    monkeypatch.setattr(cached_import, "SHARE", 1e-9)
    monkeypatch.setattr(formats, "import_network", refuse)
    with pytest.raises(AssertionError, match="in the cache"):
        run("import", edges, "again.bin")
