"""Runs that one process makes and others read: the exchange of a sort by many.

A file has the records of all runs of its writer, then a table: what each run is like, where each
of its buckets starts, and how many runs there are. Readers take what their buckets need of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.sorting.records import RecordFile, SharedRecords
from storage.sorting.runs import Run

HELD = 64  # files that stay open, at most
_ABOUT = 6  # numbers that tell what a run is like


def leave_runs(runs: Sequence[Run], records: RecordFile) -> Path:
    """Write the table of all runs behind their records, and leave the file to others."""
    for run in runs:
        about = run.key_bytes, run.weight_bytes, run.decimals, run.constant, run.largest, run.offset
        records.append(np.array(about, np.int64).view(np.uint8))
    for run in runs:
        records.append(run.starts.view(np.uint8))
    records.append(np.array([len(runs)], np.int64).view(np.uint8))
    return records.leave()


def read_runs(paths: Sequence[Path], count: int, buckets: range) -> Iterator[Run]:
    """All runs of some files, as far as these buckets go.

    count : of all buckets
    """
    for path in paths:
        yield from _runs(SharedRecords(path, held=len(paths) <= HELD), count + 1, buckets)


def _runs(records: SharedRecords, length: int, buckets: range) -> Iterator[Run]:
    """length : of the starts of a run"""
    size, (count,) = records.tail(1)
    if not count:  # and nobody else will close it
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
    """(first, last + 1) of at most `most` ranges of blocks, each with about as many entries.

    loads : entries before each block, and all of them, shape (blocks + 1,)
    """
    wanted = np.linspace(0, loads[-1], min(most, loads.size - 1) + 1)
    cuts = np.searchsorted(loads, wanted[1:-1])
    return list(pairwise(np.unique([0, *cuts, loads.size - 1]).tolist()))
