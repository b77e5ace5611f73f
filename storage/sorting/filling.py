"""Buffers that collect edges for sorted runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.sorting.runs import Buffer

Ids = NDArray[np.integer]
Edges = tuple[Ids, Ids, NDArray[np.integer] | NDArray[np.floating]]


class Filling:
    """Collects edges in a buffer of `capacity`; a full one is passed to `full`.

    again : `full` is done with the buffer when it returns, so the buffer is reused
    """

    def __init__(
        self, capacity: int, full: Callable[[Buffer], object], *, again: bool = False
    ) -> None:
        self._capacity = capacity
        self._again = again
        self._empty: Buffer | None = None
        self._full = full
        self._buffer: Buffer | None = None

    def add(
        self,
        source: Ids,
        target: Ids,
        weight: NDArray[np.integer] | NDArray[np.floating],
        mode: int,
    ) -> None:
        """Add edges with the placement `mode`; all arrays have the shape (edges,)."""
        kind: Any = np.float64 if np.issubdtype(weight.dtype, np.floating) else np.int64
        done = 0
        while done < source.size:
            buffer = self._buffer
            if buffer is None or buffer.weight.dtype != kind:
                self.flush()
                buffer = self._buffer = self._new(kind)
            at = buffer.parts[-1][1] if buffer.parts else 0
            end = min(at + source.size - done, buffer.source.size)
            part = slice(done, done + end - at)
            buffer.source[at:end] = source[part]
            buffer.target[at:end] = target[part]
            buffer.weight[at:end] = weight[part]
            if buffer.parts and buffer.parts[-1][2] == mode:
                at = buffer.parts.pop()[0]
            buffer.parts.append((at, end, mode))
            done = part.stop
            if end == buffer.source.size:
                self.flush()

    def _new(self, kind: Any) -> Buffer:
        empty, self._empty = self._empty, None
        if empty is not None and empty.weight.dtype == kind:
            return Buffer(empty.source, empty.target, empty.weight, [])
        ids = np.empty((2, self._capacity), np.int32)
        return Buffer(ids[0], ids[1], np.empty(self._capacity, kind), [])

    def flush(self) -> None:
        """Pass on the collected edges."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            used = buffer.parts[-1][1]
            whole = Buffer(buffer.source, buffer.target, buffer.weight[:used], buffer.parts)
            self._full(whole)
            if self._again:
                self._empty = buffer

    def forget(self) -> None:
        """Drop the collected edges."""
        self._buffer = None
