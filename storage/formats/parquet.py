"""Edge tables in Apache Parquet, read by record batches. Needs pyarrow (extra `formats`)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError, StorageError
from storage.formats.base import DEFAULT_MEMORY, Progress
from storage.formats.columns import choose_columns
from storage.formats.compact import EdgeSpool
from storage.meta import NetworkMeta

BATCH = 1 << 18


def _library(path: Path) -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise BadInputError(
            f"{path}: Parquet files need pyarrow; pip install 'mapper[formats]'"
        ) from error


def _column(batch: Any, name: str, path: Path, first: int, whole: bool) -> NDArray[Any]:
    """A column as int64, or float64 for real weights; `first` is the row number of the batch."""
    column = batch.column(name)
    where = f"{path}: column {name}"
    if column.null_count:
        at = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise BadInputError(f"{where}, row {at} (from 0): a value is missing; fill or drop it")
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in ("iu" if whole else "iuf"):
        wanted = "whole numbers" if whole else "numbers"
        raise BadInputError(f"{where} holds {column.type}; it must hold {wanted}")
    if values.dtype.kind == "f":
        wrong, fault = ~np.isfinite(values), "is not finite; repair it"
    else:
        wrong, fault = values > np.array(2**63 - 1).astype(values.dtype), "is beyond 2^63 - 1"
        wrong &= values.dtype == np.uint64
    if not wrong.any():
        wrong, fault = values < 0, "is negative; use its magnitude"
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{where}, row {first + at} (from 0): {values[at]} {fault}")
    return np.asarray(values.astype(np.float64 if values.dtype.kind == "f" else np.int64))


def load(
    source: Path,
    destination: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NetworkMeta:
    """Convert a table of edges (`columns.choose_columns`) to a directed network file.

    Raises `BadInputError` with the column and row of the first fault.
    """
    parquet = _library(source)
    arrow = import_module("pyarrow")
    try:
        with parquet.ParquetFile(source) as table, EdgeSpool(destination, source) as spool:
            names = list(table.schema_arrow.names)
            places = choose_columns(names, str(source))
            wanted = [names[place] for place in places if place is not None]
            done, total = 0, max(table.metadata.num_rows, 1)
            for batch in table.iter_batches(batch_size=BATCH, columns=wanted):
                ends = [_column(batch, name, source, done, whole=True) for name in wanted[:2]]
                weight = None
                if len(wanted) == 3:
                    weight = _column(batch, wanted[2], source, done, whole=False)
                spool.add(ends[0], ends[1], weight)
                done += batch.num_rows
                if progress is not None:
                    progress(done / total)
            return spool.write({"format": "parquet"}, memory, threads)
    except StorageError:
        raise
    except (arrow.ArrowException, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(
            f"{source}: not a sound Parquet file ({reason}); save it again"
        ) from error
