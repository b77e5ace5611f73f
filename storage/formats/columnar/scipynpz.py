"""NumPy archives: a matrix of `scipy.sparse.save_npz`, or arrays that list the edges.

Row = source, column = target. Each stored entry of a matrix is a synapse, including explicit zeros,
except in the block formats `bsr` and `dia`, whose zeros are padding. Lists are `source`, `target`,
optional `weight` (or have the column names of tables: `i`, `j`, `w`), and `neurons` (default: the
largest id + 1).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError, StorageError
from storage.formats.base import DEFAULT_MEMORY, ImportJob
from storage.formats.columnar.npystream import ArrayArchive, read_together
from storage.formats.columnar.npzarchive import DAMAGE, UNREADABLE, damaged, open_archive
from storage.formats.columnar.npzneurons import (
    PREFIX,
    UNDIRECTED,
    is_about,
    says_undirected,
    set_attributes,
)
from storage.formats.columns import ColumnNames, Columns, choose_columns, listed, names_ends
from storage.formats.losses import Magnitudes
from storage.formats.mirror import Mirror
from storage.graph import MAX_VERTICES
from storage.store.meta import NetworkMeta

CHUNK = 1 << 19
FORM = ("format", "shape")  # arrays that describe a matrix
NEURONS = "neurons"  # array with the number of neurons, next to edge lists
Chunk = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]


class Entries(Closing):
    """The edges of a file.

    size : number of entries
    lists : the arrays that list the edges; None for a matrix
    """

    lists: Columns | None = None

    def __init__(self, path: Path, neurons: int, size: int) -> None:
        self.path, self.neurons, self.size = path, neurons, size

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Yield sources, targets and weights of all entries, in pieces."""

    def close(self) -> None:
        """Do nothing: most subclasses hold no open files."""


