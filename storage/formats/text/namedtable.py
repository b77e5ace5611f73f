"""Text tables of edges whose ids are names, or with other text columns.

The first line names the columns. `edgelist` reads tables of numbers, many times faster; here the
csv module splits lines in batches. Neurons are numbered in order of appearance and their names
become the labels of the attribute `id`; if all ids are whole numbers, they are compacted in
increasing order, as in tables of numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.csvcells import EVALUATED, is_formula, is_guarded, unguarded
from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.columns import Columns
from storage.formats.compact import EdgeSpool
from storage.formats.names import NameTable
from storage.formats.text.heading import reason_of
from storage.formats.text.reader import TextReader
from storage.store.meta import NetworkMeta

SPLIT_BYTES = 1 << 20  # bytes of text split at a time
_FIRST = frozenset(f"'{EVALUATED}")
Where = Callable[[int], str]


def kept_lines(reader: TextReader, size: int) -> Iterator[tuple[list[str], Where]]:
    """Yield the remaining lines with content other than comments, about `size` bytes at a time.

    Each batch comes with a function that returns the place of a line for a message.
    """
    while lines := reader.raw_lines(size):
        first = reader.line - len(lines) + 1
        kept = [i for i, line in enumerate(lines) if line.strip() and line.lstrip()[0] not in "#%"]

        def where(row: int, first: int = first, kept: list[int] = kept) -> str:
            return reader.where(first + kept[row])

        if kept:
            yield [lines[i] for i in kept], where


class NamedTable:
    """The rows of an open file, whose header line has been read.

    count : number of columns of each row
    """

    def __init__(self, reader: TextReader, mark: str | None, count: int) -> None:
        self._reader, self._mark, self._count = reader, mark, count

    def pieces(self, wanted: Sequence[int]) -> Iterator[tuple[list[list[str]], Where]]:
        """Yield wanted columns of some rows, and a function that returns the place of a row."""
        for texts, where in kept_lines(self._reader, SPLIT_BYTES):
            rows = self._rows(texts, where)
            yield [list(map(itemgetter(place), rows)) for place in wanted], where

    def _rows(self, lines: list[str], where: Where) -> list[list[str]]:
        if self._mark is None:
            rows = [line.replace('"', "").split() for line in lines]
        else:
            try:
                rows = list(csv.reader(lines, delimiter=self._mark))
            except csv.Error as error:
                raise BadInputError(
                    f"{where(0)} or after: {reason_of(error)}; repair it"
                ) from error
        if len(rows) != len(lines):
            raise BadInputError(f"{where(0)} or after: a quoted value continues on the next line")
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        wrong = np.flatnonzero(counts != self._count)
        if wrong.size:
            row = int(wrong[0])
            raise BadInputError(
                f"{where(row)}: {counts[row]} columns instead of {self._count}; "
                "use the same columns in each line"
            )
        return rows


class NameCells:
    """The names in the cells of a table, without the quotes of `storage.csvcells`.

    A table that guards some names must guard all: otherwise a cell with a quote could be the name
    of another neuron.
    """

    def __init__(self) -> None:
        self._guarded = self._plain = ""  # an example of each

    def read(self, column: list[str], where: Where) -> list[str]:
        """Return the names in a column of some rows.

        Raises `BadInputError` if only some of the names that spreadsheets evaluate are guarded.
        """
        names = list(map(str.strip, column))
        if _FIRST.isdisjoint({name[:1] for name in names}):
            return names
        for row, name in enumerate(names):
            if is_guarded(name):
                self._guarded, names[row] = name, unguarded(name)
            elif is_formula(name):
                self._plain = name
            if self._guarded and self._plain:
                raise BadInputError(
                    f"{where(row)}: {self._plain[:40]!r} needs a single quote in front, because "
                    f"{self._guarded[:40]!r} has one"
                )
        return names


def _whole(names: list[str], where: Where) -> list[str]:
    if "" in names:
        raise BadInputError(
            f"{where(names.index(''))}: a value is missing; fill in or delete the line"
        )
    return names


def real_numbers(column: list[str], where: Where, what: str) -> NDArray[Any]:
    """Return a column of finite numbers, shape (rows,)."""
    try:
        values = np.array(list(map(float, column)))
    except ValueError:
        row = next(row for row, text in enumerate(column) if not is_number(text))
        raise BadInputError(
            f"{where(row)}: {what} {column[row][:24]!r} is not a number; repair it"
        ) from None
    refuse(~np.isfinite(values), column, where, f"{what} {{}} is not a finite number; repair it")
    return values


def refuse(wrong: NDArray[np.bool_], column: list[str], where: Where, fault: str) -> None:
    """Raise `BadInputError` for the first wrong value.

    fault : the message, with {} for the value
    """
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{where(row)}: {fault.format(column[row].strip())}")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def load_named(
    reader: TextReader, mark: str | None, columns: Columns, job: ImportJob
) -> NetworkMeta:
    """Convert the rest of an open file to a directed network file.

    mark : column separator, None for blanks
    Raises `BadInputError` with the line of the first fault.
    """
    table, populations = (NameTable(reader.path, job.memory) for _ in range(2))
    cells = NameCells()

    def names(column: list[str], where: Where) -> list[str]:
        return _whole(cells.read(column, where), where)

    with EdgeSpool(job, table) as spool:
        rows = NamedTable(reader, mark, len(columns.names))
        for parts, where in rows.pieces(columns.places):
            *ends, weights, groups = columns.split(parts)
            source, target = (names(part, where) for part in ends)
            weight = None if weights is None else real_numbers(weights, where, "weight")
            codes = None
            if groups is not None:
                codes = populations.pairs(*(names(part, where) for part in groups))
            spool.add(*table.pairs(source, target), weight, codes)
            table.require_memory(reader.fraction)
            job.progress(reader.fraction)
        return spool.write(
            {"format": "edgelist", **columns.facts},
            by_number=True,
            populations=None if columns.populations is None else populations.names(),
        )
