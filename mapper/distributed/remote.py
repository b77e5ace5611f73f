"""Executor whose shards are on other processes, independent of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.owners import TIMES, Again, Owners, vanishing
from mapper.errors import RESUME, ResumableError
from mapper.executors.exchange import Exchange
from mapper.executors.executor import Gathering, Vertices
from mapper.executors.sections import Pairs, Sections, section_bits
from mapper.executors.sent import received
from mapper.executors.shard import Result, State, Work
from mapper.executors.shared import Batch, Finish, Home, Missing
from mapper.executors.workers import RowSource
from mapper.monitoring.callbacks import Advance, ignore
from mapper.planning.traffic import ranges_for


class RemoteShardExecutor(Owners):
    """Executor on the workers of an engine; see `ShardExecutor` and `WorkerShardExecutor`."""

    def begin(self, state: State) -> None:
        self._state_log.begin(state)

    def settled(self, vertices: Vertices) -> None:
        self._state_log.settled(vertices)

    def each(
        self,
        work: Work[Result],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Result]:
        for found in self._windows("each", chunks, work, arguments):
            ordered: dict[int, tuple[Result, int]] = {}
            for places, (results, entries) in found:
                ordered.update(zip(places, zip(results, entries, strict=True), strict=True))
            for place in sorted(ordered):
                result, count = ordered.pop(place)
                advance(count)
                yield received(result)

    def store(
        self,
        work: Work[Result],
        take: Callable[[Result], None],
        chunks: Sequence[int],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> None:
        for result in self.each(work, chunks, *arguments, advance=advance):
            take(result)

    def sum(
        self,
        work: Callable[..., None],
        chunks: Sequence[int],
        shape: tuple[int, ...],
        *arguments: Any,
        most: int | None = None,
        advance: Advance = ignore,
    ) -> NDArray[np.int64]:
        total = np.zeros(shape, np.int64)
        for _, (some, entries) in self._call("sum", chunks, range(len(chunks)), work, arguments,
                                             shape, most):  # fmt: skip
            total += received(some)
            for count in entries:
                advance(count)
        return total

    def gather(
        self,
        make: Callable[..., Gathering],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> Iterator[Any]:
        """Split chunks into ranges for all workers; each reads its rows for this call alone."""
        owners = len(self._live())
        count = ranges_for(self._entries, self._chunks, owners)
        ends = np.linspace(0, self._chunks, count + 1)
        ranges = list(pairwise(ends.astype(int).tolist()))

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            return make, [ranges[index] for index in mine], arguments

        for low in range(0, len(ranges), owners):
            some = range(low, min(low + owners, len(ranges)))
            found: dict[int, Any] = {}
            for mine, (results, entries) in self._ask("gather", some, self._by_turns, given):
                found.update(zip(mine, results, strict=True))
                for count in entries:
                    advance(count)
            for index in some:
                yield received(found.pop(index))

    def exchange(self, exchange: Exchange, advance: Advance = ignore) -> Iterator[Any]:
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
        self,
        sections: Sections,
        shards: Sequence[int],
        work: Work[Pairs],
        *arguments: Any,
        advance: Advance = ignore,
    ) -> NDArray[np.int64]:
        if not self._owners:
            raise ResumableError(
                f"{sections.place.shown}: files of the run are missing or damaged, and their "
                f"source rows were deleted; {RESUME}"
            )
        total = np.zeros(sections.per_file, np.int64)

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            return sections, self._named(mine), work, arguments

        for written, counts in self._shared("send", shards, given, advance):
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
        """Assign tasks round-robin to the owners that are not stragglers."""
        swift = self._swift()
        mine: dict[int, list[int]] = {}
        for index in things:
            mine.setdefault(swift[index % len(swift)], []).append(index)
        return mine

    def _write(
        self, batch: Batch, exchange: Exchange, shards: Sequence[int], advance: Advance = ignore
    ) -> None:
        """Let the owners of some shards write their run files."""

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            return batch, self._named(mine), exchange.sort, exchange.arguments

        for written in self._shared("write", shards, given, advance):
            self._account(bytes_shared=written)

    def _named(self, shards: Sequence[int]) -> list[tuple[int, range]]:
        """Return the numbers of shards, with their chunks."""
        return [(shard, self._shards.chunks_of(shard)) for shard in shards]

    def _shared(
        self,
        method: str,
        shards: Sequence[int],
        given: Callable[[Sequence[int]], tuple[Any, ...]],
        advance: Advance,
    ) -> Iterator[Any]:
        """Call the owners of some shards, a window of shards at a time; yield their answers."""

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            mine: dict[int, list[int]] = {}
            for shard in left:
                mine.setdefault(self._shards.owner_of(shard), []).append(shard)
            return mine

        step = self._shards.window * len(self._owners)
        for low in range(0, len(shards), step):
            for _, (found, entries) in self._ask(method, shards[low : low + step], share, given):
                for count in entries:
                    advance(count)
                yield found

    def _finish(self, batch: Batch, exchange: Exchange) -> Iterator[list[Any]]:
        """Yield the results of the labels of each range of a batch, in order, still packed."""
        work = Finish(exchange.finish, exchange.near, exchange.light)

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            homes = [Home.of(exchange, batch, index) for index in mine]
            return batch, self._shards.count, work, homes

        found: dict[int, list[Any]] = {}
        left = list(range(len(batch.ranges)))
        for _ in range(TIMES):
            missing: set[int] = set()
            for mine, (answers, _) in self._ask("finish", left, self._by_turns, given):
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

    def _windows(
        self, method: str, chunks: Sequence[int], work: Work[Any], arguments: tuple[Any, ...]
    ) -> Iterator[list[tuple[list[int], Any]]]:
        """Yield the answers of all owners, a window of shards at a time."""
        for places in self._shards.windows(chunks, len(self._owners)):
            yield self._call(method, chunks, places, work, arguments)

    def _call(
        self,
        method: str,
        chunks: Sequence[int],
        places: Sequence[int],
        work: Work[Any],
        arguments: tuple[Any, ...],
        *more: Any,
    ) -> list[tuple[list[int], Any]]:
        """Call the owners of chunks at some places of a list; return (places, answer) pairs."""

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            return self._shards.by_owner(chunks, left)

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            return work, [chunks[place] for place in mine], arguments, *more

        return self._ask(method, places, share, given)