class _Held(Entries):
    """All edges in memory, read by numpy and scipy."""

    def __init__(self, path: Path, neurons: int, size: int, weight: NDArray[Any] | None) -> None:
        super().__init__(path, neurons, size)
        self._weight = weight

    @abstractmethod
    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return sources and targets of entries first .. last-1."""

    def chunks(self) -> Iterator[Chunk]:
        for first in range(0, self.size, CHUNK):
            last = min(first + CHUNK, self.size)
            source, target = self.ends(first, last)
            weight = None
            if self._weight is not None:
                weight = checked(self._weight[first:last], self.path, "weight", first, signed=True)
            yield source, target, weight


class _Lists(_Held):
    def __init__(self, path: Path, columns: Columns, archive: Any) -> None:
        self.lists = columns
        used = [archive[columns.names[place]] for place in columns.places]
        source, target, weight, _ = columns.split(used)
        given = [array for array in (source, target, weight) if array is not None]
        if len({array.shape for array in given}) != 1 or source.ndim != 1:
            raise BadInputError(f"{path}: source, target, weight must be lists of equal length")
        for name, array in (("source", source), ("target", target)):
            if not np.issubdtype(array.dtype, np.integer):
                raise BadInputError(f"{path}: {name} is {array.dtype}; ids must be whole numbers")
            checked(array, path, name, 0)
        neurons = archive[NEURONS] if NEURONS in archive.files else None
        if neurons is not None and (neurons.size != 1 or neurons.dtype.kind not in "iu"):
            raise BadInputError(f"{path}: neurons must be one whole number")
        largest = max((int(a.max()) for a in (source, target) if a.size), default=-1)
        count = largest + 1 if neurons is None else int(neurons.item())
        super().__init__(path, count, source.size, weight)
        self._source, self._target = source, target

    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._source[first:last], self._target[first:last]


class Matrix(_Held):
    def __init__(self, path: Path, matrix: Any) -> None:
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            size = " x ".join(map(str, matrix.shape))
            raise BadInputError(f"{path}: the matrix is {size}; a network needs a square one")
        if matrix.format in ("bsr", "dia"):
            matrix = matrix.tocoo()
            matrix.eliminate_zeros()
        elif matrix.format not in ("csr", "csc"):
            matrix = matrix.tocoo()
        super().__init__(path, matrix.shape[0], matrix.nnz, matrix.data)
        self._matrix = matrix

    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        matrix = self._matrix
        if matrix.format == "coo":
            return matrix.row[first:last], matrix.col[first:last]
        major = np.searchsorted(matrix.indptr, np.arange(first, last), side="right") - 1
        minor = matrix.indices[first:last]
        return (major, minor) if matrix.format == "csr" else (minor, major)


class _Streamed(Entries):
    """Edge lists, or a `coo` matrix, read piece by piece."""

    def __init__(
        self, path: Path, archive: ArrayArchive, names: tuple[str, ...], ids: int = 2
    ) -> None:
        """ids : number of leading arrays that hold ids"""
        self._archive = archive
        self._names = names
        self._ids = ids
        self._columns = [archive.column(name) for name in names]
        if len({column.size for column in self._columns}) != 1:
            raise NotImplementedError("of different lengths")
        if any(column.dtype.kind not in "iu" for column in self._columns[:ids]):
            raise NotImplementedError("ids that are not whole")
        super().__init__(path, 0, self._columns[0].size)

    def chunks(self) -> Iterator[Chunk]:
        first = 0
        try:
            for pieces in read_together(self._columns, CHUNK):
                found = [
                    checked(piece, self.path, name, first, signed=place >= self._ids)
                    for place, (piece, name) in enumerate(zip(pieces, self._shown(), strict=True))
                ]
                yield found[0], found[1], found[2] if len(found) > 2 else None
                first += found[0].size
        except DAMAGE as error:
            if isinstance(error, BadInputError):
                raise
            raise damaged(self.path, error) from error

    def _shown(self) -> tuple[str, ...]:
        return tuple("weight" if name == "data" else name for name in self._names)

    def largest(self) -> int:
        """Return the largest id, -1 if there is none; takes one pass over the file."""
        names = self._names[:2]
        found = -1
        for pieces in read_together([self._archive.column(name) for name in names], CHUNK):
            for piece, name in zip(pieces, names, strict=True):
                found = max(found, int(checked(piece, self.path, name, 0).max(initial=-1)))
        return found

    def close(self) -> None:
        self._archive.close()


class _StreamedRows(_Streamed):
    """A `csr` or `csc` matrix; its `indptr` is in memory."""

    def __init__(self, path: Path, archive: ArrayArchive, by_column: bool) -> None:
        super().__init__(path, archive, ("indices", "data"), ids=1)
        starts = archive.column("indptr")
        self._starts = starts.read(starts.size)
        self._by_column = by_column
        rising = self._starts.size > 0 and bool((self._starts[1:] >= self._starts[:-1]).all())
        if not rising or self._starts[0] != 0 or self._starts[-1] != self.size:
            raise NotImplementedError("starts that need a closer look")

    def chunks(self) -> Iterator[Chunk]:
        first, starts = 0, self._starts
        for minor, weight, _ in super().chunks():
            last = first + minor.size
            if minor.size and int(minor.max()) >= self.neurons:
                raise damaged(self.path, ValueError("an index is outside the matrix"))
            low = int(np.searchsorted(starts, first, side="right")) - 1
            high = int(np.searchsorted(starts, last, side="left"))
            counts = np.diff(np.clip(starts[low : high + 1], first, last))
            major = np.repeat(np.arange(low, high, dtype=np.int32), counts)
            yield (minor, major, weight) if self._by_column else (major, minor, weight)
            first = last


def _choose_lists(names: Collection[str], path: Path, wanted: ColumnNames | None) -> Columns | None:
    """Return the arrays that list the edges; None if there are none."""
    about = (NEURONS, UNDIRECTED)
    lists = sorted(n for n in names if n not in about and not n.startswith(PREFIX))
    if wanted is None and not names_ends(lists):
        return None
    columns = choose_columns(lists, str(path), wanted, places=False)
    if columns.populations is not None:
        shown = listed([str(columns.names[place]) for place in columns.populations])
        raise BadInputError(
            f"{path}: arrays {shown}: ids per population need a table; write the arrays "
            "as csv or Parquet, or --columns source-population=-,target-population=-"
        )
    return columns


def _streamed(path: Path, wanted: ColumnNames | None, memory: int) -> Entries | None:
    """Open the common kinds of file as streams; return None for others and damaged ones."""
    archive: ArrayArchive | None = None
    entries: _Streamed | None = None
    try:
        archive = ArrayArchive(path)
        names = archive.names()
        columns = _choose_lists(names, path, wanted)
        if columns is not None:
            if NEURONS in names:
                return None
            entries = _Streamed(
                path, archive, tuple(str(columns.names[place]) for place in columns.places)
            )
            entries.lists = columns
            entries.neurons = entries.largest() + 1
        elif set(FORM) <= names:
            with path.open("rb") as file, open_archive(file, memory, FORM.__contains__) as small:
                layout, shape = small["format"].item(), small["shape"].tolist()
            layout = layout.decode() if isinstance(layout, bytes) else layout
            if len(shape) != 2 or shape[0] != shape[1] or not 0 < shape[0] <= MAX_VERTICES:
                return None
            if layout == "coo" and {"row", "col", "data"} <= names:
                entries = _Streamed(path, archive, ("row", "col", "data"))
            elif layout in ("csr", "csc") and {"indices", "indptr", "data"} <= names:
                rows = _StreamedRows(path, archive, layout == "csc")
                entries = rows if rows._starts.size == shape[0] + 1 else None
            if entries is not None:
                entries.neurons = int(shape[0])
    except UNREADABLE:  # `read_held` reports the fault
        entries = None
    finally:
        if entries is None and archive is not None:
            archive.close()
    return entries


def checked(
    values: NDArray[Any], path: Path, name: str, first: int, signed: bool = False
) -> NDArray[Any]:
    """Return values as int64 or float64; raise `BadInputError` naming the first invalid entry.

    signed : values may be negative
    """
    kind = values.dtype.kind
    if kind not in "biuf":
        raise BadInputError(f"{path}: {name} is {values.dtype}; give whole or real numbers")
    if kind == "f":
        wrong, fault = ~np.isfinite(values), "is not finite; repair it"
    elif kind == "u":
        wrong, fault = values > np.uint64(2**63 - 1), "exceeds 2^63 - 1; scale it down"
    else:
        wrong, fault = np.zeros(values.shape, np.bool_), ""
    if not (signed or wrong.any()):
        wrong, fault = values < 0, "is negative"
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{path}: {name} of entry {first + at} (from 0): {values[at]} {fault}")
    return values.astype(np.float64 if kind == "f" else np.int64, copy=False)


def read(path: Path, wanted: ColumnNames | None = None, memory: int = DEFAULT_MEMORY) -> Entries:
    """Open an archive of either kind; raise `BadInputError` if it is neither, or damaged.

    wanted : names of the edge lists, if they do not have the usual names
    memory : bytes for each array that cannot be read in parts; `MemoryShortError` if one is larger
    """
    return _streamed(path, wanted, memory) or read_held(path, wanted, memory)


def read_held(
    path: Path, wanted: ColumnNames | None = None, memory: int = DEFAULT_MEMORY
) -> Entries:
    """Open an archive with numpy and scipy, all arrays in memory; see `read`."""
    try:
        # opened here: numpy leaves the file open if the archive is damaged
        with path.open("rb") as file, open_archive(file, memory) as archive:
            names = set(archive.files)
            columns = _choose_lists(names, path, wanted)
            if columns is not None:
                return _Lists(path, columns, archive)
            sparse = set(FORM) <= names
        if sparse:
            with path.open("rb") as file, np.errstate(invalid="raise"):  # ids that are NaN
                matrix: Any = scipy.sparse.load_npz(file)
            if matrix.format in ("csr", "csc"):
                matrix.check_format(full_check=True)
            return Matrix(path, matrix)
    except StorageError:
        raise
    except OSError as error:
        raise BadInputError(f"{path}: cannot read: {error.strerror or error}") from error
    except DAMAGE as error:
        raise damaged(path, error) from error
    if names == {"data", "metadata"}:
        raise BadInputError(
            f"{path}: a PyNN file whose columns are named in a pickle, which may run any program "
            "and is not read; save the projection as text: projection.save('all', 'synapses.txt')"
        )
    held = listed(sorted(names)) or "nothing"
    raise BadInputError(
        f"{path}: holds {held}; it must be a scipy.sparse matrix, "
        "or arrays source, target[, weight], or i, j[, w]"
    )


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert an npz file to a network file; raise `BadInputError` if it is invalid.

    The network is directed and has no attributes, except for those read by `npzneurons`.
    """
    with ExitStack() as stack:
        source = job.source
        entries = stack.enter_context(read(source, columns, job.memory))
        if entries.neurons <= 0:
            raise BadInputError(f"{source}: no neurons; a network needs at least one")
        about = stack.enter_context(_about(source, job.memory))
        undirected = says_undirected(about)
        mirror = Mirror() if undirected and entries.lists is None else None
        magnitudes = Magnitudes(job.keeps_weights)
        writer = stack.enter_context(job.writer(entries.neurons, undirected=undirected))
        done = 0
        for chunk in entries.chunks():
            ends, weight = _upper(mirror, *chunk)
            writer.add(*ends, magnitudes.of(weight))
            done += chunk[0].size
            job.progress(done / entries.size)
        if mirror is not None and not mirror.agrees:
            raise BadInputError(
                f"{source}: is marked undirected, but its matrix is not symmetric; remove "
                f"the array {UNDIRECTED}, or add the transpose"
            )
        set_attributes(writer, about)
        facts = {} if entries.lists is None else entries.lists.facts
        provenance = {"format": "npz", "source": source.name, **facts, **magnitudes.facts}
        return writer.finish(provenance)


@contextmanager
def _about(path: Path, memory: int) -> Iterator[Any]:
    """Open the archive with numpy; turn its errors about damage into `BadInputError`."""
    try:
        with path.open("rb") as file, open_archive(file, memory, is_about) as archive:
            yield archive
    except StorageError:
        raise
    except DAMAGE as error:
        raise damaged(path, error) from error


def _upper(
    mirror: Mirror | None,
    source: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[Any] | None,
) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any] | None]:
    """Return ends and weights of entries: all, or with a mirror, the upper triangle."""
    if mirror is None:
        return (source, target), weight
    bits = np.ones(source.size, np.int64) if weight is None else weight.view(np.int64)
    mirror.add(source.astype(np.int64), target.astype(np.int64), bits)
    upper = source <= target
    return (source[upper], target[upper]), None if weight is None else weight[upper]
