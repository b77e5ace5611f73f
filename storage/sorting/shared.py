"""Runs shared between processes: the exchange of a distributed sort.

A file holds the records of all runs of its writer, then a table: format of each run, offsets of its
buckets, and the number of runs. Readers read only the parts that their buckets need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.sorting.records import RecordFile, SharedRecords
from storage.sorting.runs import Run

HELD = 64  # most files kept open
_ABOUT = 6  # numbers that describe a run


def leave_runs(runs: Sequence[Run], records: RecordFile) -> Path:
    """Append the table of all runs to their records, and close the file for other readers."""
    for run in runs:
        about = run.key_bytes, run.weight_bytes, run.decimals, run.constant, run.largest, run.offset
        records.append(np.array(about, np.int64).view(np.uint8))
    for run in runs:
        records.append(run.starts.view(np.uint8))
    records.append(np.array([len(runs)], np.int64).view(np.uint8))
    return records.leave()


def read_runs(paths: Sequence[Path], count: int, buckets: range) -> Iterator[Run]:
    """Yield the runs of files, restricted to some buckets.

    count : total number of buckets
    """
    for path in paths:
        yield from _runs(SharedRecords(path, held=len(paths) <= HELD), count + 1, buckets)


def _runs(records: SharedRecords, length: int, buckets: range) -> Iterator[Run]:
    """length : number of bucket offsets per run"""
    size, (count,) = records.tail(1)
    if not count:  # no run will close it
        records.close()
        return
    table = size - 8 * (1 + int(count) * (_ABOUT + length))
    abouts = records.numbers(table, int(count) * _ABOUT).reshape(-1, _ABOUT)
    for index, about in enumerate(abouts.tolist()):
        at = table + 8 * (abouts.size + index * length + buckets.start)
        starts = records.numbers(at, len(buckets) + 1)
        key, weight, decimals, constant, largest, offset = about
        yield Run(
            starts, key, weight, decimals, constant, largest, None, offset, records, buckets.start
        )


def equal_loads(loads: NDArray[np.int64] | NDArray[np.float64], most: int) -> list[tuple[int, int]]:
    """Return (first, last + 1) of at most `most` ranges of blocks with about equal entries.

    loads : entries before each block, and the total, shape (blocks + 1,)
    """
    wanted = np.linspace(0, loads[-1], min(most, loads.size - 1) + 1)
    cuts = np.searchsorted(loads, wanted[1:-1])
    return list(pairwise(np.unique([0, *cuts, loads.size - 1]).tolist()))
