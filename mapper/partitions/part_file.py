"""Partition files as METIS and KaHIP write them: the part of a vertex per line, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mapper.errors import MapperError
from storage.arrays import Int32
from storage.errors import BadInputError
from storage.files import PartialFile, open_input

LINES = 1 << 16  # vertices per write
LONGEST_LINE = 12  # bytes: ten digits, and the end of the line


def write_lines(file: PartialFile, part: Int32) -> None:
    """Write one line per vertex; the caller commits the file."""
    for first in range(0, part.size, LINES):
        some = part[first : first + LINES].tolist()
        file.write(("\n".join(map(str, some)) + "\n").encode())


def write_parts(path: Path, part: Int32) -> None:
    """Write a partition file; it gets its name when it is complete."""
    with PartialFile(path) as file:
        write_lines(file, part)
        file.commit()


def read_parts(path: Path, vertices: int, parts: int) -> Int32:
    """Read a partition file; raise `MapperError` unless it has a valid part for each vertex."""
    try:
        with open_input(path) as file:
            text = file.read(LONGEST_LINE * vertices + 1)
    except BadInputError as error:
        raise MapperError(str(error)) from error
    try:
        found = np.array(text.split(), dtype=np.int64)
    except (ValueError, OverflowError):
        found = np.empty(0, np.int64)
    if found.size != vertices or found.min() < 0 or found.max() >= parts:
        raise MapperError(
            f"{path}: is not a partition of {vertices:,} vertices into {parts:,} parts; give "
            "another file with -o, or --force to replace it"
        )
    return found.astype(np.int32)
