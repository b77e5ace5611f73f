"""Matrix Market files (NIST, 1996): entry (i, j) is a synapse from neuron i to neuron j.

A symmetric matrix is an undirected network. In a skew-symmetric one, entry (i, j) is also entry
(j, i) with the opposite sign: two synapses. Explicit zeros are synapses of weight 0 in the
`coordinate` format, but not in the `array` format. The weight of a synapse is the magnitude of its
entry (`losses.Magnitudes`). Complex and Hermitian
matrices are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.losses import Magnitudes
from storage.formats.text.reader import TextReader, header_numbers
from storage.formats.text.table import Rows, table_rows
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta

Ends = NDArray[np.int64]
Weight = NDArray[np.int64] | NDArray[np.float64]
Edges = tuple[tuple[Ends, Ends], Weight | None]


@dataclass(frozen=True, slots=True)
class Header:
    """Banner and size line.

    symmetric : the file lists only the lower triangle; skew : without the diagonal, and entries
        above it have the opposite sign
    entries : number of lines that follow
    """

    dense: bool
    pattern: bool
    symmetric: bool
    skew: bool
    neurons: int
    entries: int


def read_header(reader: TextReader) -> Header:
    """Parse the header; raise `BadInputError` if the matrix cannot be a network."""
    words = _banner(reader)
    layout, kind, symmetry = words[2:5]
    if layout not in ("coordinate", "array"):
        _refuse(reader, f"layout {layout[:24]!r} is unknown; it must be coordinate or array")
    if kind not in ("real", "double", "integer", "unsigned-integer", "pattern"):
        _refuse(reader, f"{kind[:24]} entries cannot be weights; use real, integer or pattern")
    if symmetry not in ("general", "symmetric", "skew-symmetric"):
        _refuse(reader, f"symmetry {symmetry[:24]!r} is not supported; use general or symmetric")
    dense, skew = layout == "array", symmetry == "skew-symmetric"
    symmetric = skew or symmetry == "symmetric"
    if skew and kind == "pattern":
        _refuse(reader, "a skew-symmetric matrix has signs, a pattern has none; use real")
    if dense and kind == "pattern":
        _refuse(reader, "an array has no pattern form; use coordinate")
    text = reader.next_line() or ""
    sizes = text.split()
    numbers = header_numbers(sizes)
    if len(sizes) != (2 if dense else 3) or numbers is None:
        wanted = "rows columns" if dense else "rows columns entries"
        _refuse(reader, f"the size line is {text[:40]!r}; it must be `{wanted}`")
    rows, columns = numbers[:2]
    if rows != columns:
        _refuse(reader, f"the matrix is {rows} x {columns}; a network needs a square one")
    if not 0 < rows <= MAX_VERTICES:
        fault = "no neurons" if rows == 0 else f"{rows} neurons"
        _refuse(reader, f"{fault}; a network needs 1 to {MAX_VERTICES}")
    full = rows * (rows - 1 if skew else rows + 1) // 2 if symmetric else rows * rows
    entries = full if dense else numbers[2]
    return Header(dense, kind == "pattern", symmetric, skew, rows, entries)


def _banner(reader: TextReader) -> list[str]:
    words = (reader.raw_line() or "").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        _refuse(
            reader, "the banner must be `%%MatrixMarket matrix LAYOUT KIND SYMMETRY`; repair it"
        )
    return words


def _refuse(reader: TextReader, fault: str) -> NoReturn:
    raise BadInputError(f"{reader.where()}: {fault}")


def _coordinates(header: Header, rows: Rows) -> Edges:
    """Return ends from 0 and weights of some lines."""
    source, target = (rows.ids(column, 1, header.neurons) - 1 for column in (0, 1))
    if header.symmetric and (above := np.flatnonzero(source < target)).size:
        line = int(rows.lines[above[0]])
        raise BadInputError(
            f"{rows.reader.where(line)}: entry above the diagonal of a symmetric matrix; "
            "list only the lower triangle, or declare it general"
        )
    if header.skew and (on := np.flatnonzero(source == target)).size:
        line = int(rows.lines[on[0]])
        raise BadInputError(
            f"{rows.reader.where(line)}: entry on the diagonal of a skew-symmetric matrix; "
            "remove it"
        )
    return (source, target), None if header.pattern else rows.weights(2)


def _array_ends(header: Header, first: int, last: int) -> tuple[Ends, Ends]:
    """Return row and column of the entries `first` .. `last`-1 in column-major order."""
    place = np.arange(first, last)
    if not header.symmetric:
        column, row = np.divmod(place, header.neurons)
        return row, column
    size = header.neurons - header.skew  # of the triangle: without the diagonal if skew
    before = size - 1 - (math.isqrt(8 * (header.entries - 1 - first) + 1) - 1) // 2
    length = size - before  # of the first column
    lengths = np.arange(length, max(0, length - place.size), -1)  # one per entry are enough
    begin = before * size - before * (before - 1) // 2
    starts = begin + np.append(0, np.cumsum(lengths))
    column = np.searchsorted(starts, place, side="right") - 1
    return place - starts[column] + before + column + header.skew, before + column


def _edges(reader: TextReader, header: Header) -> Iterator[Edges]:
    columns = 1 if header.dense else 2 if header.pattern else 3
    seen = 0
    for rows in table_rows(reader, columns):
        first, seen = seen, seen + rows.lines.size
        if seen > header.entries:
            line = int(rows.lines[header.entries - first])
            raise BadInputError(
                f"{reader.where(line)}: more entries than the {header.entries} in the header; "
                "correct it, or download the file again"
            )
        if not header.dense:
            yield _coordinates(header, rows)
            continue
        weight = rows.weights(0)
        source, target = _array_ends(header, first, seen)
        kept = weight != 0
        yield (source[kept], target[kept]), weight[kept]
    if seen < header.entries:
        raise BadInputError(
            f"{reader.where()}: the file ends after {seen} entries, its header declares "
            f"{header.entries}; download the file again"
        )


def load(job: ImportJob) -> NetworkMeta:
    """Convert a Matrix Market file; raise `BadInputError` with the line of the first fault."""
    magnitudes = Magnitudes(job.keeps_weights)
    with TextReader(job.source) as reader:
        header = read_header(reader)
        undirected = header.symmetric and not header.skew
        with job.writer(header.neurons, undirected=undirected) as writer:
            for ends, weight in _edges(reader, header):
                writer.add(*ends, magnitudes.of(weight))
                if header.skew:
                    opposite = None if weight is None else -weight
                    writer.add(ends[1], ends[0], magnitudes.of(opposite))
                job.progress(reader.fraction)
            provenance = {"format": "matrixmarket", "source": job.source.name}
            return writer.finish(provenance | magnitudes.facts)
