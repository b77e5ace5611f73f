"""Shards and state: the arguments of the functions that executors run on chunks.

A work is a module-level function `work(shard, chunk, *arguments)` that depends only on its
arguments: the rows of a chunk, the state, and the rest. Any process can run it at any time, and it
can be pickled by name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mapper.concurrency.threads import WorkspacePool

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk

Thing = TypeVar("Thing")
Result = TypeVar("Result")
Work = Callable[..., Result]
"""Called with a `Shard`, a `Chunk` and arguments."""

NONE = np.empty(0, np.int64)


class ChunkedRows(Protocol):
    """Rows of a graph, read chunk by chunk; see `mapper.graph.rows.Rows`."""

    entries: int
    block_size: int

    @property
    def vertices(self) -> int: ...

    @property
    def chunks(self) -> int:
        """Number of chunks."""

    def read(self, index: int) -> Chunk:
        """Return chunk `index`; may be called by several threads concurrently."""


class State(NamedTuple):
    """State that works read; constant while they run.

    part : ndarray[int32], shape (vertices,), label of every vertex: its cluster, part or core
    loads : ndarray[int64], shape (labels,), total size of the vertices of each label; empty if no
        work needs it
    sizes : ndarray[int64], shape (vertices,), size of each vertex; empty if neither works nor loads
        need it
    constants : further read-only values; fixed until the next state
    """

    part: NDArray[np.int32]
    loads: NDArray[np.int64] = NONE
    sizes: NDArray[np.int64] = NONE
    constants: tuple[Any, ...] = ()

    @classmethod
    def none(cls) -> State:
        """Return a state without vertices."""
        return cls(np.empty(0, np.int32))


class Shard:
    """Rows in this process, with the state and workspaces.

    state : set by the last `begin` of an executor, with all labels settled since
    """

    def __init__(self, rows: ChunkedRows) -> None:
        self.rows = rows
        self.state = State.none()
        self._pools: dict[tuple[Any, ...], WorkspacePool[Any]] = {}

    def begin(self, state: State) -> None:
        """Use this state from now on."""
        self.state = state
        self._pools.clear()

    def do(self, work: Work[Result], index: int, *arguments: Any) -> tuple[Result, int]:
        """Return the result of `work` for a chunk, and the chunk's number of entries."""
        chunk = self.rows.read(index)
        return work(self, chunk, *arguments), entries_of(chunk)

    def borrow(self, make: Callable[..., Thing], *arguments: Any) -> AbstractContextManager[Thing]:
        """Borrow a workspace `make(*arguments)` for one thread; reused until the next state."""
        key = (make, *arguments)
        pool = self._pools.get(key)
        if pool is None:  # if two threads get here at once, both use the first one's pool
            pool = self._pools.setdefault(key, WorkspacePool(lambda: make(*arguments)))
        return pool.borrow()


def entries_of(chunk: Chunk) -> int:
    """Return the number of entries of the rows of a chunk."""
    return int(chunk.indptr[-1] - chunk.indptr[0])


def by_label(
    labels: int, dtype: type[np.signedinteger[Any]]
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return a workspace for sums by label: zeroed sums, and a list for labels in use."""
    return np.zeros(labels, dtype), np.empty(labels, np.int32)
