"""Text that holds a square matrix: a line per neuron, entry (i, j) is the synapse from i to j.

Columns are separated by commas, semicolons, tabs or blanks. A first line and a first column may
name the neurons, as `pandas.DataFrame.to_csv` writes them; then both must have the same names.
Entries of 0 are not synapses. A file counts as a matrix if it has four or more columns of numbers
and as many rows, and no line names columns of sources and targets (`probes.is_square`); with fewer
columns it is a list of edges.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.compact import whole_numbers
from storage.formats.losses import ASSUMED, Magnitudes
from storage.formats.matrices.dense import DenseRows
from storage.formats.names import shown_name
from storage.formats.text.heading import reason_of, separator, split_line
from storage.formats.text.namedtable import is_number, kept_lines, real_numbers
from storage.formats.text.reader import TextReader
from storage.formats.text.table import table_rows
from storage.formats.text.tokens import real_values
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta
from storage.store.network import ID

READ_BYTES = 1 << 20


class Layout(NamedTuple):
    """Layout of a matrix.

    columns : number of neurons; mark : separator, None for blanks
    names : from the first line; None if it is a row
    labelled : whether a first column names the rows
    """

    columns: int
    mark: str | None
    names: list[str] | None = None
    labelled: bool = False


def _open(path: Path) -> TextReader:
    return TextReader(path, commas=b",;", comments=b"#%", blanks=b'"')


def read_layout(path: Path) -> Layout:
    """Return the layout, by the first two lines. Raises `BadInputError` for an empty file."""
    with _open(path) as reader:
        first = _fields_of(reader)
        if first is None:
            raise BadInputError(f"{path}: no neurons: the file has no rows")
        mark = separator(reader.next_line() or "")
        row = _fields_of(reader) or []
    more = len(row) == len(first) + 1  # no cell above the names of rows
    if all(map(is_number, first)) and not more:
        return Layout(len(first), mark)
    labelled = more or (bool(row) and (not first[0] or not is_number(row[0])))
    count = len(row) - labelled
    return Layout(count, mark, first if more else first[len(first) - count :], labelled)


def _fields_of(reader: TextReader) -> list[str] | None:
    """Return the fields of the next line, which is not consumed; None at the end."""
    line = reader.peek()
    where = reader.where(reader.line + 1)
    return None if line is None else split_line(line, separator(line), where)


def _rows_of(path: Path, layout: Layout) -> TextReader:
    """Open the file at the first row of numbers."""
    reader = _open(path)
    if layout.names is not None:
        reader.next_line()
    return reader


def is_square_table(path: Path, least: int) -> bool:
    """Return whether a text has at least this number of columns, and as many rows."""
    try:
        layout, rows = read_layout(path), 0
        if layout.columns < least:
            return False
        with _rows_of(path, layout) as reader:
            for texts, _ in kept_lines(reader, READ_BYTES):
                if not rows and not _is_row(texts[0], layout, reader):
                    return False
                rows += len(texts)
                if rows > layout.columns:
                    return False
            return rows == layout.columns
    except BadInputError:
        return False  # the reader of edge lists reports it


def _is_row(text: str, layout: Layout, reader: TextReader) -> bool:
    fields = split_line(text, layout.mark, reader.where())[layout.labelled :]
    return len(fields) == layout.columns and all(map(is_number, fields))


def load(job: ImportJob) -> NetworkMeta:
    """Convert a matrix to a directed network file; names become the attribute `id`.

    Raises `BadInputError` with the line of the first fault.
    """
    magnitudes = Magnitudes(job.keeps_weights)
    layout = read_layout(job.source)
    with _rows_of(job.source, layout) as reader:
        if not 0 < layout.columns <= MAX_VERTICES:
            raise BadInputError(f"{reader.where()}: no column of numbers; is it a matrix?")
        with job.writer(layout.columns) as writer:
            rows = DenseRows(job.source, writer, magnitudes)
            blocks = _named_rows(reader, layout) if layout.names else _rows(reader, layout)
            for values in blocks:
                if rows.rows + len(values) > layout.columns:
                    raise _not_square(reader, layout, "more")
                rows.add(values)
                job.progress(reader.fraction)
            if rows.rows < layout.columns:
                raise _not_square(reader, layout, f"{rows.rows}")
            if layout.names:
                whole = whole_numbers(layout.names)
                if whole is None:
                    writer.set_attribute(ID, np.arange(layout.columns), layout.names)
                else:
                    writer.set_attribute(ID, whole)
            said = (
                f"a matrix of {layout.columns:,} rows and columns: entry (i, j) is the synapse from"
                " i to j; for a list of edges give --format edgelist"
            )
            provenance = {"format": "matrix", "source": job.source.name, ASSUMED: said}
            return writer.finish(provenance | magnitudes.facts)


def _not_square(reader: TextReader, layout: Layout, rows: str) -> BadInputError:
    return BadInputError(
        f"{reader.path}: {layout.columns} columns and {rows} rows; a network needs a square matrix"
    )


def _rows(reader: TextReader, layout: Layout) -> Iterator[NDArray[Any]]:
    """Yield rows of numbers."""
    for rows in table_rows(reader, layout.columns):
        values = real_values(rows.mantissa.ravel(), rows.exponent.ravel())
        yield values.reshape(rows.mantissa.shape)


def _named_rows(reader: TextReader, layout: Layout) -> Iterator[NDArray[Any]]:
    """Yield rows of numbers below a line of names."""
    names = layout.names or []
    if len(set(names)) < len(names):
        again = next(name for name in names if names.count(name) > 1)
        raise BadInputError(f"{reader.where()}: two columns are called {shown_name(again)}")
    row = 0
    for texts, where in kept_lines(reader, READ_BYTES):
        found = []
        for at, text in enumerate(texts):
            fields = _fields(text, layout.mark, where(at))
            if len(fields) != layout.columns + layout.labelled:
                raise BadInputError(
                    f"{where(at)}: {len(fields)} columns instead of "
                    f"{layout.columns + layout.labelled}; use the same columns in each line"
                )
            if layout.labelled and row < len(names) and fields[0] != names[row]:
                raise BadInputError(
                    f"{where(at)}: row {row + 1} is called {shown_name(fields[0])}, column "
                    f"{row + 1} {shown_name(names[row])}; use the same order of neurons"
                )
            found.append(real_numbers(fields[layout.labelled :], lambda _: where(at), "entry"))  # noqa: B023
            row += 1
        yield np.array(found)


def _fields(text: str, mark: str | None, where: str) -> list[str]:
    if mark is None:
        return text.replace('"', "").split()
    try:
        return [field.strip() for field in next(csv.reader([text], delimiter=mark), [])]
    except csv.Error as error:
        raise BadInputError(f"{where}: {reason_of(error)}; repair it") from error
