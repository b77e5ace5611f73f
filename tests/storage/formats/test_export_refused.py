"""Networks that cannot be written are refused, and no file remains."""

from __future__ import annotations

import gc
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from storage.errors import BadInputError, WriteError
from storage.formats import EXPORTS, export_network, import_network
from storage.store.network import NetworkFile
from tests.storage.formats.nets import NEEDS, Net

EXTRAS = {"parquet": "formats", "sonata": "sonata"}


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace", "writing"])
def test_a_full_disk_leaves_nothing(
    format: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Net(3, {(0, 1): 2, (1, 2): 3}).write(tmp_path / "net.bin")
    path = tmp_path / f"a{EXPORTS[format].extensions[0]}"
    with NetworkFile(network) as net:
        if where == "writing":
            if format == "sonata":
                pytest.skip(
                    "HDF5 writes through its library; see the test of limits in tests/mapper"
                )

            def refuse(self: Any, data: bytes) -> None:
                raise WriteError(f"{self.path}: cannot write: No space left on device")

            monkeypatch.setattr("storage.files.PartialFile.write", refuse)
        else:
            monkeypatch.setattr(where, fail)
        with pytest.raises(WriteError, match="No space left"):
            export_network(net, path)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


# Python 3.13.0 closes a member whose constructor has failed.
@pytest.mark.filterwarnings("ignore:.*_ZipWriteFile:pytest.PytestUnraisableExceptionWarning")
def test_memory_that_runs_out_within_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error remains, and the destructor of the archive, whose errors fail a test, is silent."""
    network = Net(3, {(0, 1): 2, (1, 2): 3}).write(tmp_path / "net.bin")
    genuine, calls = zlib.compressobj, iter((False, False, True))

    def compressobj(*given: Any) -> Any:
        if next(calls):
            raise MemoryError
        return genuine(*given)

    monkeypatch.setattr(zlib, "compressobj", compressobj)
    with NetworkFile(network) as net, pytest.raises(MemoryError):
        export_network(net, tmp_path / "a.npz")
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_no_such_folder(format: str, tmp_path: Path) -> None:
    network = Net(3, {(0, 1): 2}).write(tmp_path / "net.bin")
    path = tmp_path / "none" / f"a{EXPORTS[format].extensions[0]}"
    with NetworkFile(network) as net, pytest.raises(WriteError, match="none/a"):
        export_network(net, path)
    (tmp_path / "folder.x").mkdir()
    with NetworkFile(network) as net, pytest.raises(WriteError, match="is a folder"):
        export_network(net, tmp_path / "folder.x", format)


@pytest.mark.parametrize("name", NEEDS)
def test_missing_library(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Net(3, {(0, 1): 2}).write(tmp_path / "net.bin")
    monkeypatch.setitem(sys.modules, NEEDS[name], None)
    with (
        NetworkFile(network) as net,
        pytest.raises(BadInputError, match=rf"pip install 'neuromapper\[{EXTRAS[name]}\]'"),
    ):
        export_network(net, tmp_path / "a", name)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


CALLED = ("csv", "parquet", "graphml", "sonata")  # formats that store names


@pytest.mark.parametrize("name", CALLED)
def test_duplicate_names_are_refused(name: str, tmp_path: Path) -> None:
    """A file would merge the neurons."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    for names, shown in ((["x", "y", "x"], "'x'"), ([4, 9, 4], "4")):
        network = Net(3, {(0, 1): 2}, names=names).write(tmp_path / "net.bin")  # type: ignore[arg-type]
        with (
            NetworkFile(network) as net,
            pytest.raises(BadInputError, match=f"two neurons are called {shown}"),
        ):
            export_network(net, tmp_path / "a", name)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]
    with NetworkFile(network) as net:
        export_network(net, tmp_path / "a.npz")
    import_network(tmp_path / "a.npz", tmp_path / "back.bin")
    with NetworkFile(tmp_path / "back.bin") as net:
        assert net.attribute("id").stored.tolist() == [4, 9, 4]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("csv", " x"),
        ("csv", "x\ny"),
        ("csv", ""),
        ("graphml", "\x01"),
        ("sonata", "x\0y"),
        ("npz", "x\0"),
    ],
)
def test_names_that_would_change_are_refused(name: str, wrong: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    network = Net(2, {(0, 1): 2}, names=["a", wrong]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net, pytest.raises(BadInputError) as caught:
        export_network(net, tmp_path / "a", name)
    assert repr(wrong) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_negative_ids_are_refused(tmp_path: Path) -> None:
    network = Net(2, {(0, 1): 2}, names=[-3, 4]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net, pytest.raises(BadInputError, match="the id -3"):
        export_network(net, tmp_path / "a.csv")
