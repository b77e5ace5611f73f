"""Output files of exporters, which get their name only when they are complete."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isal import isal_zlib

from storage.closing import Closing
from storage.errors import WriteError, reason_of
from storage.files import PartialFile

STANDARD_OUTPUT = Path("-")
"""This object, not another path of this name, makes a `TextSink` write to standard output."""


class _StandardOutput(Closing):
    """Standard output in the place of a `PartialFile`; it cannot be discarded."""

    def write(self, data: bytes) -> None:
        with self._writing():
            sys.stdout.buffer.write(data)

    def seal(self) -> None:
        with self._writing():
            sys.stdout.buffer.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn errors of the system into `WriteError`, except a pipe that its reader closed."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(
                f"standard output: cannot write: {reason_of(error)}; the text is incomplete"
            ) from error

    def publish(self) -> None:
        """Do nothing: the bytes were written already."""

    def close(self) -> None:
        """Do nothing: standard output stays open."""


class TextSink(Closing):
    """A text file, gzipped if its name ends in ``.gz``; discarded without `commit`."""

    def __init__(self, path: Path) -> None:
        packed = path.name.lower().endswith(".gz")
        self.path = path
        self._packer = isal_zlib.compressobj(2, isal_zlib.DEFLATED, 31) if packed else None
        self._file: PartialFile | _StandardOutput = (
            _StandardOutput() if path is STANDARD_OUTPUT else PartialFile(path)
        )

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
