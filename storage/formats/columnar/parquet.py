"""Edge tables in Apache Parquet, read by record batches. Needs pyarrow (extra `formats`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError, StorageError
from storage.extras import require
from storage.formats.base import ImportJob
from storage.formats.columns import ColumnNames, choose_columns
from storage.formats.compact import EdgeSpool
from storage.formats.names import NameTable
from storage.store.meta import NetworkMeta

BATCH = 1 << 16  # rows
BUFFER = 1 << 20  # bytes read per column at a time, independent of row group size
UNDIRECTED = "mapper.undirected"  # metadata key of a table that lists each edge once


def library(path: Path) -> Any:
    """Return pyarrow.parquet; raise `BadInputError` with the extra if it is not installed."""
    return require("pyarrow.parquet", "formats", path, "Parquet files")


def count_rows(path: Path) -> int:
    """Return the number of rows that the footer of a file declares."""
    parquet = library(path)
    try:
        return int(parquet.ParquetFile(path).metadata.num_rows)
    except (ValueError, OSError, import_module("pyarrow").ArrowException) as error:
        raise BadInputError(f"{path}: not a valid Parquet file; save it again") from error


def _filled(batch: Any, name: str, path: Path, first: int) -> Any:
    """Return a column; raise `BadInputError` if a value is missing."""
    column = batch.column(name)
    if column.null_count:
        at = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise BadInputError(
            f"{path}: column {name}, row {at} (from 0): a value is missing; fill or drop it"
        )
    return column


def _texts(batch: Any, names: list[str], path: Path, first: int) -> list[list[str]]:
    """Return columns of names; numbers are converted to text."""
    columns = [_filled(batch, name, path, first).to_pylist() for name in names]
    return [list(map(str, column)) for column in columns]


def _hold_text(schema: Any, names: list[str]) -> bool:
    """Return whether one of the columns holds text, plain or dictionary-encoded."""
    types = import_module("pyarrow").types
    kinds = [schema.field(name).type for name in names]
    kinds = [kind.value_type if types.is_dictionary(kind) else kind for kind in kinds]
    return any(types.is_string(kind) or types.is_large_string(kind) for kind in kinds)


def _column(batch: Any, name: str, path: Path, first: int, whole: bool) -> NDArray[Any]:
    """Return a column as int64, or float64 for real weights, which may be negative.

    whole : the column holds ids; first : row number of the batch
    """
    column = _filled(batch, name, path, first)
    where = f"{path}: column {name}"
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in ("iu" if whole else "iuf"):
        wanted = "whole numbers" if whole else "numbers"
        raise BadInputError(f"{where} holds {column.type}; it must hold {wanted}")
    if values.dtype.kind == "f":
        wrong, fault = ~np.isfinite(values), "is not finite; repair it"
    else:
        wrong, fault = values > np.array(2**63 - 1).astype(values.dtype), "exceeds 2^63 - 1"
        wrong &= values.dtype == np.uint64
    if whole and not wrong.any():
        wrong, fault = values < 0, "is negative; ids start from 0"
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{where}, row {first + at} (from 0): {values[at]} {fault}")
    return np.asarray(values.astype(np.float64 if values.dtype.kind == "f" else np.int64))


def _codes(
    batch: Any, names: Sequence[str], populations: NameTable, path: Path, first: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the populations of sources and targets, numbered in order of appearance."""
    arrow = import_module("pyarrow")
    appear: list[tuple[int, str]] = []
    found = []
    for end, name in enumerate(names):
        column = _filled(batch, name, path, first)
        if not arrow.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False)
        used, row, place = np.unique(codes, return_index=True, return_inverse=True)
        texts = list(map(str, column.dictionary.take(arrow.array(used)).to_pylist()))
        appear += zip((2 * row + end).tolist(), texts, strict=True)
        found.append((texts, place))
    populations.of_each([text for _, text in sorted(appear)])
    source, target = (populations.of_each(texts)[place] for texts, place in found)
    return source, target


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a table of edges (`columns.choose_columns`) to a network file.

    The network is directed, unless the table's metadata state otherwise.

    columns : names of the columns to use, if they do not have the usual names
    Ids may be names; they are numbered in order of appearance and become the labels of `id`.
    Raises `BadInputError` with the column and row of the first fault.
    """
    source, memory = job.source, job.memory
    parquet = library(source)
    arrow = import_module("pyarrow")
    try:
        with ExitStack() as stack:
            table = stack.enter_context(
                parquet.ParquetFile(source, pre_buffer=False, buffer_size=BUFFER)
            )
            names = list(table.schema_arrow.names)
            chosen = choose_columns(names, str(source), columns)
            wanted = [names[place] for place in chosen.places]
            text = _hold_text(table.schema_arrow, wanted[:2])
            called = NameTable(source, memory) if text else None
            spool = stack.enter_context(EdgeSpool(job, called))
            populations = NameTable(source, memory)
            done, total = 0, max(table.metadata.num_rows, 1)
            read = list(dict.fromkeys(wanted))
            for batch in table.iter_batches(BATCH, columns=read, use_threads=False):
                _, _, weighing, groups = chosen.split(wanted)
                if called is not None:
                    ends = called.pairs(*_texts(batch, wanted[:2], source, done))
                else:
                    first, second = wanted[:2]
                    ends = (
                        _column(batch, first, source, done, whole=True),
                        _column(batch, second, source, done, whole=True),
                    )
                weight = codes = None
                if weighing is not None:
                    weight = _column(batch, weighing, source, done, whole=False)
                if groups is not None:
                    codes = _codes(batch, groups, populations, source, done)
                spool.add(*ends, weight, codes)
                done += batch.num_rows
                if called is not None:
                    called.require_memory(done / total)
                job.progress(done / total)
            about = table.schema_arrow.metadata or {}
            return spool.write(
                {"format": "parquet", **chosen.facts},
                by_number=True,
                undirected=about.get(UNDIRECTED.encode()) == b"true",
                populations=None if chosen.populations is None else populations.names(),
            )
    except StorageError:
        raise
    except (arrow.ArrowException, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(
            f"{source}: not a valid Parquet file ({reason}); save it again"
        ) from error
