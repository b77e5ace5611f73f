"""Edge lists: a line ``source target [weight]`` for every synapse, as SNAP and many others write.

Columns are separated by commas, semicolons, tabs or blanks; lines that start with # or % are
comments; a first line of words names the columns (`columns.choose_columns`). Ids are whole
numbers up to 2^63 - 1 with any gaps; weights are whole or decimal. Where a first line names source
and target, ids may also be names, and further columns may hold text (`namedtable`).

Some files start with a line ``neurons edges`` that nothing marks. A first line of two numbers is
taken for that if it fits exactly: as many edges follow as it says, between as many different ids,
none of them above the first number or as high as the second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import DEFAULT_MEMORY, Progress
from storage.formats.columns import ColumnNames, choose_columns, names_ends
from storage.formats.compact import EdgeSpool
from storage.formats.namedtable import is_number, load_named, separator, split_line
from storage.formats.table import table_rows
from storage.formats.text import TextReader
from storage.meta import NetworkMeta


@dataclass(frozen=True, slots=True)
class Form:
    """What the first lines tell of a file.

    count : columns of every line; columns : places of source, target and weight
    named : a line of words, which has been read, names the columns
    mark : what parts them, None for blanks; text : some hold text
    """

    count: int
    columns: tuple[int, int, int | None]
    named: bool
    mark: str | None = None
    text: bool = False


def read_form(reader: TextReader, wanted: ColumnNames | None = None) -> Form:
    """Look at the first lines; raises `BadInputError` if they leave open what is what."""
    line = reader.peek()
    if line is None:
        raise BadInputError(f"{reader.path}: no neurons; the file lists no connection")
    mark = separator(line)
    fields = split_line(line, mark, reader.where(reader.line + 1))
    if not any(is_number(field) for field in fields):
        reader.next_line()
        columns = choose_columns(fields, reader.where(), wanted)
        row, below = reader.peek(), reader.where(reader.line + 1)
        text = row is not None and not all(map(is_number, split_line(row, mark, below)))
        if text and not (wanted and wanted.source) and not names_ends(fields):
            raise BadInputError(
                f"{reader.where()}: ids that are no numbers need a line before them that names "
                "the columns: source, target, weight"
            )
        return Form(len(fields), columns, True, mark, text)
    if wanted is not None:
        raise BadInputError(
            f"{reader.where(reader.line + 1)}: no line names the columns; add one, or leave the "
            "options out that name some"
        )
    count = len(re.split(r"[\s,;]+", line.strip()))
    if count not in (2, 3):
        raise BadInputError(
            f"{reader.where(reader.line + 1)}: {count} columns without names; "
            "give 2 (source, target) or 3 (and weight), or a first line that names them"
        )
    return Form(count, (0, 1, 2 if count == 3 else None), False)


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
    columns: ColumnNames | None = None,
) -> NetworkMeta:
    """Convert an edge list to a directed network file; the original ids become attribute `id`.

    columns : names of the columns to use, where the usual ones do not tell
    Raises `BadInputError` with the line of the first fault.
    """
    with TextReader(source, commas=b",;", comments=b"#%", blanks=b'"') as reader:
        form = read_form(reader, columns)
        if form.text:
            return load_named(
                reader, form.mark, form.count, form.columns, destination, memory, threads, progress
            )
        return _load_numbers(reader, form, destination, memory, threads, progress)


def _load_numbers(
    reader: TextReader,
    form: Form,
    destination: Path,
    memory: int,
    threads: int | None,
    progress: Progress | None,
) -> NetworkMeta:
    """Convert the rest of a file that holds nothing but numbers."""
    with EdgeSpool(destination, reader.path) as spool:
        count, (first, second, third) = form.count, form.columns
        unsure = count == 2 and not form.named
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
