"""Text files, plain or gzipped, read a megabyte at a time: first lines, then numbers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from gzip import BadGzipFile
from pathlib import Path
from typing import Any, BinaryIO

from isal import igzip, igzip_lib

from storage.closing import Closing
from storage.errors import BadInputError
from storage.files import open_input, read_error
from storage.formats.base import GZIP_MAGIC, UTF16, is_text
from storage.formats.text.tokens import Tokenizer, Tokens

CHUNK_BYTES = 1 << 20
PEEK_BYTES = 1 << 16
LONGEST = 1 << 20  # most bytes of a text line or a number
KEPT_COMMENTS = 8
_ISAL_ERROR: Any = igzip_lib.IsalError


class TextReader(Closing):
    """Reads a text file from the start: first some lines as text, then the rest as numbers.

    path : plain or gzipped (by content)
    commas : bytes that separate numbers, at most one between two; blanks always do
    comments : bytes that start a comment, which extends to the end of the line
    Lines end with LF, CR LF, or all with CR alone.
    Raises `BadInputError` if the file cannot be read, is damaged or has other content.
    """

    def __init__(
        self, path: Path, *, commas: bytes = b"", comments: bytes = b"%", blanks: bytes = b""
    ) -> None:
        self.path = path
        self.line = 0  # number of the last line read
        self.comments: deque[str] = deque(maxlen=KEPT_COMMENTS)  # the last ones that `peek` skipped
        self._comments = comments
        self._tokenizer = Tokenizer(path, commas, comments, blanks)
        self._separators = [bytes([b]) for b in b" \t" + commas]
        self._file, self._raw, self._size = open_text(path)
        self._rest = b""
        self._ended = False
        self._started = False
        self._only_cr = False
        self._at_line_start = True

    def where(self, line: int | None = None) -> str:
        """Return file and line for a message, by default the last line read."""
        return f"{self.path}: line {line if line is not None else self.line}"

    @property
    def fraction(self) -> float:
        """Fraction of the file that has been read, 0 .. 1."""
        return min(self._raw.tell() / self._size, 1.0) if self._size else 1.0

    def peek(self) -> str | None:
        """Return the next non-blank, non-comment line without consuming it; None at the end."""
        while True:
            self._fill_line()
            text, newline, rest = self._rest.partition(b"\n")
            content = text.strip()
            if content and content[0] not in self._comments:
                return content.decode("utf-8", "replace")
            if not newline:
                return None
            if content:
                self.comments.append(content[:PEEK_BYTES].decode("utf-8", "replace"))
            self._rest = rest
            self.line += 1

    def raw_line(self) -> str | None:
        """Return the next line unchanged, even a comment, or None at the end of the file."""
        self._fill_line()
        text, newline, self._rest = self._rest.partition(b"\n")
        self.line += len(newline)
        return text.strip().decode("utf-8", "replace") if newline else None

    def next_line(self) -> str | None:
        """Return the next non-blank, non-comment line, or None at the end of the file."""
        content = self.peek()
        if content is not None:
            self._rest = self._rest.partition(b"\n")[2]
            self.line += 1
        return content

    def raw_bytes(self, size: int) -> bytes:
        """Return the next raw bytes, none at the end; do not mix with lines and numbers."""
        return self._read(size)

    def raw_lines(self, size: int) -> list[str]:
        """Return the next raw lines without their ends, about `size` bytes; [] at the end.

        Raises `BadInputError` for a line that is not UTF-8: two names could be merged.
        """
        while not self._ended and len(self._rest) < size:
            self._fill(size)
        self._fill_line()
        cut = self._rest.rfind(b"\n") + 1
        text, self._rest = self._rest[:cut], self._rest[cut:]
        try:
            lines = text.decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            line = self.line + text.count(b"\n", 0, error.start) + 1
            raise BadInputError(
                f"{self.where(line)}: not UTF-8 text (byte {text[error.start]:#x}); "
                "save it as UTF-8"
            ) from error
        self.line += len(lines)
        return lines

    def _fill_line(self) -> None:
        """Read until a line is complete; raise `BadInputError` if it exceeds `LONGEST`."""
        while b"\n" not in self._rest and not self._ended:
            if len(self._rest) > LONGEST:
                raise BadInputError(
                    f"{self.where(self.line + 1)}: the line is longer than 1 MB; is it text "
                    "with line ends?"
                )
            self._fill(PEEK_BYTES)

    def _fill(self, size: int) -> None:
        data = self._read(size)
        if not self._started:
            self._started = True
            data = data.removeprefix(b"\xef\xbb\xbf")
            if data.startswith(UTF16):
                raise BadInputError(f"{self.path}: is UTF-16 text; save it as UTF-8")
            if not is_text(data):
                line = data.count(b"\n", 0, data.index(0)) + 1
                raise BadInputError(
                    f"{self.where(line)}: contains a zero byte: not text; name another --format"
                )
            self._only_cr = b"\n" not in data and b"\r" in data[:-1]
        if self._only_cr:
            data = data.replace(b"\r", b"\n")
        if not data:
            self._ended = True
            if not (self._rest.endswith(b"\n") if self._rest else self._at_line_start):
                self._rest += b"\n"
        self._rest += data

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except (EOFError, _ISAL_ERROR, BadGzipFile) as error:
            raise BadInputError(
                f"{self.path}: the gzip data is truncated or damaged after line {self.line}; "
                "download the file again"
            ) from error
        except OSError as error:
            raise read_error(self.path, error) from error

    def chunks(self, whole_lines: bool = False) -> Iterator[Tokens]:
        """Yield all remaining numbers, in pieces that end with a line if lines are short.

        whole_lines : split a line only if it is longer than two chunks
        """
        while not (self._ended and not self._rest):
            if not self._ended:
                self._fill(CHUNK_BYTES)
            cut = len(self._rest)
            if not self._ended:
                cut = self._rest.rfind(b"\n") + 1
                if not cut and not (whole_lines and len(self._rest) < 2 * CHUNK_BYTES):
                    cut = max(self._rest.rfind(mark) for mark in self._separators) + 1
                if not cut and len(self._rest) > 2 * LONGEST:
                    raise BadInputError(
                        f"{self.where(self.line + 1)}: 2 MB without a separator, so it is "
                        "not a number; is this the right file, and --format?"
                    )
            data, self._rest = self._rest[:cut], self._rest[cut:]
            if data:
                self._at_line_start = data.endswith(b"\n")
                tokens = self._tokenizer.read(data, self.line + 1)
                self.line += tokens.ends.size
                yield tokens

    def close(self) -> None:
        self._file.close()
        self._raw.close()


def read_counts(reader: TextReader, most: int, form: str) -> tuple[list[str], list[int]]:
    """Return the words and the numbers of the header line of a graph, two to `most`.

    form : the numbers of a header, for the message of a `BadInputError`
    """
    text = reader.next_line()
    if text is None:
        raise BadInputError(f"{reader.path}: no header line; is the file complete?")
    words = text.split()
    numbers = header_numbers(words)
    if not 2 <= len(words) <= most or numbers is None:
        raise BadInputError(
            f"{reader.where()}: the header is {text[:40]!r}; it must be `{form}`, or name another "
            "--format"
        )
    return words, numbers


def header_numbers(words: Sequence[str]) -> list[int] | None:
    """Return words of a header as integers; None if any is not an integer below 10^19."""
    if not all(word.isascii() and word.isdigit() and len(word) <= 19 for word in words):
        return None
    return list(map(int, words))


def open_text(path: Path) -> tuple[Any, BinaryIO, int]:
    """Return the decompressed file, the file on disk, and its size in bytes."""
    raw = open_input(path)
    try:
        size = os.fstat(raw.fileno()).st_size
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
    except OSError as error:
        raw.close()
        raise read_error(path, error) from error
    unzipped: Any = igzip.IGzipFile  # has no type hints
    return (unzipped(fileobj=raw), raw, size) if packed else (raw, raw, size)
