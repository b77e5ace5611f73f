"""What those who look at rows see beside them, and what they do.

A work is a function of a module, `work(shard, chunk, *arguments)`, pure in what it is given: the
rows of a chunk, the state, and the arguments. So it does not matter who does it, nor when, and it
may be named to another process.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mapper.runtime.threads import WorkspacePool

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk
    from mapper.graph.rows import Rows

Thing = TypeVar("Thing")
Result = TypeVar("Result")
Work = Callable[..., Result]
"""Gets a `Shard`, a `Chunk` and arguments."""

NONE = np.empty(0, np.int64)


class State(NamedTuple):
    """What works look at; nothing of it changes while they do.

    part : ndarray[int32], shape (vertices,), the label of every vertex: its cluster, part or core
    loads : ndarray[int64], shape (labels,), the sizes of the vertices of each label added up; of
        no labels where no work asks for it
    sizes : ndarray[int64], shape (vertices,), of the vertices; of none where no work asks for it,
        nor for the loads
    constants : what else works look at; it stays as it is until the next state
    """

    part: NDArray[np.int32]
    loads: NDArray[np.int64] = NONE
    sizes: NDArray[np.int64] = NONE
    constants: tuple[Any, ...] = ()

    @classmethod
    def none(cls) -> State:
        """Of no vertices."""
        return cls(np.empty(0, np.int32))


class Shard:
    """Rows that a process has, the state, and work space.

    state : as of the last `begin` of an executor, with all that was settled since
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.state = State.none()
        self._pools: dict[tuple[Any, ...], WorkspacePool[Any]] = {}

    def begin(self, state: State) -> None:
        """Look at this state from now on."""
        self.state = state
        self._pools.clear()

    def do(self, work: Work[Result], index: int, *arguments: Any) -> tuple[Result, int]:
        """What the work makes of a chunk, and the entries of that."""
        chunk = self.rows.read(index)
        return work(self, chunk, *arguments), entries_of(chunk)

    def borrow(self, make: Callable[..., Thing], *arguments: Any) -> AbstractContextManager[Thing]:
        """Work space `make(*arguments)` for one thread, kept for others until the next state."""
        key = (make, *arguments)
        pool = self._pools.get(key)
        if pool is None:  # of two threads that come here at once both get the first one's
            pool = self._pools.setdefault(key, WorkspacePool(lambda: make(*arguments)))
        return pool.borrow()


def entries_of(chunk: Chunk) -> int:
    """Entries of the rows of a chunk."""
    return int(chunk.indptr[-1] - chunk.indptr[0])


def by_label(
    labels: int, dtype: type[np.signedinteger[Any]]
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Work space of sums by label: the sums, zero, and room for the labels that have one."""
    return np.zeros(labels, dtype), np.empty(labels, np.int32)
