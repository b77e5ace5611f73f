"""Measure the ranges of tensors on samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import batches, run_graph
from mapper.compiler.numerics.mixed import MIXED
from mapper.errors import MapperError

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


def measure_ranges(
    graph: Graph, feeds: Mapping[Tensor, NDArray[np.float32]], tensors: Sequence[Tensor]
) -> dict[Tensor, Range]:
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
                    if low[tensor] < high[tensor]:
                        counts[tensor] += np.histogram(data, BINS, (low[tensor], high[tensor]))[0]
                else:
                    least, most = float(data.min()), float(data.max())
                    if not np.isfinite([least, most]).all():
                        raise MapperError(
                            f"{tensor.name!r} holds NaN or infinite numbers for samples {at} "
                            f"to {at + together - 1}; check weights and samples"
                        )
                    low[tensor], high[tensor] = min(low[tensor], least), max(high[tensor], most)
    return {tensor: Range(low[tensor], high[tensor], counts[tensor]) for tensor in tensors}
