"""Executor interface: how passes run over the shards of a graph.

Passes use only `ShardExecutor`. `LocalShardExecutor` runs them on the threads of this process.
Every executor returns the same results in the same order, since passes are pure functions
(`mapper.executors.shard`). An operation of a pass is a task: a picklable message that an executor
divides among workers, or runs itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam, WorkspacePool
from mapper.executors.exchange import Exchange, RowBuffer, finish_all
from mapper.executors.sent import to_send, total_to_send
from mapper.executors.shard import ChunkedRows, Result, Shard, State, Work
from mapper.monitoring.callbacks import Advance, ignore

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk

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


class ShardExecutor(ABC):
    """Runs functions on the chunks of a graph."""

    @abstractmethod
    def begin(self, state: State) -> None:
        """Publish a state; the caller owns its arrays and reports changes with `settled`."""

    @abstractmethod
    def settled(self, vertices: Vertices) -> None:
        """Publish the current labels of these vertices and the loads of the labels.

        Labels of other vertices are unchanged. No work may be running; each vertex is named once.
        """

    @abstractmethod
    def run(self, task: Task, advance: Advance = ignore) -> Iterator[Any]:
        """Yield the results of a task.

        advance : called with the number of entries of each chunk that is read
        """

    def each(
        self,
        work: Work[Result],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Result]:
        """Yield the result of `work` for each chunk, in the given order."""
        return self.run(EachTask(work, chunks, arguments), advance)

    def store(
        self,
        work: Work[Result],
        take: Callable[[Result], None],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> None:
        """Pass the result of `work` for each chunk to `take`, in any order, on several threads."""
        for _ in self.run(StoreTask(EachTask(work, chunks, arguments), take), advance):
            pass

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
        total: Int64
        (total,) = self.run(SumTask(work, chunks, arguments, shape, most), advance)
        return total

    def gather(
        self,
        make: Callable[..., Gathering],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Any]:
        """Yield results of `make(shard, *arguments)` over ranges that cover all chunks, in order.

        The executor chooses the number of ranges: combined results must not depend on it.
        """
        return self.run(GatherTask(make, None, arguments), advance)

    def exchange(self, exchange: Exchange, advance: Advance = ignore) -> Iterator[Any]:
        """Yield the finished result of each label, in order, after its rows are brought together.

        The published state has the label of every vertex. If memory does not hold all rows at once,
        chunks are read in several passes.
        """
        return self.run(ExchangeTask(exchange), advance)


class LocalShardExecutor(ShardExecutor):
    """Executor that uses the threads of this process.

    shard : all rows; team : all threads
    """

    def __init__(self, rows: ChunkedRows, team: ThreadTeam) -> None:
        self.shard, self.team = Shard(rows), team
        shared = rows.entries >= WORTH_A_THREAD * rows.chunks
        self._team = team if shared else ThreadTeam(1, team.stop)

    def begin(self, state: State) -> None:
        self.shard.begin(state)

    def settled(self, vertices: Vertices) -> None:
        """Do nothing: works read the caller's arrays."""

    def run(self, task: Task, advance: Advance = ignore) -> Iterator[Any]:
        return task.run(self, advance)

    def results(
        self, work: Work[Any], chunks: Sequence[int], *arguments: Any
    ) -> Iterator[tuple[Any, int]]:
        """Yield the result and the entries of each chunk, in order."""

        def one(index: int) -> tuple[Any, int]:
            return self.shard.do(work, index, *arguments)

        return self._team.stream(one, chunks)


class WorkerTask(Protocol):
    """A task, or the part of a task that one worker runs."""

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> Any:
        """Return the packed results (`mapper.executors.sent`)."""


