"""Detection of formats, and common behaviour of all of them."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage import extras
from storage.errors import BadInputError, WriteError
from storage.formats import EXPORTS, FORMATS, export_network, import_network, recognise
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter


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
        ("a.what", b"1 2\n", "unknown format"),
        ("a.txt", b"\0\1\2", "unknown format"),
        ("a.txt.gz", b"\x1f\x8bjunk............", "the gzip data is damaged"),
    ],
)
def test_not_recognised(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=message):
        recognise(tmp_path / name)


HDF5_FILES = {  # top-level content of files of each format, under any name
    "nir": ({"node": {"type": b"NIRGraph"}, "version": b"1.0"}, {"node": {}}),
    "sonata": ({"edges": {}}, {"nodes": {}}, {"edges": {}, "nodes": {}}, {"edges": {}, "node": {}}),
}


def hdf5_file(path: Path, content: dict[str, Any]) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 files need h5py")
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            if isinstance(value, dict):
                file.create_group(name).update(value)
            else:
                file[name] = value


@pytest.mark.parametrize("expected", HDF5_FILES)
def test_hdf5_files_by_content(expected: str, tmp_path: Path) -> None:
    for content in HDF5_FILES[expected]:
        for name in ("a.nir", "a.h5", "a", "a.nir.txt"):
            hdf5_file(tmp_path / name, content)
            assert recognise(tmp_path / name).name == expected


def test_hdf5_files_of_unknown_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_file(tmp_path / "a.nir", {"spikes": {}})
    hdf5_file(tmp_path / "a.h5", {"spikes": {}})
    assert [recognise(tmp_path / name).name for name in ("a.nir", "a.h5")] == ["nir", "sonata"]

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    hdf5_file(tmp_path / "b.h5", {"node": {}})
    assert recognise(tmp_path / "b.h5").name == "sonata"


def test_gzip_of_a_format_without_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.npz.gz"
    path.write_bytes(gzip.compress(b"PK\3\4...."))
    assert recognise(path).name == "npz"
    with pytest.raises(BadInputError, match=r"a\.npz\.gz: is gzipped; decompress it first"):
        import_network(path, tmp_path / "net.bin")


def test_text_of_any_system(tmp_path: Path) -> None:
    """Any line ends are accepted; text other than UTF-8 is refused."""
    text = "source,target,weight\nä,b,1\nb,c,2\n\nc,ä,3\n"
    found = []
    for content in (text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text):
        (tmp_path / "a.csv").write_bytes(content.encode())
        meta = import_network(tmp_path / "a.csv", tmp_path / "net.bin")
        found.append((meta.neurons, meta.synapses, meta.total_weight))
        with NetworkFile(tmp_path / "net.bin") as net:
            assert net.attribute("id").labels == ["ä", "b", "c"]
    assert set(found) == {(3, 3, 6)}
    for encoding, message in (
        ("utf-16", r"a\.csv: is UTF-16 text; save it as UTF-8"),
        ("latin-1", r"a\.csv: line 2: not UTF-8 text \(byte 0xe4\); save it as UTF-8"),
    ):
        (tmp_path / "a.csv").write_bytes(text.encode(encoding))
        for name in (None, "edgelist"):
            with pytest.raises(BadInputError, match=message):
                import_network(tmp_path / "a.csv", tmp_path / "net.bin", name)


def test_empty_lines_of_cr_count(tmp_path: Path) -> None:
    """An empty line of a METIS file is a vertex, for any line ends."""
    for end in ("\n", "\r\n", "\r"):
        (tmp_path / "a.graph").write_bytes(end.join(("3 1", "3", "", "1", "")).encode())
        assert import_network(tmp_path / "a.graph", tmp_path / "net.bin").synapses == 1


def test_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*_: Any, **__: Any) -> Any:
        raise MemoryError

    (tmp_path / "a.csv").write_text("1,2\n")
    monkeypatch.setattr("storage.formats.text.edgelist.load", greedy)
    with pytest.raises(BadInputError, match=r"a\.csv: needs more memory than available"):
        import_network(tmp_path / "a.csv", tmp_path / "net.bin")


def test_short_file_name_in_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's message contains an `n`, but does not name the file."""
    monkeypatch.chdir(tmp_path)
    with Path("n").open("wb") as file:
        np.savez(file, source=[0], target=[1], neurons=[2**31])
    with pytest.raises(BadInputError, match=r"^n: a network of 2147483648 neurons"):
        import_network(Path("n"), Path("net.bin"), "npz")


def test_a_network_needs_no_import(tmp_path: Path) -> None:
    make(tmp_path / "net.csv")
    for name in (None, "npz"):
        with pytest.raises(BadInputError, match="already a network file"):
            import_network(tmp_path / "net.csv", tmp_path / "b.bin", name)


def test_unknown_names(tmp_path: Path) -> None:
    make(tmp_path / "net.bin")
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(BadInputError, match=r"unknown format 'dot'; choose one of .*metis"):
        recognise(tmp_path / "a.csv", "dot")
    with pytest.raises(BadInputError, match="cannot read: No such file"):
        recognise(tmp_path / "none.csv")
    with pytest.raises(BadInputError, match="cannot read: Is a directory"):
        recognise(tmp_path)
    with NetworkFile(tmp_path / "net.bin") as net:
        with pytest.raises(BadInputError, match="unknown format 'dot'; choose one of metis, csv"):
            export_network(net, tmp_path / "out", "dot")
        with pytest.raises(BadInputError, match="unknown format for networks"):
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
