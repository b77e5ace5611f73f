"""The directory in arrays compared with Python's `zipfile`, on valid and damaged archives."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.blobs.blob import FileBlob
from storage.errors import CorruptError
from storage.store.archive import ArchiveWriter, Packed
from storage.store.index import ArchiveIndex, Member
from tests.reference.archive import members

PREFIXES = ("blocks/", "weights/")

names = st.one_of(
    st.builds("{}{:08d}".format, st.sampled_from(PREFIXES), st.integers(0, 12)),
    st.builds("blocks/{:08d}".format, st.sampled_from([99, 10**7, 10**8 - 1, 10**8])),
    st.sampled_from(
        ["blocks/1", "blocks/0000000a", "blocks/" + "\u0660" * 8, "größe", "PK\1\2", "meta.json"]
    ),
)


@st.composite
def infos(draw: st.DrawFn) -> tuple[zipfile.ZipInfo, bool]:
    """Draw a member of another tool, and whether its local header has 64-bit sizes."""
    info = zipfile.ZipInfo(draw(names))
    info.comment = draw(st.sampled_from([b"", b"", b"PK\1\2", b"said" * 20]))
    info.extra = draw(st.sampled_from([b"", b"", b"UT\5\0\3abcd", b"zz\0\0", b"abc"]))
    info.compress_type = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    return info, draw(st.booleans())


def found(path: Path) -> dict[str, Member] | str:
    """Return the members from the index, in the form of the reference implementation."""
    with FileBlob(path) as blob:
        try:
            index = ArchiveIndex(blob, PREFIXES)
        except CorruptError as error:
            text = str(error)
            start, end = f"{path}: not a complete zip archive (", "); recreate the network"
            assert text.startswith(start), text
            assert text.endswith(end), text
            return text[len(start) : -len(end)]
        told = {name: index.find(name) for name in index.names()}
        assert len(told) == len(index)
        for prefix in PREFIXES:
            mine = [one.packed for name, one in told.items() if one and name.startswith(prefix)]
            assert index.packed_bytes(prefix) == sum(mine)
        assert index.find("blocks/") is None
        assert index.find("blocks/00000050") is None
        return {name: one for name, one in told.items() if one is not None}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(max_examples=200)
@given(st.lists(infos(), max_size=12), st.binary(max_size=9), st.sampled_from([b"", b"PK\5\6 no"]))
def test_archives_of_other_tools(
    each: list[tuple[zipfile.ZipInfo, bool]], before: bytes, comment: bytes
) -> None:
    """In any order, with duplicates, gaps, comments, extra fields, after other bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for i, (info, wide) in enumerate(each):
                with archive.open(info, "w", force_zip64=wide) as file:
                    file.write(b"abc" * i)
            archive.comment = comment
        path.write_bytes(before + path.read_bytes())
        assert found(path) == members(path)


@settings(max_examples=60)
@given(st.lists(names, max_size=9, unique=True), st.sampled_from([0, 60, 200, 0xFFFFFFFF]))
def test_own_archives(each: list[str], zip64_above: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zip"
        with ArchiveWriter(path, zip64_above) as archive:
            for i, name in enumerate(each):
                archive.add(Packed(name, b"x" * i * 9, i, i))
            archive.commit()
        assert found(path) == members(path)
        assert set(found(path)) == set(each)


@pytest.fixture(params=[0xFFFFFFFF, 0], ids=["zip", "zip64"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "a.zip"
    with ArchiveWriter(path, request.param) as writer:
        for name in ("blocks/00000000", "größe", "blocks/00000001", "weights/00000000"):
            writer.add(Packed(name, b"abc", 5, 7))
        writer.commit()
    return path


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte(mask: int, archive: Path) -> None:
    """Both give the same members, or both raise an error."""
    good = archive.read_bytes()
    told = set()
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= mask
        archive.write_bytes(damaged)
        ours, theirs = found(archive), members(archive)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            sound = {name: one for name, one in theirs.items() if 0 <= one.offset < len(good)}
            assert sound.items() <= ours.items()
            assert ours.keys() == theirs.keys()
        elif isinstance(theirs, dict):
            # zipfile accepts the last record with a truncated name, comment or extra field
            assert ours == "Truncated central directory"
        else:
            assert isinstance(ours, str)  # with several faults, possibly another one
        told.add(ours if isinstance(ours, str) else "")
    assert len(told) >= 5


def test_every_truncation(archive: Path) -> None:
    good = archive.read_bytes()
    for length in range(len(good)):
        archive.write_bytes(good[:length])
        assert found(archive) == members(archive) == "File is not a zip file"


def test_records_across_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any piece size works for reading the directory, if a record fits."""
    path = tmp_path / "a.zip"
    with ArchiveWriter(path, 0) as writer:
        for i in range(30):
            writer.add(Packed(f"blocks/{i:08d}", b"abc", i, 7))
        writer.commit()
    expected = found(path)
    assert expected == members(path)
    for piece in range(100, 140):
        monkeypatch.setattr("storage.store.index.PARSED_BYTES", piece)
        assert found(path) == expected


@pytest.mark.parametrize(
    ("kept", "first"),
    [([0, 1, 2, 3], None), ([1, 0, 2, 9], 3), ([3, 1], 0), ([], 0), ([2, 3, 4], 0)],
)
def test_first_wrong(kept: list[int], first: int | None, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ArchiveWriter(path) as writer:
        for i in kept:
            writer.add(Packed(f"blocks/{i:08d}", b"", 10 + i, 0))
        writer.commit()
    with FileBlob(path) as blob:
        index = ArchiveIndex(blob, PREFIXES)
    for start in range(5):
        for least, most in ((0, 99), (0, 11), (11, 99)):
            wrong = [i for i in range(start, 4) if i not in kept or not least <= 10 + i <= most]
            numbers = range(start, 4)
            assert index.first_wrong("blocks/", numbers, least, most) == min(wrong, default=None)
    assert index.first_wrong("blocks/", range(4), 0, 99) == first


def test_memory_per_member(tmp_path: Path) -> None:
    """No object per block."""
    path = tmp_path / "a.zip"
    with ArchiveWriter(path) as writer:
        for i in range(1000):
            writer.add(Packed(f"blocks/{i:08d}", b"", i, 0))
        writer.commit()
    with FileBlob(path) as blob:
        series = ArchiveIndex(blob, PREFIXES)._series["blocks/"]
    arrays = [one for one in vars(series).values() if isinstance(one, np.ndarray)]
    assert sum(one.nbytes for one in arrays) == 21 * 1000
