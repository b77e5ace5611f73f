"""Recognition of formats, and what is the same for all of them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from storage.errors import BadInputError, WriteError
from storage.formats import EXPORTS, FORMATS, export_network, import_network, recognise
from storage.network import NetworkFile
from storage.writer import NetworkWriter


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.graph", b"2 1\n2\n1\n", "metis"),
        ("a.METIS.gz", b"2 1\n2\n1\n", "metis"),
        ("a.csv", b"1,2\n", "edgelist"),
        ("a.csv", b"\xef\xbb\xbf%%MatrixMarket matrix", "matrixmarket"),
        ("a.mtx", b"nothing", "matrixmarket"),
        ("a", b"PAR1....", "parquet"),
        ("a.txt", b"PK\3\4....", "npz"),
        ("a.dat", b"12\n", "qaplib"),
        ("a.nir", b"\x89HDF\r\n\x1a\n\0\0", "nir"),
        ("a.nir", b"no HDF5", "nir"),
        ("a.onnx", b"\x08\x07\0", "onnx"),
        ("a.txt", b"<?xml version='1.0'?>\n<graphml>", "graphml"),
        ("a.graphml", b"\0nothing", "graphml"),
        ("a", b"\x89HDF\r\n\x1a\n....", "sonata"),
        ("circuit_config.json", b"{}", "sonata"),
        ("a.graph", struct.pack("<4Q", 3, 7, 0, 8 * 11), "parhip"),
        ("a.bgf", b"\0", "parhip"),
    ],
)
def test_recognise(name: str, content: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert recognise(tmp_path / name).name == expected
    assert recognise(tmp_path / name, "qaplib").name == "qaplib"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.what", b"1 2\n", "neither its name nor its content tells the format"),
        ("a.txt", b"\0\1\2", "neither its name nor its content tells the format"),
        ("a.txt.gz", b"\x1f\x8bjunk............", "the gzip data is damaged"),
    ],
)
def test_not_recognised(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=message):
        recognise(tmp_path / name)


def test_a_network_needs_no_import(tmp_path: Path) -> None:
    make(tmp_path / "net.csv")
    for name in (None, "npz"):
        with pytest.raises(BadInputError, match="is a network file already"):
            import_network(tmp_path / "net.csv", tmp_path / "b.bin", name)


def test_unknown_names(tmp_path: Path) -> None:
    make(tmp_path / "net.bin")
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(BadInputError, match=r"no format is called 'dot'; there are .*metis"):
        recognise(tmp_path / "a.csv", "dot")
    with pytest.raises(BadInputError, match="cannot read: No such file"):
        recognise(tmp_path / "none.csv")
    with pytest.raises(BadInputError, match="cannot read: Is a directory"):
        recognise(tmp_path)
    with NetworkFile(tmp_path / "net.bin") as net:
        with pytest.raises(BadInputError, match="no format is called 'dot'; there are metis, csv"):
            export_network(net, tmp_path / "out", "dot")
        with pytest.raises(BadInputError, match="the name tells no format that can be written"):
            export_network(net, tmp_path / "out.dot")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("matrixmarket", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"),
        ("metis", "2 1\n2\n1\n"),
        ("edgelist", "1 2\n"),
        ("qaplib", "2 0 1 1 0 0 3 3 0"),
    ],
)
def test_folder_that_does_not_exist(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(content)
    with pytest.raises(WriteError, match="No such file or directory"):
        import_network(tmp_path / "a", tmp_path / "none" / "net.bin", name)


@pytest.mark.parametrize("name", ["a.graph", "a.csv", "a.mtx"])
def test_progress_ends_at_one(name: str, tmp_path: Path) -> None:
    content = {
        "a.graph": "2 1\n2\n1\n",
        "a.csv": "1,2\n",
        "a.mtx": "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
    }[name]
    (tmp_path / name).write_text(content)
    seen: list[float] = []
    import_network(tmp_path / name, tmp_path / "net.bin", progress=seen.append)
    assert seen[-1] == 1.0


@pytest.mark.parametrize("name", ["a.graph", "a.csv", "a.csv.gz"])
def test_export_is_atomic(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "net.bin")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with NetworkFile(tmp_path / "net.bin") as net:
        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(WriteError, match="No space left"):
            export_network(net, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_tables_are_complete() -> None:
    for formats in (FORMATS, EXPORTS):
        assert all(name == entry.name and entry.about for name, entry in formats.items())


def make(path: Path) -> None:
    with NetworkWriter(path, 3) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]))
        writer.finish()
