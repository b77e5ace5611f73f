"""Ranges of tensors: measured on samples, or from a file of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import batches, run_graph
from mapper.compiler.numerics.reference import MIXED
from mapper.errors import MapperError
from storage.errors import BadInputError
from storage.files import digest, read_input, write_file
from storage.jsontext import parse_json, shown

BINS = 2048


class Ends(NamedTuple):
    """Minimum and maximum that the integers of a tensor represent; 0 is between them."""

    low: float
    high: float


class Range(NamedTuple):
    """Minimum and maximum of a tensor, including 0, and a histogram.

    counts : int64, shape (BINS,), equal bins from low to high; zeros if both are 0
    """

    low: float
    high: float
    counts: NDArray[np.int64]


Feeds = Mapping[Tensor, NDArray[np.float32]]
Measure = Callable[[Graph, Feeds, Sequence[Tensor]], dict[Tensor, Range]]
"""Measures ranges, as `measure_ranges` does."""


def measure_ranges(graph: Graph, feeds: Feeds, tensors: Sequence[Tensor]) -> dict[Tensor, Range]:
    """Return the ranges of tensors over all frames, in two passes; the second one counts.

    feeds : samples of the inputs, shape (frames, rows, columns, channels)
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
                    ends = low[tensor], high[tensor]
                    if ends[0] < ends[1]:  # float32 cannot divide the largest and smallest ranges
                        counts[tensor] += np.histogram(data.astype(np.float64), BINS, ends)[0]
                else:
                    least, most = float(data.min()), float(data.max())
                    if not np.isfinite([least, most]).all():
                        raise MapperError(
                            f"{tensor.name!r} holds NaN or infinite numbers for samples {at} "
                            f"to {at + together - 1}; check weights and samples"
                        )
                    low[tensor], high[tensor] = min(low[tensor], least), max(high[tensor], most)
    return {tensor: Range(low[tensor], high[tensor], counts[tensor]) for tensor in tensors}


SCHEMA = 1
LARGEST_FILE = 1 << 28  # bytes
MOST_COUNTS = 1 << 53  # total of all bins
MOST_END = 3.4e38  # float32


class RangesFile(NamedTuple):
    """Contents of a file of ranges.

    samples : number of samples they were measured with; tensors : unchecked ranges by tensor name
    """

    path: Path
    samples: int
    tensors: dict[str, Any]

    def ranges(self, graph: Graph, wanted: Sequence[Tensor]) -> dict[Tensor, Range]:
        """Return the ranges of tensors of a graph; raise `MapperError` that names tensor and
        field."""
        missing = [tensor.name for tensor in wanted if tensor.name not in self.tensors]
        if missing:
            raise MapperError(
                f"{self.path}: tensors: no range of {missing[0]!r} ({len(missing)} of "
                f"{len(wanted)} are missing); other passes or host nodes need other ranges; "
                "measure again with samples"
            )
        return {one: self._range(one.name) for one in wanted}

    def _range(self, name: str) -> Range:
        found = self.tensors[name]
        where = f"{self.path}: tensors: {name!r}"
        if not isinstance(found, dict):
            raise MapperError(f"{where} is {shown(found)}; give low, high and counts")
        for field, (is_sound, asked) in _FIELDS.items():
            if not is_sound(found.get(field)):
                raise MapperError(f"{where}: {field} is {shown(found.get(field))}; give {asked}")
        counts = np.array(found["counts"], np.int64)
        return Range(float(found["low"]), float(found["high"]), counts)


def _is_end(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _are_counts(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == BINS
        and all(type(one) is int and one >= 0 for one in value)
        and sum(value) <= MOST_COUNTS
    )


_FIELDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "low": (lambda value: _is_end(value, -MOST_END, 0), "a number, 0 or less"),
    "high": (lambda value: _is_end(value, 0, MOST_END), "a number, 0 or more"),
    "counts": (_are_counts, f"{BINS} whole numbers, 0 or more"),
}
"""Fields of a range, with their check and a description."""


def write_ranges(path: Path, ranges: Mapping[Tensor, Range], model: Path, samples: int) -> None:
    """Write ranges by the names of their tensors.

    model : file of the model; samples : number of samples they were measured with
    Raises `WriteError` of `storage.errors`.
    """
    found = {
        "schema": SCHEMA,
        "bins": BINS,
        "model": {"name": model.name, "sha256": digest(model)},
        "samples": samples,
        "tensors": {
            tensor.name: {"low": one.low, "high": one.high, "counts": one.counts.tolist()}
            for tensor, one in ranges.items()
        },
    }
    write_file(path, (json.dumps(found) + "\n").encode())


def open_ranges(path: Path, model: Path) -> RangesFile:
    """Open a file written by `write_ranges` for a model.

    Raises `MapperError` that names the file and the field, also for ranges of another model.
    """
    try:
        found = parse_json(read_input(path, LARGEST_FILE))
    except BadInputError as error:
        raise MapperError(str(error)) from error
    except ValueError as error:
        raise MapperError(f"{path}: not a file of ranges ({error})") from error
    if not isinstance(found, dict):
        raise MapperError(f"{path}: not a file of ranges; give one that mapper compile wrote")
    for field, value in (("schema", SCHEMA), ("bins", BINS)):
        if found.get(field) != value:
            raise MapperError(
                f"{path}: {field} is {shown(found.get(field))}, this mapper reads {value}; measure "
                "again with samples"
            )
    of, samples, tensors = (found.get(field) for field in ("model", "samples", "tensors"))
    if not isinstance(of, dict) or not isinstance(of.get("name"), str):
        raise MapperError(f"{path}: model is {shown(of)}; give its name and sha256")
    if of.get("sha256") != digest(model):
        raise MapperError(
            f"{path}: model: these are ranges of another model ({shown(of['name'])}, by its "
            f"sha256), not of {model}; measure again with samples"
        )
    if type(samples) is not int or samples < 1:
        raise MapperError(f"{path}: samples is {shown(samples)}; give a whole number, 1 or more")
    if not isinstance(tensors, dict):
        raise MapperError(f"{path}: tensors is {shown(tensors)}; give a range for each name")
    return RangesFile(path, samples, tensors)
