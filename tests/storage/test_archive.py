"""Zip archives: other tools read ours, and we read theirs."""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, CorruptError, WriteError
from storage.store.archive import ArchiveReader, ArchiveWriter, pack

MEMBERS = {"a": b"", "b/c": b"x" * 5000, "größe": bytes(range(256)), "d": b"\0" * 70000}


def write(path: Path, members: dict[str, bytes], zip64_above: int = 0xFFFFFFFF) -> int:
    writer = ArchiveWriter(path, zip64_above)
    for name, raw in members.items():
        writer.add(pack(name, raw))
    return writer.commit()


def unzip_tests(path: Path) -> None:
    """Check an archive with unzip, if installed."""
    tool = shutil.which("unzip")
    if tool is not None:
        done = subprocess.run([tool, "-tq", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.startswith("No errors detected")


# zip64 records: 0: all, 300: long members and the directory, 5000: only long members
@pytest.mark.parametrize("zip64_above", [0, 1, 100, 300, 5000, 0xFFFFFFFF])
def test_other_tools_read_it(zip64_above: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    length = write(path, MEMBERS, zip64_above)
    assert length == path.stat().st_size
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == MEMBERS
    unzip_tests(path)
    with ArchiveReader(path) as archive:
        assert list(archive.names()) == list(MEMBERS)
        assert {name: archive.read(name) for name in archive.names()} == MEMBERS
        assert "a" in archive
        assert "c" not in archive
        assert archive.packed_bytes("b/") == len(pack("", MEMBERS["b/c"]).data)
    assert (b"PK\6\6" in path.read_bytes()) == (zip64_above <= 300)


@settings(max_examples=40)
@given(st.binary(max_size=3000), st.integers(0, 4000), st.integers(1, 5))
def test_pack(raw: bytes, limit: int, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zip"
        members = {f"m{i}": raw * i for i in range(count)}
        write(path, members, limit)
        with zipfile.ZipFile(path) as theirs, ArchiveReader(path) as ours:
            assert theirs.testzip() is None
            for name, content in members.items():
                assert ours.read(name) == theirs.read(name) == content


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("count", [65534, 65535])
def test_more_members_than_16_bits_can_count(count: int, tmp_path: Path) -> None:
    path = tmp_path / "many.zip"
    writer = ArchiveWriter(path)
    one = pack("", b"z")
    for i in range(count):
        writer.add(replace(one, name=f"{i:05d}"))
    writer.commit()
    with zipfile.ZipFile(path) as theirs, ArchiveReader(path) as ours:
        assert len(theirs.namelist()) == len(ours) == count
        for name in ("00000", f"{count - 1:05d}"):
            assert theirs.read(name) == ours.read(name) == b"z"
    # the sentinel 65,535 always comes with the record that holds the true count
    assert (b"PK\6\6" in path.read_bytes()[-200:]) == (count >= 65535)
    unzip_tests(path)


def test_output_is_reproducible(tmp_path: Path) -> None:
    write(tmp_path / "a", MEMBERS)
    write(tmp_path / "b", MEMBERS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_of_other_tools(method: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, raw in MEMBERS.items():
            archive.writestr(name, raw)
        with archive.open("huge", "w", force_zip64=True) as file:
            file.write(b"abc")
        archive.comment = b"made elsewhere"
    with ArchiveReader(path) as reader:
        assert {name: reader.read(name) for name in reader.names()} == MEMBERS | {"huge": b"abc"}


def test_archive_after_other_bytes(tmp_path: Path) -> None:
    """Self-extracting archives begin with a program; offsets count from its end."""
    write(tmp_path / "a", MEMBERS)
    (tmp_path / "b").write_bytes(b"#!program" + (tmp_path / "a").read_bytes())
    with ArchiveReader(tmp_path / "b") as reader:
        assert {name: reader.read(name) for name in reader.names()} == MEMBERS


def test_other_methods(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"abc")
    message = f"^{path}: member a: unsupported compression method, expected deflate$"
    with ArchiveReader(path) as reader, pytest.raises(CorruptError, match=message):
        reader.read("a")


def test_missing_members_and_files(tmp_path: Path) -> None:
    write(tmp_path / "a", MEMBERS)
    with (
        ArchiveReader(tmp_path / "a") as reader,
        pytest.raises(CorruptError, match="member nothing is missing; recreate the network"),
    ):
        reader.read("nothing")
    with pytest.raises(BadInputError, match="none: cannot read: No such file or directory"):
        ArchiveReader(tmp_path / "none")
    with pytest.raises(BadInputError, match="cannot read: Is a directory"):
        ArchiveReader(tmp_path)
    (tmp_path / "text").write_bytes(b"just text")
    with pytest.raises(CorruptError, match="text: not a complete zip archive"):
        ArchiveReader(tmp_path / "text")
    with pytest.raises(WriteError, match="cannot write: No such file or directory"):
        ArchiveWriter(tmp_path / "none" / "a")
    with pytest.raises(WriteError, match="is a folder; name a file"):
        ArchiveWriter(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("field", ["size", "packed", "offset"])
def test_sizes_in_a_damaged_directory(field: str, size: int, tmp_path: Path) -> None:
    """Sizes and offsets are compared with the file before memory is allocated."""
    path = tmp_path / "a.zip"
    write(path, {"a": b"x" * 1000}, zip64_above=0)
    data = bytearray(path.read_bytes())
    extra = data.rindex(struct.pack("<HHQ", 1, 24, 1000)) + 4
    place = extra + 8 * ["size", "packed", "offset"].index(field)
    true = data[place : place + 8]
    data[place : place + 8] = struct.pack("<Q", size)
    path.write_bytes(data)
    with ArchiveReader(path) as reader:
        if data[place : place + 8] == true:
            assert reader.read("a") == b"x" * 1000
        else:
            with pytest.raises(CorruptError, match=f"^{path}: member a: "):
                reader.read("a")
