"""The first columns of csv files whose further columns hold text, read in blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from storage.arrays import Int64
from storage.errors import BadInputError
from storage.formats.text.reader import CHUNK_BYTES, LONGEST, open_text

_LINE = re.compile(rb"^[ \t]*(\d{1,18})[ \t]*,[ \t]*(\d{1,18})[ \t]*(?:,[^\n]*)?\r?$", re.MULTILINE)
_EMPTY = re.compile(rb"^[ \t\r]*$", re.MULTILINE)


def leading_pairs(path: Path, most: int) -> Iterator[Int64]:
    """Yield the first two columns of a csv file after its header, shape (lines, 2).

    most : lines that are read

    Raises `BadInputError` with the first line that does not begin with two whole numbers, and for
    longer files.
    """
    file, raw, _ = open_text(path)
    line, rest, count = 2, b"", 0  # numbers of lines as people count them
    try:
        head = file.readline(LONGEST)
        if not head.endswith(b"\n"):
            return
        while block := file.read(CHUNK_BYTES):
            rest += block
            cut = rest.rfind(b"\n") + 1
            if not cut and len(rest) > LONGEST:
                raise BadInputError(f"{path}: line {line}: 1 MB without a line break")
            if cut:
                yield from _pairs(path, rest[:cut], line)
                line += rest.count(b"\n", 0, cut)
                count += rest.count(b"\n", 0, cut)
                rest = rest[cut:]
            if count > most:
                raise BadInputError(f"{path}: line {line}: more lines than the network has neurons")
        if rest:
            yield from _pairs(path, rest + b"\n", line)
    finally:
        file.close()
        raw.close()


def _pairs(path: Path, text: bytes, first: int) -> Iterator[Int64]:
    """Yield the numbers of whole lines; first : number of the first line."""
    lines = text[:-1]
    found = _LINE.findall(lines)
    if len(found) != lines.count(b"\n") + 1 - len(_EMPTY.findall(lines)):
        for number, line in enumerate(lines.split(b"\n"), first):
            if line.strip() and _LINE.match(line) is None:
                shown = line[:40].decode(errors="replace")
                raise BadInputError(
                    f"{path}: line {number}: {shown!r} does not begin with a neuron and a core"
                )
    if found:
        yield np.array(found, "S18").astype(np.int64)