class EachTask(NamedTuple):
    """Results of `work(shard, chunk, *arguments)` for some chunks, in order."""

    work: Work[Any]
    chunks: Sequence[int]
    arguments: tuple[Any, ...]

    def run(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[Any]:
        for result, entries in executor.results(self.work, self.chunks, *self.arguments):
            advance(entries)
            yield result

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> list[Any]:
        found = self.run(executor, advance)
        return list(map(to_send, found))  # each result is packed as soon as it exists


class StoreTask(NamedTuple):
    """Results of a task that `take` receives in any order; yields None per chunk."""

    each: EachTask
    take: Callable[[Any], None]

    def run(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[None]:
        work, chunks, arguments = self.each

        def then(shard: Shard, chunk: Chunk, *given: Any) -> None:
            self.take(work(shard, chunk, *given))

        return EachTask(then, chunks, arguments).run(executor, advance)


class SumTask(NamedTuple):
    """One total of some chunks; see `ShardExecutor.sum`."""

    work: Callable[..., None]
    chunks: Sequence[int]
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    most: int | None

    def run(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[Int64]:
        turn = BoundedSemaphore(self.most or executor.team.threads)
        totals: list[Int64] = []

        def fresh() -> Int64:
            totals.append(np.zeros(self.shape, np.int64))
            return totals[-1]

        pool = WorkspacePool(fresh)

        def add(shard: Shard, chunk: Chunk) -> None:
            with turn, pool.borrow() as total:
                self.work(shard, chunk, total, *self.arguments)

        for _, entries in executor.results(add, self.chunks):
            advance(entries)
        found = totals.pop() if totals else np.zeros(self.shape, np.int64)
        while totals:
            found += totals.pop()
        yield found

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> Any:
        return total_to_send(next(self.run(executor, advance)))


class GatherTask(NamedTuple):
    """One result of `make(shard, *arguments)` per range of chunks; see `ShardExecutor.gather`.

    ranges : first chunk and end of each; None for all chunks, in ranges that the executor chooses
    """

    make: Callable[..., Gathering]
    ranges: Sequence[tuple[int, int]] | None
    arguments: tuple[Any, ...]

    def run(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[Any]:
        every = [(0, executor.shard.rows.chunks)]
        for low, high in every if self.ranges is None else self.ranges:
            found = self.make(executor.shard, *self.arguments)

            def add(_: Shard, chunk: Chunk, found: Gathering = found) -> None:
                found.add(chunk)

            for _, entries in executor.results(add, range(low, high)):
                advance(entries)
            yield found.result()

    def answer(self, executor: LocalShardExecutor, advance: Advance) -> list[Any]:
        return list(map(to_send, self.run(executor, advance)))


class ExchangeTask(NamedTuple):
    """One result per label; see `ShardExecutor.exchange`."""

    exchange: Exchange

    def run(self, executor: LocalShardExecutor, advance: Advance) -> Iterator[Any]:
        exchange, (rows, part) = self.exchange, (executor.shard.rows, executor.shard.state.part)
        members, start, most = exchange.members, exchange.start, exchange.most
        low, share = 0, 1.0
        while low < most.size:
            high = exchange.batch_end(low, share)
            room = int(most[low:high].sum())
            buffer = RowBuffer(rows.vertices, room, exchange.near, exchange.light)
            chunks = _chunks_with(part, low, high, rows.block_size)
            sort = EachTask(exchange.sort, chunks, (low, high, *exchange.arguments))
            for index, one in zip(chunks, sort.run(executor, advance), strict=True):
                buffer.put(one, index * rows.block_size)

            def finish(label: int, buffer: RowBuffer = buffer) -> Any:
                own = members[start[label] : start[label + 1]]
                return exchange.finish(label, lambda: buffer.rows(own), *exchange.given(label))

            yield from finish_all(executor.team, range(low, high), most[low:high], finish)
            share = min(1.0, max(LEAST_SHARE, SLACK * buffer.entries / max(1, room)))
            low = high
            del buffer, finish  # before the next buffer is allocated


Task = EachTask | StoreTask | SumTask | GatherTask | ExchangeTask


def _chunks_with(part: NDArray[np.int32], low: int, high: int, size: int) -> list[int]:
    """Return the chunks of `size` vertices that contain labels low .. high-1."""
    if part.size == 0:
        return []
    inside = (part >= low) & (part < high)
    there = np.logical_or.reduceat(inside, np.arange(0, part.size, size))
    found: list[int] = np.flatnonzero(there).tolist()
    return found
