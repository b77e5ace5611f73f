"""Executor interface: how passes run over the shards of a graph.

Passes use only `ShardExecutor`. `LocalShardExecutor` runs them on the threads of this process.
Every executor returns the same results in the same order, since passes are pure functions
(`mapper.executors.shard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.executors.exchange import Exchange, RowBuffer, finish_all
from mapper.executors.shard import Result, Shard, State, Work, entries_of
from mapper.monitoring.callbacks import Advance, ignore
from mapper.monitoring.threads import ThreadTeam, WorkspacePool

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk
    from mapper.graph.rows import Rows

WORTH_A_THREAD = (
    8192  # entries per chunk; smaller chunks cost more to hand over to threads than to process
)
LEAST_SHARE = 0.1  # least expected entries per label, as a fraction of the upper bound
SLACK = 1.1  # the next batch is planned for the measured share times this factor

Int64 = NDArray[np.int64]
Vertices = NDArray[np.int32] | slice
"""Vertex ids, or a range of vertices."""


class Gathering(Protocol):
    """Accumulator over chunks."""

    def add(self, chunk: Chunk) -> None:
        """Add a chunk; called by several threads concurrently."""

    def result(self) -> Any:
        """Return the accumulated result after the last chunk."""


class ShardExecutor(Protocol):
    """Runs functions on the chunks of a graph."""

    def begin(self, state: State) -> None:
        """Publish a state; the caller owns its arrays and reports changes with `settled`."""

    def settled(self, vertices: Vertices) -> None:
        """Publish the current labels of these vertices and the loads of the labels.

        Labels of other vertices are unchanged. No work may be running; each vertex is named once.
        """

    def each(
        self,
        work: Work[Result],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Result]:
        """Yield the result of `work` for each chunk, in the given order.

        advance : called with the number of entries of each chunk
        """

    def store(
        self,
        work: Work[Result],
        take: Callable[[Result], None],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> None:
        """Pass the result of `work` for each chunk to `take`, in any order, on several threads."""

    def sum(
        self,
        work: Callable[..., None],
        chunks: Sequence[int],
        shape: tuple[int, ...],
        *arguments: Any,
        most: int | None = None,
        advance: Advance = ignore,
    ) -> Int64:
        """Return the sum of the totals that `work(shard, chunk, total, *arguments)` adds to.

        shape : of the total, ndarray[int64]; integers, so that the order of additions has no effect
        most : maximum number of totals that a process holds; None for one per thread
        """

    def gather(
        self,
        make: Callable[..., Gathering],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Any]:
        """Yield results of `make(shard, *arguments)` over ranges that cover all chunks, in order.

        The executor chooses the number of ranges: combined results must not depend on it.
        """

    def exchange(self, exchange: Exchange, advance: Advance = ignore) -> Iterator[Any]:
        """Yield the finished result of each label, in order, after its rows are brought together.

        The published state has the label of every vertex. If memory does not hold all rows at once,
        chunks are read in several passes.

        advance : called with the number of entries of each chunk that is read
        """


class LocalShardExecutor:
    """Executor that uses the threads of this process; see `ShardExecutor`."""

    def __init__(self, rows: Rows, team: ThreadTeam) -> None:
        self._shard = Shard(rows)
        self._all = team
        shared = rows.entries >= WORTH_A_THREAD * rows.chunks
        self._team = team if shared else ThreadTeam(1, team.stop)

    def begin(self, state: State) -> None:
        self._shard.begin(state)

    def settled(self, vertices: Vertices) -> None:
        """Do nothing: works read the caller's arrays."""

    def each(
        self,
        work: Work[Result],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Result]:
        def one(index: int) -> tuple[Result, int]:
            return self._shard.do(work, index, *arguments)

        for result, entries in self._team.stream(one, chunks):
            advance(entries)
            yield result

    def store(
        self,
        work: Work[Result],
        take: Callable[[Result], None],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> None:
        def one(index: int) -> int:
            result, entries = self._shard.do(work, index, *arguments)
            take(result)
            return entries

        for entries in self._team.stream(one, chunks):
            advance(entries)

    def sum(
        self,
        work: Callable[..., None],
        chunks: Sequence[int],
        shape: tuple[int, ...],
        *arguments: Any,
        most: int | None = None,
        advance: Advance = ignore,
    ) -> Int64:
        turn = BoundedSemaphore(most or self._team.threads)
        totals: list[Int64] = []

        def fresh() -> Int64:
            totals.append(np.zeros(shape, np.int64))
            return totals[-1]

        pool = WorkspacePool(fresh)

        def add(shard: Shard, chunk: Any) -> None:
            with turn, pool.borrow() as total:
                work(shard, chunk, total, *arguments)

        for _ in self.each(add, chunks, advance=advance):
            pass
        found = totals.pop() if totals else np.zeros(shape, np.int64)
        while totals:
            found += totals.pop()
        return found

    def gather(
        self,
        make: Callable[..., Gathering],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Any]:
        yield self.gather_some(make, range(self._shard.rows.chunks), *arguments, advance=advance)

    def gather_some(
        self,
        make: Callable[..., Gathering],
        chunks: range,
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Any:
        """Accumulate over one range of chunks."""
        found = make(self._shard, *arguments)

        def one(index: int) -> int:
            chunk = self._shard.rows.read(index)
            found.add(chunk)
            return entries_of(chunk)

        for entries in self._team.stream(one, chunks):
            advance(entries)
        return found.result()

    def exchange(self, exchange: Exchange, advance: Advance = ignore) -> Iterator[Any]:
        rows, part = self._shard.rows, self._shard.state.part
        members, start, most = exchange.members, exchange.start, exchange.most
        low, share = 0, 1.0
        while low < most.size:
            high = exchange.batch_end(low, share)
            room = int(most[low:high].sum())
            buffer = RowBuffer(rows.vertices, room, exchange.near, exchange.light)
            chunks = _chunks_with(part, low, high, rows.block_size)
            found = self.each(
                exchange.sort, chunks, low, high, *exchange.arguments, advance=advance
            )
            for index, one in zip(chunks, found, strict=True):
                buffer.put(one, index * rows.block_size)

            def finish(label: int, buffer: RowBuffer = buffer) -> Any:
                own = members[start[label] : start[label + 1]]
                return exchange.finish(label, lambda: buffer.rows(own), *exchange.given(label))

            yield from finish_all(self._all, range(low, high), most[low:high], finish)
            share = min(1.0, max(LEAST_SHARE, SLACK * buffer.entries / max(1, room)))
            low = high
            del buffer, finish  # before the next buffer is allocated


def _chunks_with(part: NDArray[np.int32], low: int, high: int, size: int) -> list[int]:
    """Return the chunks of `size` vertices that contain labels low .. high-1."""
    if part.size == 0:
        return []
    inside = (part >= low) & (part < high)
    there = np.logical_or.reduceat(inside, np.arange(0, part.size, size))
    found: list[int] = np.flatnonzero(there).tolist()
    return found


def executor_of(rows: Rows, team: ThreadTeam) -> ShardExecutor:
    """Return the executor of these rows, or one on the threads of a team."""
    return rows.executor or LocalShardExecutor(rows, team)
