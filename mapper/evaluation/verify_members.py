"""Members of a network, in one or several zip archives, read by Python's `zipfile`."""

from __future__ import annotations

import zipfile
from pathlib import Path

from mapper.errors import CheckFailedError
from storage.blobs.blob import BlobFile
from storage.blobs.opening import open_blob
from storage.errors import BadInputError
from storage.jsontext import parse_json, shown
from storage.store.sharded import DESCRIPTION, is_sharded

META = "meta.json"
_LARGEST = 1 << 30  # bytes; limit for a description of files


class ZipMembers:
    """All members by name.

    described : network.json of a network in several files, which has the contents of meta.json
    """

    def __init__(self, path: Path) -> None:
        """Open the archives; raise `CheckFailedError` for invalid archives or misplaced members."""
        self.path = path
        self._zips: list[zipfile.ZipFile] = []
        self._files: list[BlobFile] = []
        self._places: dict[str, zipfile.ZipFile] = {}
        self.described: bytes | None = None
        try:
            if is_sharded(path):
                self._open_all()
            else:
                self._take(path)
        except BadInputError as error:
            self.close()
            raise CheckFailedError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def _take(self, path: Path) -> list[str]:
        """Open an archive; return its members."""
        blob = open_blob(path)
        self._files.append(BlobFile(blob))
        try:
            self._zips.append(zipfile.ZipFile(self._files[-1]))
        except BadInputError:
            raise
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError) as error:
            raise CheckFailedError(f"{path}: not a network file: {error}") from error
        for info in self._zips[-1].infolist():  # zipfile allocates the size in the directory
            if info.compress_size > blob.size:
                raise CheckFailedError(f"{path}: {info.filename} is longer than the file")
        names = self._zips[-1].namelist()
        for name in names:
            if self.described is not None and name in self._places:
                raise CheckFailedError(f"{path}: {name} is in another file as well")
            self._places[name] = self._zips[-1]
        return names

    def _open_all(self) -> None:
        place = self.path / DESCRIPTION
        with open_blob(place) as blob:
            if blob.size > _LARGEST:
                raise CheckFailedError(f"{place}: has {blob.size} bytes, too many for a network")
            self.described = blob.read(0, blob.size)
        try:
            said = parse_json(self.described)
            step, chunk, files = said["block_size"], said["attribute_block_size"], said["files"]
            at = 0
            for file in files:
                name, first, count = file["file"], file["first"], file["blocks"]
                if Path(name).name != name or (type(first), type(count)) != (int, int):
                    raise TypeError(f"files contains {shown(file)}")
                if first != at or count < 1:
                    raise TypeError(f"{shown(name)} begins with block {first}, next is {at}")
                at += count
                for member in self._take(self.path / name):
                    number = int(member[-8:])
                    block = number * chunk // step if member.startswith("attr") else number
                    if not first <= block < at:
                        raise CheckFailedError(f"{self.path / name}: {member} is out of range")
        except BadInputError:
            raise
        except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise CheckFailedError(f"{place}: is damaged: {error}") from error

    def about(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of a member; raise `KeyError` if there is none."""
        return self._places[name].getinfo(name)

    def read(self, name: str) -> bytes:
        """Return a member; raises the errors of `zipfile`."""
        return self._places[name].read(name)

    def names(self) -> list[str]:
        """Return the names of all members, including the description."""
        return [*self._places, *([META] if self.described is not None else [])]

    def close(self) -> None:
        for archive in self._zips:
            archive.close()
        for file in self._files:
            file.close()
