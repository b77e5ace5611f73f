"""Edge lists: a line ``source target [weight]`` for every synapse, as SNAP and many others write.

Columns are separated by commas, semicolons, tabs or blanks; lines that start with # or % are
comments; a first line of words names the columns (`columns.choose_columns`). Ids are whole
numbers up to 2^63 - 1 with any gaps; weights are whole or decimal.

Some files start with a line ``neurons edges`` that nothing marks. A first line of two numbers is
taken for that if it fits exactly: as many edges follow as it says, between as many different ids,
none of them above the first number or as high as the second.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import DEFAULT_MEMORY, Progress
from storage.formats.columns import choose_columns
from storage.formats.compact import EdgeSpool
from storage.formats.table import table_rows
from storage.formats.text import TextReader
from storage.meta import NetworkMeta


def _fields(line: str) -> list[str]:
    for mark in ",;\t":
        if mark in line:
            parts = line.split(mark)
            break
    else:
        parts = re.split(r"\s+", line.strip())
    return [part.strip().strip('"') for part in parts]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_columns(reader: TextReader) -> tuple[int, tuple[int, int, int | None], bool]:
    """How many columns there are, which, and whether a line of words (now read) named them."""
    line = reader.peek()
    if line is None:
        raise BadInputError(f"{reader.path}: no neurons; the file lists no connection")
    fields = _fields(line)
    if not any(_is_number(field) for field in fields):
        reader.next_line()
        return len(fields), choose_columns(fields, reader.where()), True
    count = len(re.split(r"[\s,;]+", line.strip()))
    if count not in (2, 3):
        raise BadInputError(
            f"{reader.where(reader.line + 1)}: {count} columns without names; "
            "give 2 (source, target) or 3 (and weight), or a first line that names them"
        )
    return count, (0, 1, 2 if count == 3 else None), False


def _is_size_line(spool: EdgeSpool, line: NDArray[np.int64]) -> bool:
    """Whether the numbers of the first line count what the other lines hold."""
    neurons, edges = line.tolist()
    ids = spool.ids
    if (neurons, edges) != (ids.size, spool.edges):
        return False
    return bool(ids[-1] <= neurons and ids[-1] < edges)


def load(
    source: Path,
    destination: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NetworkMeta:
    """Convert an edge list to a directed network file; the original ids become attribute `id`.

    Raises `BadInputError` with the line of the first fault.
    """
    with (
        TextReader(source, commas=b",;", comments=b"#%", blanks=b'"') as reader,
        EdgeSpool(destination, source) as spool,
    ):
        count, (first, second, third), named = read_columns(reader)
        unsure = count == 2 and not named
        top = np.empty(0, np.int64)
        for rows in table_rows(reader, count):
            weight = None if third is None else rows.weights(third)
            source_ids, target_ids = rows.ids(first), rows.ids(second)
            if unsure and source_ids.size:
                unsure, top = False, rows.mantissa[0]
                source_ids, target_ids = source_ids[1:], target_ids[1:]
            spool.add(source_ids, target_ids, weight)
            if progress is not None:
                progress(reader.fraction)
        if top.size and not (spool.edges and _is_size_line(spool, top)):
            spool.add(top[:1], top[1:], None)
        return spool.write({"format": "edgelist"}, memory, threads)
