"""Output files of exporters, which get their name only when they are complete."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from isal import isal_zlib

from storage.closing import Closing
from storage.files import PartialFile


class TextSink(Closing):
    """A text file, gzipped if its name ends in ``.gz``; discarded without `commit`."""

    def __init__(self, path: Path) -> None:
        packed = path.name.lower().endswith(".gz")
        self.path = path
        self._packer = isal_zlib.compressobj(2, isal_zlib.DEFLATED, 31) if packed else None
        self._file = PartialFile(path)

    def write(self, data: bytes) -> None:
        self._file.write(data if self._packer is None else self._packer.compress(data))

    def commit(self) -> None:
        self.seal()
        self.publish()

    def seal(self) -> None:
        if self._packer is not None:
            self._file.write(self._packer.flush())
        self._file.seal()

    def publish(self) -> None:
        self._file.publish()

    def close(self) -> None:
        self._file.close()


class Stream(io.RawIOBase):
    """A partial file as a write-only stream without seeking, for libraries."""

    def __init__(self, file: PartialFile) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.position

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._file.write(raw)
        return len(raw)
