"""Ranges of tensors, from samples that a model runs on, or from a file of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.batches import batches
from mapper.compiler.graph.execute import run_graph
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.integer.mixed import MIXED
from mapper.errors import MapperError
from storage.errors import BadInputError
from storage.files import read_input, write_file
from storage.jsontext import parse_json

BINS = 2048
SCHEMA = 1  # of ranges.json
LARGEST_FILE = 1 << 28  # bytes


class Ends(NamedTuple):
    """Least and most that the integers of a tensor stand for; 0 is between them."""

    low: float
    high: float


class Range(NamedTuple):
    """Least and most of a tensor, 0 included, and how often what lies between was met.

    counts : int64, shape (BINS,), of equal bins from low to high; zeros if both are 0
    """

    low: float
    high: float
    counts: NDArray[np.int64]


def measure_ranges(
    graph: Graph, feeds: Mapping[Tensor, NDArray[np.float32]], tensors: Sequence[Tensor]
) -> dict[Tensor, Range]:
    """Ranges of some tensors over all frames; two passes, the second one counts.

    feeds : of the inputs, shape (frames, rows, columns, channels)
    Raises `MapperError` that names a tensor which holds NaN or infinite numbers.
    """
    low = dict.fromkeys(tensors, 0.0)
    high = dict.fromkeys(tensors, 0.0)
    counts = {tensor: np.zeros(BINS, np.int64) for tensor in tensors}
    for counting in (False, True):
        for at, some in batches(graph, feeds):
            together = len(next(iter(some.values())))
            for tensor, data in run_graph(graph, some, MIXED, tensors).items():
                if counting:
                    if low[tensor] < high[tensor]:
                        counts[tensor] += np.histogram(data, BINS, (low[tensor], high[tensor]))[0]
                else:
                    least, most = float(data.min()), float(data.max())
                    if not np.isfinite([least, most]).all():
                        raise MapperError(
                            f"{tensor.name!r} holds NaN or infinite numbers for one of samples "
                            f"{at} to {at + together - 1}; check weights and samples"
                        )
                    low[tensor], high[tensor] = min(low[tensor], least), max(high[tensor], most)
    return {tensor: Range(low[tensor], high[tensor], counts[tensor]) for tensor in tensors}


def write_ranges(path: Path, ranges: Mapping[Tensor, Range], samples: int) -> None:
    """Save ranges by the names of their tensors.

    samples : how many they were measured with
    Raises `WriteError` of `storage.errors`.
    """
    found = {
        "schema": SCHEMA,
        "bins": BINS,
        "samples": samples,
        "tensors": {
            tensor.name: {"low": one.low, "high": one.high, "counts": one.counts.tolist()}
            for tensor, one in ranges.items()
        },
    }
    write_file(path, (json.dumps(found) + "\n").encode())


def read_ranges(path: Path, tensors: Sequence[Tensor]) -> dict[Tensor, Range]:
    """The ranges of some tensors in a file that `write_ranges` made.

    Raises `MapperError` that names the file, and the tensor that it has no sound range of.
    """
    try:
        found = parse_json(read_input(path, LARGEST_FILE))
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except ValueError as error:
        raise MapperError(f"{path}: is no file of ranges ({error})") from error
    listed = found.get("tensors") if isinstance(found, dict) else None
    if not isinstance(listed, dict) or (found.get("schema"), found.get("bins")) != (SCHEMA, BINS):
        raise MapperError(
            f"{path}: is no file of ranges of this version (schema {SCHEMA}, {BINS} bins); "
            "measure them anew with samples"
        )
    missing = [tensor.name for tensor in tensors if tensor.name not in listed]
    if missing:
        raise MapperError(
            f"{path}: has no range of {missing[0]!r} ({len(missing)} of {len(tensors)} are "
            "missing); it belongs to another model, or to other passes"
        )
    return {tensor: _range(path, tensor.name, listed[tensor.name]) for tensor in tensors}


def _range(path: Path, name: str, found: Any) -> Range:
    try:
        low, high = float(found["low"]), float(found["high"])
        counts = np.array(found["counts"], np.int64)
        sound = low <= 0 <= high and counts.shape == (BINS,) and (counts >= 0).all()
    except (KeyError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise MapperError(
            f"{path}: the range of {name!r} is none; give low <= 0, high >= 0, and {BINS} counts"
        )
    return Range(low, high, counts)
