"""Edges that a parser reads one by one, passed to a spool in batches."""

from __future__ import annotations

import numpy as np

from storage.formats.compact import EdgeSpool

EDGES = 1 << 16  # edges buffered as Python numbers


class EdgeBuffer:
    """Collects edges between numbered ends; call `flush` at the end of the document."""

    def __init__(self, spool: EdgeSpool) -> None:
        self._spool = spool
        self._source: list[int] = []
        self._target: list[int] = []
        self._weights: list[float] = []

    def add(self, source: int, target: int, weight: float) -> None:
        self._source.append(source)
        self._target.append(target)
        self._weights.append(weight)
        if len(self._source) >= EDGES:
            self.flush()

    def flush(self) -> None:
        source, target = np.array(self._source, np.int64), np.array(self._target, np.int64)
        self._spool.add(source, target, np.array(self._weights, np.float64))
        self._source, self._target, self._weights = [], [], []
