"""Executor whose shards are on other processes, independent of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.owners import TIMES, Again, Calls, Owners, vanishing
from mapper.errors import RESUME, ResumableError
from mapper.executors.exchange import Exchange
from mapper.executors.executor import (
    EachTask,
    ExchangeTask,
    GatherTask,
    StoreTask,
    SumTask,
    Task,
    Vertices,
    WorkerTask,
)
from mapper.executors.sections import Sections, SendTask, section_bits
from mapper.executors.sent import received
from mapper.executors.shard import State
from mapper.executors.shared import Batch, FinishTask, Home, Missing, WriteTask
from mapper.executors.worker_interface import RowSource, WorkerShardExecutor
from mapper.monitoring.callbacks import Advance, ignore
from mapper.planning.worker_plan import ranges_for


class RemoteShardExecutor(Owners, WorkerShardExecutor):
    """Executor on the workers of an engine."""

    def begin(self, state: State) -> None:
        self._state_log.begin(state)

    def settled(self, vertices: Vertices) -> None:
        self._state_log.settled(vertices)

    def run(self, task: Task, advance: Advance = ignore) -> Iterator[Any]:
        match task:
            case EachTask():
                yield from self._each(task, advance)
            case StoreTask():
                yield from map(task.take, self._each(task.each, advance))
            case SumTask():
                yield self._sum(task, advance)
            case GatherTask():
                yield from self._gather(task, advance)
            case ExchangeTask():
                yield from self._exchange(task.exchange, advance)

    def _each(self, task: EachTask, advance: Advance) -> Iterator[Any]:
        for places in self._shards.windows(task.chunks, len(self._owners)):
            ordered: dict[int, tuple[Any, int]] = {}
            for mine, (results, entries) in self._on_chunks(task, places):
                ordered.update(zip(mine, zip(results, entries, strict=True), strict=True))
            for place in sorted(ordered):
                result, count = ordered.pop(place)
                advance(count)
                yield received(result)

    def _sum(self, task: SumTask, advance: Advance) -> NDArray[np.int64]:
        total = np.zeros(task.shape, np.int64)
        for _, (some, entries) in self._on_chunks(task, range(len(task.chunks))):
            total += received(some)
            for count in entries:
                advance(count)
        return total

    def _gather(self, task: GatherTask, advance: Advance) -> Iterator[Any]:
        """Split chunks into ranges for all workers; each reads its rows for this call alone."""
        owners = len(self._live())
        count = ranges_for(self._entries, self._chunks, owners)
        ends = np.linspace(0, self._chunks, count + 1)
        ranges = list(pairwise(ends.astype(int).tolist()))

        def part(mine: Sequence[int]) -> GatherTask:
            return task._replace(ranges=[ranges[index] for index in mine])

        for low in range(0, len(ranges), owners):
            some = range(low, min(low + owners, len(ranges)))
            found: dict[int, Any] = {}
            for mine, (results, entries) in self._ask(some, self._by_turns, part):
                found.update(zip(mine, results, strict=True))
                for count in entries:
                    advance(count)
            for index in some:
                yield received(found.pop(index))

    def _exchange(self, exchange: Exchange, advance: Advance) -> Iterator[Any]:
        for ranges in exchange.shares(len(self._live()), self._engine.exchanged):
            batch = self._engine.shared.batch(ranges)
            try:
                self._write(batch, exchange, range(self._shards.count), advance)
                for results in self._finish(batch, exchange):
                    yield from map(received, results)
            finally:
                batch.remove(self._shards.count)

    @property
    def memory(self) -> int:
        return self._engine.exchanged

    def sections(self, vertices: int, entries: int) -> Sections:
        shared, senders = self._engine.shared, self._shards.count
        bits = section_bits(vertices, entries, senders, len(self._live()), self.memory)
        return Sections(shared.place, shared.number(), senders, vertices, bits)

    def send(
        self, task: SendTask, shards: Sequence[int], advance: Advance = ignore
    ) -> NDArray[np.int64]:
        sections = task.sections
        if not self._owners:
            raise ResumableError(
                f"{sections.place.shown}: files of the run are missing or damaged, and their "
                f"source rows were deleted; {RESUME}"
            )
        total = np.zeros(sections.per_file, np.int64)
        for written, counts in self._on_shards(task, shards, advance):
            self._account(bytes_shared=written)
            total += received(counts)
        return total

    def above(
        self, source: RowSource, chunks: int, entries: int, together: int, again: Again
    ) -> RemoteShardExecutor:
        return RemoteShardExecutor(
            self._engine, source, chunks, entries, self._monitor, together, again
        )

    def _by_turns(self, things: Sequence[int]) -> dict[int, list[int]]:
        """Assign things round-robin to the owners that are not stragglers."""
        swift = self._swift()
        mine: dict[int, list[int]] = {}
        for index in things:
            mine.setdefault(swift[index % len(swift)], []).append(index)
        return mine

    def _write(
        self, batch: Batch, exchange: Exchange, shards: Sequence[int], advance: Advance = ignore
    ) -> None:
        """Let the owners of some shards write their run files."""
        task = WriteTask(batch, (), exchange.sort, exchange.arguments)
        for written in self._on_shards(task, shards, advance):
            self._account(bytes_shared=written)

    def _finish(self, batch: Batch, exchange: Exchange) -> Iterator[list[Any]]:
        """Yield the results of the labels of each range of a batch, in order, still packed."""

        def part(mine: Sequence[int]) -> FinishTask:
            homes = [Home.of(exchange, batch, index) for index in mine]
            narrow = exchange.near, exchange.light
            return FinishTask(batch, self._shards.count, exchange.finish, *narrow, homes)

        found: dict[int, list[Any]] = {}
        left = list(range(len(batch.ranges)))
        for _ in range(TIMES):
            missing: set[int] = set()
            for mine, (answers, _) in self._ask(left, self._by_turns, part):
                for index, answer in zip(mine, answers, strict=True):
                    if isinstance(answer, Missing):
                        missing.update(answer.shards)
                    else:
                        found[index] = answer
            left = [index for index in left if index not in found]
            if not left:
                break
            self._monitor.write(f"  {len(missing)} run files are missing or damaged: written again")
            self._write(batch, exchange, sorted(missing))
        else:
            raise vanishing(batch.place.shown)
        for index in range(len(batch.ranges)):
            yield found.pop(index)

    def _on_shards(
        self, task: WriteTask | SendTask, shards: Sequence[int], advance: Advance
    ) -> Iterator[Any]:
        """Run a task on the owners of some shards, a window of shards at a time; yield answers."""

        def part(mine: Sequence[int]) -> WorkerTask:
            return task._replace(shards=[(shard, self._shards.chunks_of(shard)) for shard in mine])

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            mine: dict[int, list[int]] = {}
            for shard in left:
                mine.setdefault(self._shards.owner_of(shard), []).append(shard)
            return mine

        step = self._shards.window * len(self._owners)
        for low in range(0, len(shards), step):
            for _, (found, entries) in self._ask(shards[low : low + step], share, part):
                for count in entries:
                    advance(count)
                yield found

    def _on_chunks(self, task: EachTask | SumTask, places: Sequence[int]) -> Calls:
        """Run a task on the owners of its chunks at some places; return (places, answer) pairs."""

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            return self._shards.by_owner(task.chunks, left)

        def part(mine: Sequence[int]) -> WorkerTask:
            return task._replace(chunks=[task.chunks[place] for place in mine])

        return self._ask(places, share, part)
