"""Edge lists: one line ``source target [weight]`` per synapse, as written by SNAP and many others.

Columns are separated by commas, semicolons, tabs or blanks; lines that start with # or % are
comments; a header line names the columns (`columns.choose_columns`), and so may a comment above the
rows (`heading`). Ids are whole numbers up to 2^63 - 1 with any gaps; weights are whole or decimal.
If source and target are named, ids may also be names, and other columns may hold text
(`namedtable`). Files of networkx have a dictionary in place of the weight (`edgedata`).

Some files start with an unmarked line ``neurons edges``. A first line of two numbers is read as
sizes if it matches exactly: the file has that many distinct ids and edges, and no id
exceeds the first number or reaches the second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import (
    ColumnNames,
    Columns,
    choose_columns,
    names_ends,
    number_columns,
)
from storage.formats.compact import EdgeSpool
from storage.formats.names import NameTable
from storage.formats.text.edgedata import holds_data, load_data
from storage.formats.text.heading import names_in, separator, split_line
from storage.formats.text.namedtable import is_number, load_named
from storage.formats.text.reader import TextReader
from storage.formats.text.table import table_rows
from storage.store.meta import NetworkMeta


@dataclass(frozen=True, slots=True)
class Form:
    """Layout of a file, detected from its first lines.

    named : a line names the columns, so the file has no size line
    mark : column separator, None for blanks; text : some columns hold text
    """

    columns: Columns
    named: bool
    mark: str | None = None
    text: bool = False


def read_form(reader: TextReader, wanted: ColumnNames | None = None) -> Form:
    """Detect the layout from the first lines; raise `BadInputError` if it is ambiguous.

    A header line is consumed.
    """
    line = reader.peek()
    if line is None:
        raise BadInputError(f"{reader.path}: no neurons: the file lists no connections")
    mark, below = separator(line), reader.where(reader.line + 1)
    fields = split_line(line, mark, below)
    names = names_in(reader.comments, len(fields))
    if names is not None and not names_ends(fields):
        columns = choose_columns(names, reader.where(), wanted)
        return Form(columns, True, mark, not all(map(is_number, fields)))
    if not any(is_number(field) for field in fields):
        reader.next_line()
        return _below_names(reader, fields, mark, wanted)
    count = len(re.split(r"[\s,;]+", line.strip()))
    return Form(number_columns(count, below, wanted), False)


def _below_names(
    reader: TextReader, names: list[str], mark: str | None, wanted: ColumnNames | None
) -> Form:
    """Return the layout of a file whose header line has been read."""
    row, where = reader.peek(), reader.where()
    values = [] if row is None else split_line(row, mark, reader.where(reader.line + 1))
    if mark != "," and len(values) == len(names) + 1:
        names = ["", *names]  # R and pandas write row numbers in an unnamed column
    columns = choose_columns(names, where, wanted)
    text = not all(map(is_number, values))
    if text and not (wanted and wanted.source) and not names_ends(names):
        raise BadInputError(
            f"{where}: text ids need a header line that names the columns: source, target, weight"
        )
    return Form(columns, True, mark, text)


def _is_size_line(spool: EdgeSpool, line: NDArray[np.int64]) -> bool:
    """Return whether the first line holds the number of neurons and edges of the others."""
    neurons, edges = line.tolist()
    distinct = spool.distinct
    if edges != spool.edges or neurons != distinct.size:
        return False
    return distinct.largest <= neurons and distinct.largest < edges


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert an edge list to a directed network file; the original ids become attribute `id`.

    columns : names of the columns to use, if they do not have the usual names
    Raises `BadInputError` with the line of the first fault.
    """
    with TextReader(job.source, commas=b",;", comments=b"#%", blanks=b'"') as reader:
        if holds_data(reader.peek() or ""):
            key = None if columns is None else columns.weight
            return load_data(reader, key, job)
        form = read_form(reader, columns)
        if form.text:
            return load_named(reader, form.mark, form.columns, job)
        return _load_numbers(reader, form, job)


def _load_numbers(reader: TextReader, form: Form, job: ImportJob) -> NetworkMeta:
    """Convert the rest of a file that holds only numbers."""
    populations = NameTable(reader.path, job.memory)
    with EdgeSpool(job) as spool:
        columns = form.columns
        unsure = len(columns.names) == 2 and not form.named
        top = np.empty(0, np.int64)
        for rows in table_rows(reader, len(columns.names)):
            weight = None if columns.weight is None else rows.weights(columns.weight)
            source_ids, target_ids = rows.ids(columns.source), rows.ids(columns.target)
            if unsure and source_ids.size:
                unsure, top = False, rows.mantissa[0]
                source_ids, target_ids = source_ids[1:], target_ids[1:]
            codes = None
            if columns.populations is not None:
                first, second = (
                    populations.of_whole(rows.ids(place)) for place in columns.populations
                )
                codes = first, second
            spool.add(source_ids, target_ids, weight, codes)
            job.progress(reader.fraction)
        if top.size and not (spool.edges and _is_size_line(spool, top)):
            spool.add(top[:1], top[1:], None)
        return spool.write(
            {"format": "edgelist", **columns.facts},
            populations=None if columns.populations is None else populations.names(),
        )
