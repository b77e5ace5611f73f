"""A folder that is restored after each case; only the entries that have changed are copied again.

Entries are compared by inode, times, size and mode: a change of content also changes the time of
the inode, which commands cannot set.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import NamedTuple


class Stamp(NamedTuple):
    """The state of an entry. changed : nanoseconds; 0 for folders, whose entries have stamps"""

    device: int
    mode: int
    inode: int
    changed: int
    size: int


def stamp(about: os.stat_result) -> Stamp:
    """Return the stamp of an entry."""
    if stat.S_ISDIR(about.st_mode):
        return Stamp(about.st_dev, about.st_mode, 0, 0, 0)
    return Stamp(about.st_dev, about.st_mode, about.st_ino, about.st_ctime_ns, about.st_size)


def stamps(folder: Path) -> dict[str, Stamp]:
    """Return the stamps of all entries below a folder, by path."""
    found: dict[str, Stamp] = {}
    pending = [""]
    while pending:
        name = pending.pop()
        for entry in os.scandir(folder / name):
            path = f"{name}/{entry.name}" if name else entry.name
            found[path] = one = stamp(entry.stat(follow_symlinks=False))
            if stat.S_ISDIR(one.mode):
                pending.append(path)
    return found


class Restored:
    """A copy of a folder.

    whole : folder whose content the copy has after `restore`
    """

    def __init__(self, whole: Path, copy: Path) -> None:
        self.whole, self.copy = whole, copy
        self._stamps: dict[str, Stamp] = {}

    def is_whole(self) -> bool:
        """Return whether nothing has changed since `restore`."""
        return stamps(self.copy) == self._stamps

    def restore(self) -> None:
        """Remove, replace or add all entries that differ from the first content."""
        self.copy.mkdir(exist_ok=True)
        self.copy.chmod(0o755)
        found = stamps(self.copy)
        for path, one in found.items():
            if stat.S_ISDIR(one.mode) and one.mode & stat.S_IRWXU != stat.S_IRWXU:
                (self.copy / path).chmod(0o755)  # else its entries cannot be removed
        for path in sorted(found.keys() - self._stamps.keys()):
            _remove(self.copy / path)
        if not self._stamps:
            shutil.copytree(self.whole, self.copy, symlinks=True, dirs_exist_ok=True)
            self._stamps = stamps(self.copy)
            return
        for path, wanted in sorted(self._stamps.items()):  # folders before their content
            if found.get(path) != wanted:
                self._replace(path, wanted)

    def _replace(self, path: str, wanted: Stamp) -> None:
        source, target = self.whole / path, self.copy / path
        if stat.S_ISDIR(wanted.mode):
            if target.is_symlink() or not target.is_dir():
                _remove(target)
                target.mkdir()
            target.chmod(stat.S_IMODE(wanted.mode))
            return
        _remove(target)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            shutil.copy2(source, target)
        self._stamps[path] = stamp(target.lstat())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
