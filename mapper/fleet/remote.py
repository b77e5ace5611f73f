"""A fleet whose shards are on other processes, whatever engine starts and reaches these.

Each worker has rows and state (`mapper.fleet.owner`). A call that fails with an error of the
network is that of a lost worker: one that comes in its place, or else the others, take its shards,
get the state as a whole, and do the call again. Errors of mapper itself come as answers and end the
run as they would here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.errors import RESUME, ResumableError
from mapper.fleet import relay
from mapper.fleet.engine import Engine, LostError, result_of
from mapper.fleet.exchange import Exchange
from mapper.fleet.fleet import Gathering, Vertices
from mapper.fleet.ledger import Ledger
from mapper.fleet.owner import Answer
from mapper.fleet.sent import nbytes, received
from mapper.fleet.shard import Result, State, Work
from mapper.fleet.shards import Shards
from mapper.fleet.shared import Batch, Finish, Home, Missing
from mapper.fleet.stragglers import PART, Stragglers
from mapper.fleet.workers import RowSource
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.monitor import Monitor
from mapper.runtime.sent_plan import ranges_for

COMES_BACK_WITHIN = 60.0  # seconds in which a lost worker is replaced by the cluster
CLOSES_WITHIN = 15.0  # seconds that a worker has to leave nothing behind
TIMES = 3  # workers that a shard may lose


class RemoteFleet:
    """The workers of an engine; see `Fleet`."""

    def __init__(
        self, engine: Engine, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> None:
        """chunks, entries : how many the rows have"""
        self._engine, self._source, self._monitor = engine, source, monitor
        self._chunks, self._entries = chunks, entries
        self._ledger = Ledger()
        self._addresses = engine.addresses()
        self._shards = Shards(chunks, entries, len(self._addresses))
        self._owners: list[Any] = [None] * len(self._addresses)
        self._known = [0] * len(self._owners)  # the version of each
        self._losses: dict[int, int] = {}
        self._stragglers = Stragglers(entries)
        for index, address in enumerate(self._addresses):
            try:
                self._owners[index] = engine.own(address, source)
            except LostError:
                self._replace(index)

    def begin(self, state: State) -> None:
        self._ledger.begin(state)

    def settled(self, vertices: Vertices) -> None:
        self._ledger.settled(vertices)

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
        """Some ranges for each worker, whoever has their rows: these are read for it alone."""
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

    def _live(self) -> list[int]:
        """The owners that are there; others have given their shards away."""
        return [index for index, owner in enumerate(self._owners) if owner is not None]

    def _swift(self) -> list[int]:
        """Those of them that are no stragglers, or all where there are no others."""
        live = self._live()
        return [index for index in live if index not in self._stragglers.slow] or live

    def _by_turns(self, things: Sequence[int]) -> dict[int, list[int]]:
        """Who is to have which of some things that anybody can do."""
        swift = self._swift()
        mine: dict[int, list[int]] = {}
        for index in things:
            mine.setdefault(swift[index % len(swift)], []).append(index)
        return mine

    def _write(
        self, batch: Batch, exchange: Exchange, shards: Sequence[int], advance: Advance = ignore
    ) -> None:
        """Let those who have some shards write their run files."""

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            mine: dict[int, list[int]] = {}
            for shard in left:
                mine.setdefault(self._shards.owner_of(shard), []).append(shard)
            return mine

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            named = [(shard, self._shards.chunks_of(shard)) for shard in mine]
            return batch, named, exchange.sort, exchange.arguments

        step = self._shards.window * len(self._owners)
        for low in range(0, len(shards), step):
            for _, (written, entries) in self._ask("write", shards[low : low + step], share, given):
                self._account(bytes_shared=written)
                for count in entries:
                    advance(count)

    def _finish(self, batch: Batch, exchange: Exchange) -> Iterator[list[Any]]:
        """Results of the labels of each range of a batch, in their order, still packed."""
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
            self._monitor.write(f"  {len(missing)} run files are gone or damaged: made again")
            self._write(batch, exchange, sorted(missing))
        else:
            raise ResumableError(
                f"{batch.place.shown}: files of the run vanish there or are damaged, {TIMES} "
                f"times over; give another folder, and {RESUME}"
            )
        for index in range(len(batch.ranges)):
            yield found.pop(index)

    def _windows(
        self, method: str, chunks: Sequence[int], work: Work[Any], arguments: tuple[Any, ...]
    ) -> Iterator[list[tuple[list[int], Any]]]:
        """Answers of all owners, about a shard of each at a time."""
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
        """Let the owners of chunks at some places of a list do a work: (places, answer) of each."""

        def share(left: Sequence[int]) -> dict[int, list[int]]:
            return self._shards.by_owner(chunks, left)

        def given(mine: Sequence[int]) -> tuple[Any, ...]:
            return work, [chunks[place] for place in mine], arguments, *more

        return self._ask(method, places, share, given)

    def _account(self, **amounts: float) -> None:
        self._engine.account(self._monitor.at_work.get("name", ""), **amounts)

    def _ask(
        self,
        method: str,
        things: Sequence[int],
        share: Callable[[Sequence[int]], dict[int, list[int]]],
        given: Callable[[Sequence[int]], tuple[Any, ...]],
    ) -> list[tuple[list[int], Any]]:
        """Let owners do something with things, all of them: (things, answer) of each.

        share : who is to have which; given : what the method gets for some things
        """
        started, done = time.perf_counter(), []
        left = list(things)
        while left:
            calls, shares = [], share(left)
            self._spread(shares)
            for index, mine in shares.items():
                update = self._ledger.since(self._known[index])
                arguments = given(mine)
                future = self._start(index, method, update, *arguments)
                self._account(bytes_to=nbytes(update) + nbytes(arguments))
                calls.append((index, mine, future))
            version, left, lost = self._ledger.version, [], []
            for index, mine, future in calls:
                try:
                    answer = self._result(index, future)
                except LostError:
                    lost.append(index)
                    left += mine
                    continue
                self._known[index] = version
                if answer.error is not None:
                    raise answer.error
                self._account(bytes_from=nbytes(answer.value), cpu_seconds=answer.cpu_seconds)
                if answer.entries:
                    self._stragglers.add(index, answer.seconds, answer.entries)
                done.append((mine, answer.value))
            for index in lost:  # before anything is given to one of them
                self._owners[index] = None
            for index in lost:
                self._replace(index)
        self._account(seconds=time.perf_counter() - started, calls=1)
        self._relieve()
        return done

    def _spread(self, indices: Iterable[int]) -> None:
        """Let owners pass the update on that most of them need, if it is large."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(self._ledger.base(self._known[index]), []).append(index)
        base, group = max(groups.items(), key=lambda one: len(one[1]))
        if len(group) < relay.FROM_WORKERS:
            return
        update = self._ledger.since(base)
        if update is None or nbytes(update) < relay.FROM_BYTES:
            return
        reached = [self._engine.reach(self._addresses[one], self._owners[one]) for one in group]
        calls = [
            (node.worker, self._start(node.worker, "relay", update, node.down))
            for node in relay.tree(list(zip(group, reached, strict=True)))
        ]
        self._account(bytes_to=len(calls) * nbytes(update))
        for index, future in calls:
            with suppress(LostError):  # which its next call finds out
                answer = self._result(index, future)
                if answer.error is None:
                    self._account(cpu_seconds=answer.cpu_seconds)
                    for one in (index, *answer.value):
                        self._known[one] = update.version

    def _result(self, index: int, future: Any) -> Answer:
        """What an owner answers; raises `LostError`."""
        look = self._monitor.look
        answer: Answer = result_of(future, self._addresses[index], self._engine, look)
        return answer

    def _relieve(self) -> None:
        """Move some shards of those that were slow in the last passes to the others."""
        for index, factor in self._stragglers.found().items():
            held = self._shards.held(index)
            moved = self._shards.give_away(index, self._swift(), PART)
            if moved:
                self._engine.moved += moved
                self._monitor.write(
                    f"  worker {self._addresses[index]} takes {factor:.1f} times as long as the "
                    f"median: {moved} of its {held} shards go to others"
                )

    def _start(self, index: int, method: str, *arguments: Any) -> Any:
        """The future of a call; None if the worker is lost already."""
        try:
            return getattr(self._owners[index], method)(*arguments)
        except (OSError, RuntimeError):
            return None

    def _replace(self, index: int) -> None:
        """Find others for the shards of a worker that is lost."""
        address = self._addresses[index]
        self._stragglers.forget(index)
        self._engine.lost.append(address)
        self._monitor.write(f"  worker {address} is lost; its shards go elsewhere")
        self._losses[index] = self._losses.get(index, 0) + 1
        if self._losses[index] >= TIMES:
            raise ResumableError(
                f"--workers: {TIMES} workers were lost at the same shard, the last at {address}; "
                f"give workers more memory, or {RESUME}"
            )
        others = [other for other, owner in enumerate(self._owners) if owner is not None]
        until = time.monotonic() + (COMES_BACK_WITHIN if others else self._engine.patience)
        while True:
            self._monitor.look()
            for one in self._engine.addresses():
                if one not in self._addresses:
                    with suppress(LostError):
                        self._owners[index] = self._engine.own(one, self._source)
                        self._addresses[index], self._known[index] = one, 0
                        return
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        if not others:
            raise ResumableError(f"--workers: all workers are gone; start some and {RESUME}")
        self._shards.give_away(index, self._swift())

    def close(self) -> None:
        """Leave nothing on workers that go on."""
        owners, self._owners = self._owners, []
        closed = []
        for owner in owners:
            if owner is not None:
                with suppress(Exception):  # its worker may be gone
                    closed.append(owner.close())
        for one in closed:
            with suppress(Exception):
                one.result(timeout=CLOSES_WITHIN)
