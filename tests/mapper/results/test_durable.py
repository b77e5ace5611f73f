"""Reported success survives a power cut: contents are synced before a rename, folders after it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.results.output_folder import output_folder
from storage.errors import WriteError
from storage.exchange import exchange
from storage.files import PartialFile, PartialFolder, commit_together, write_file


class Disk:
    """Record of syncs and renames. synced : files and folders; lost : names that a power cut loses.

    A name is safe when its folder is synced after the rename; a folder that is renamed again later
    takes its names with it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.unsafe: dict[int, Path] = {}
        self.early: list[Path] = []
        genuine, sync = Path.replace, os.fsync

        def replace(source: Path, target: Path) -> Path:
            inode = source.stat().st_ino
            if not source.is_dir() and inode not in self.synced:
                self.early.append(source)
            done = genuine(source, target)
            self.unsafe[inode] = Path(target)
            return done

        def fsync(descriptor: int) -> None:
            status = os.fstat(descriptor)
            self.synced.add(status.st_ino)
            for inode, name in list(self.unsafe.items()):
                if not name.parent.exists() or name.parent.stat().st_ino == status.st_ino:
                    del self.unsafe[inode]
            sync(descriptor)

        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(os, "fsync", fsync)


def file(path: Path) -> None:
    write_file(path, b"new")


def pair(path: Path) -> None:
    with PartialFile(path) as one, PartialFile(path.with_name("other")) as two:
        commit_together(one, two)


def folder(path: Path) -> None:
    with PartialFolder(path) as made:
        (made.partial / "inner").mkdir()
        write_file(made.partial / "inner" / "a", b"new")
        made.commit()


def output(path: Path) -> None:
    with output_folder(path, True) as work:
        (work.folder / "inner").mkdir()
        write_file(work.folder / "report.json", b"new")
        write_file(work.folder / "inner" / "a", b"new")


@pytest.mark.parametrize("write", [file, pair, folder, output])
def test_names_are_durable(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    write(tmp_path / "out")
    assert not disk.early
    assert not disk.unsafe
    found = [tmp_path, *(one for one in tmp_path.rglob("*") if one.is_dir())]
    assert {one.stat().st_ino for one in found} <= disk.synced


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_replaced_output_is_durable(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output(tmp_path / "out")
    if not exchanges:
        monkeypatch.setattr("mapper.results.output_folder.exchange", lambda *_: False)
    disk = Disk(monkeypatch)
    output(tmp_path / "out")
    assert tmp_path.stat().st_ino in disk.synced
    assert not disk.unsafe


def test_exchanged_names_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    disk = Disk(monkeypatch)
    if exchange(tmp_path / "a", tmp_path / "b"):
        assert tmp_path.stat().st_ino in disk.synced


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk error is reported; a file system without the call is not an error."""
    genuine, number = os.fsync, errno.EINVAL

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        genuine(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    file(tmp_path / "a")
    number = errno.EIO
    with pytest.raises(WriteError, match=r"cannot sync: Input/output error; new files in it may"):
        file(tmp_path / "a")


def test_few_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of an output is synced once, however many files it has."""
    count, genuine = 0, os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal count
        count += 1
        genuine(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for files in (3, 13):
        before = count
        with output_folder(tmp_path / "out", True) as work:
            for number in range(files):
                write_file(work.folder / f"{number}", b"")
            write_file(work.folder / "report.json", b"")
        assert count - before - files <= 8
