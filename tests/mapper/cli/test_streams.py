"""`mapper info` of files to import, and standard input and output in place of files."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.errors import CLOSED_PIPE
from storage.formats import EXPORTS, outline
from storage.formats.text import reader
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

Fails = Callable[..., str]


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 20, 60)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("net.csv", "0,1\n1,2\n", ("edgelist", 3, 2, False, "content")),
        ("model.graph", "2 1\n2\n1\n", ("metis", 2, 1, True, "header")),
        ("model.graph", "9 7\nnonsense", ("metis", 9, 7, True, "header")),
        ("a.gml", "graph [ node [ id 3 ] ]", ("gml", 1, 0, True, "content")),
        (
            "a.mtx",
            "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n",
            ("matrixmarket", 3, 4, False, "header"),
        ),
    ],
)
def test_info_of_a_file_to_import(
    name: str, text: str, expected: tuple[Any, ...], folder: Path, run: Run
) -> None:
    (folder / name).write_text(text)
    found = run("info", name, "--json").json()
    shown = tuple(found[key] for key in ("format", "neurons", "synapses", "undirected", "counted"))
    assert shown == expected
    assert found["is_network"] is False
    assert f"mapper import {name} net.bin" in run("info", name).out
    assert sorted(path.name for path in folder.iterdir()) == [name]


def test_info_of_large_files(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is read whole to count its neurons."""
    (folder / "a.npy").write_bytes(npy_of(np.eye(3)))
    (folder / "a.csv").write_text("0,1\n" * 3)
    monkeypatch.setattr(outline, "READ_BYTES", 10)
    found = run("info", "a.npy", "--json").json()
    assert (found["neurons"], found["synapses"], found["counted"]) == (3, None, "header")
    assert "not counted" in run("info", "a.csv").out
    monkeypatch.setattr(outline, "READ_BYTES", 1000)
    assert run("info", "a.npy", "--json").json()["synapses"] == 0
    monkeypatch.setattr(outline, "MOST_STEPS", 0)
    monkeypatch.setattr(reader, "CHUNK_BYTES", 4)
    assert run("info", "a.csv", "--json").json()["neurons"] is None


def npy_of(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, data in (
        (("--format", "metis"), b"2 1\n2\n1\n"),
        ((), b"*Vertices 2\n*Edges\n1 2\n"),
        ((), npy_of(np.eye(2)[::-1])),
        ((), npz_of(source=[0], target=[1])),
        (("--files", "2", "--format", "edgelist"), b"0 1\n"),
    ):
        piped(monkeypatch, data)
        found = run("import", "-", "net.bin", *words, "--json").json()
        assert found["neurons"] == 2
        assert found["provenance"]["source"].startswith("standard input")
        for path in folder.iterdir():
            assert path.name in ("net.bin", "net.bin.lock")
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def npz_of(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "words", "code", "message"),
    [
        (b"", (), 1, "standard input: is empty; "),
        (b"1 2\n2 x\n", ("--format", "edgelist"), 1, "standard input: line 2: 'x' is not a num"),
        (b"1 2\n", (), 1, "standard input: unknown format; choose one with --format"),
        (b"{}", ("--format", "sonata"), 2, "-: sonata files refer to other files; "),
    ],
)
def test_faulty_standard_input(
    data: bytes, words: tuple[str, ...], code: int, message: str, folder: Path, fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    piped(monkeypatch, data)
    assert fails("import", "-", "net.bin", *words, code=code).startswith(message)
    assert [path.name for path in folder.iterdir() if path.suffix != ".lock"] == []


def test_terminal_as_standard_input(
    folder: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert fails("import", "-", "net.bin", code=2).startswith("-: standard input is a terminal; ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "-: choose a format of text with --format (metis, csv, "),
        (("--format", "npz"), "-: choose a format of text with --format (metis, csv, "),
        (("--format", "csv", "--json"), "-: --json prints to standard output; name a file"),
    ],
)
def test_refused_standard_output(
    words: tuple[str, ...], message: str, network: Path, fails: Fails
) -> None:
    assert fails("export", "net.bin", "-", *words, code=2).startswith(message)


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_full_or_closed_standard_output(network: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "mapper", "export", str(network), "-", "--format", "csv"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    for words in (command, [*command[:3], "info", str(network)]):
        if Path("/dev/full").exists():
            with Path("/dev/full").open("wb") as full:
                done = subprocess.run(
                    words, stdout=full, stderr=subprocess.PIPE, check=False, env=buffered
                )
            said = done.stderr.decode()
            assert done.returncode == 1, said
            assert f"mapper {words[3]}: standard output: cannot write: No space left" in said
            assert "Traceback" not in said and "ignored" not in said
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == CLOSED_PIPE


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("format", [name for name, each in EXPORTS.items() if each.text])
def test_standard_output(format: str, network: Path, folder: Path) -> None:
    """The bytes equal the bytes of a file."""
    words = [sys.executable, "-m", "mapper", "export", str(network)]
    name = f"a{EXPORTS[format].extensions[0]}"
    subprocess.run([*words, name], check=True, capture_output=True)
    done = subprocess.run([*words, "-", "--format", format], check=True, capture_output=True)
    assert done.stdout == (folder / name).read_bytes() != b""
