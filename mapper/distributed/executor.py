"""The seam between the passes over a graph and those who do them.

Passes know a `ShardExecutor` alone. `LocalShardExecutor` does them with the threads of this
process; whatever else does them gives the same results in the same order, since works are pure
(`mapper.distributed.shard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.exchange import Exchange, RowBuffer, finish_all
from mapper.distributed.shard import Result, Shard, State, Work, entries_of
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.threads import ThreadTeam, WorkspacePool

if TYPE_CHECKING:
    from mapper.graph.csr import Chunk
    from mapper.graph.rows import Rows

WORTH_A_THREAD = (
    8192  # entries of a chunk; threads hand over smaller ones for longer than they work
)
LEAST_SHARE = 0.1  # of their entries that labels may get
SLACK = 1.1  # times the share of entries that labels of one batch got, the next ones may get

Int64 = NDArray[np.int64]
Vertices = NDArray[np.int32] | slice
"""Some vertices, or a range of them."""


class Gathering(Protocol):
    """Adds up chunks."""

    def add(self, chunk: Chunk) -> None:
        """Take in one more; called by several threads at once."""

    def result(self) -> Any:
        """What they come to, once all are in."""


class ShardExecutor(Protocol):
    """Does works on the chunks of a graph."""

    def begin(self, state: State) -> None:
        """Let all see this state; its arrays are the caller's, who changes them in `settled`."""

    def settled(self, vertices: Vertices) -> None:
        """Let all see the labels that these vertices have now, and what the labels hold.

        Those of others are as they were. Nothing may be at work; a vertex is named once.
        """

    def each(
        self,
        work: Work[Result],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Result]:
        """What a work makes of chunks, in the order that they are given in.

        advance : called with the entries of each
        """

    def store(
        self,
        work: Work[Result],
        take: Callable[[Result], None],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> None:
        """Let `take` have what a work makes of chunks, in any order and by several threads."""

    def sum(
        self,
        work: Callable[..., None],
        chunks: Sequence[int],
        shape: tuple[int, ...],
        *arguments: Any,
        most: int | None = None,
        advance: Advance = ignore,
    ) -> Int64:
        """The sum of what a work, `work(shard, chunk, total, *arguments)`, adds to totals.

        shape : of a total, ndarray[int64]; whole numbers, so that their order does not matter
        most : totals that a process may hold while it works; None for one a thread
        """

    def gather(
        self,
        make: Callable[..., Gathering],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Any]:
        """What `make(shard, *arguments)` gathers of ranges of chunks, all of them once, in order.

        How many ranges there are is up to who does it: what they give must add up to the same.
        """

    def exchange(self, exchange: Exchange, advance: Advance = ignore) -> Iterator[Any]:
        """What is made of the rows of each label where these are brought together, in their order.

        The state that all see has the label of every vertex. advance : called with the entries of
        each chunk that is looked at; in one or several passes, if memory does not hold all at once
        """


class LocalShardExecutor:
    """The threads of this process; see `ShardExecutor`."""

    def __init__(self, rows: Rows, team: ThreadTeam) -> None:
        self._shard = Shard(rows)
        self._all = team
        shared = rows.entries >= WORTH_A_THREAD * rows.chunks
        self._team = team if shared else ThreadTeam(1, team.stop)

    def begin(self, state: State) -> None:
        self._shard.begin(state)

    def settled(self, vertices: Vertices) -> None:
        """Nothing is to be told: the arrays are those that works look at."""

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
        """The same of one range."""
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
            del buffer, finish  # before there is another one


def _chunks_with(part: NDArray[np.int32], low: int, high: int, size: int) -> list[int]:
    """Chunks of so many vertices in which there are labels low .. high-1."""
    if part.size == 0:
        return []
    inside = (part >= low) & (part < high)
    there = np.logical_or.reduceat(inside, np.arange(0, part.size, size))
    found: list[int] = np.flatnonzero(there).tolist()
    return found


def executor_of(rows: Rows, team: ThreadTeam) -> ShardExecutor:
    """Who looks at these rows: an executor of their own, or the threads of a team."""
    return rows.executor or LocalShardExecutor(rows, team)
