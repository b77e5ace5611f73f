"""Batches of frames, limited by memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import Data

MOST_FRAMES = 16
MOST_NUMBERS = 1 << 26  # elements of all tensors of a graph together


def batches(graph: Graph, feeds: Mapping[Tensor, Data]) -> Iterator[tuple[int, dict[Tensor, Data]]]:
    """Yield the first frame of each batch, and the data of its frames."""
    numbers = sum(math.prod(one.shape) for one in graph.tensors() if one.value is None)
    step = min(max(MOST_NUMBERS // max(numbers, 1), 1), MOST_FRAMES)
    frames = next(iter(feeds.values())).shape[0]
    for at in range(0, frames, step):
        yield at, {tensor: data[at : at + step] for tensor, data in feeds.items()}
