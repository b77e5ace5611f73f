"""Ranges of tensors, from samples that a model runs on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.graph.execute import run_graph
from mapper.compiler.graph.floating import FLOATING
from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.tensor import Tensor

BINS = 2048
FRAMES_AT_ONCE = 16


class Range(NamedTuple):
    """Least and most of a tensor, 0 included, and how often what lies between was met.

    counts : int64, shape (BINS,), of equal bins from low to high
    """

    low: float
    high: float
    counts: NDArray[np.int64]


def measure_ranges(
    graph: Graph, feeds: dict[Tensor, NDArray[np.float32]], tensors: list[Tensor]
) -> dict[Tensor, Range]:
    """Ranges of some tensors over all frames; two passes, the second one counts."""
    frames = next(iter(feeds.values())).shape[0]
    low = dict.fromkeys(tensors, 0.0)
    high = dict.fromkeys(tensors, 0.0)
    counts = {tensor: np.zeros(BINS, np.int64) for tensor in tensors}
    for counting in (False, True):
        for at in range(0, frames, FRAMES_AT_ONCE):
            some = {tensor: data[at : at + FRAMES_AT_ONCE] for tensor, data in feeds.items()}
            for tensor, data in run_graph(graph, some, FLOATING, tensors).items():
                if counting:
                    if low[tensor] < high[tensor]:
                        counts[tensor] += np.histogram(data, BINS, (low[tensor], high[tensor]))[0]
                else:
                    low[tensor] = min(low[tensor], float(data.min()))
                    high[tensor] = max(high[tensor], float(data.max()))
    return {tensor: Range(low[tensor], high[tensor], counts[tensor]) for tensor in tensors}
