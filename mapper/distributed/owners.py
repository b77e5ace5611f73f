"""Owners of an executor: assignment of shards, state updates, and recovery of lost workers.

Each worker has rows and state (`mapper.distributed.owner`). A call that fails with a network error
marks its worker as lost. A replacement, or else the remaining workers, take over its shards,
receive the whole state, and repeat the call. Errors of mapper itself are returned as answers and
raised in the driver.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from mapper.distributed import broadcast
from mapper.distributed.engine import Engine, LostError, all_lost, result_of
from mapper.distributed.owner import Answer
from mapper.distributed.state_log import StateLog
from mapper.distributed.stragglers import PART, Stragglers
from mapper.errors import RESUME, ResumableError
from mapper.executors.executor import WorkerTask
from mapper.executors.sections import MissingError
from mapper.executors.sent import nbytes
from mapper.executors.shards import Shards
from mapper.executors.worker_interface import RowSource
from mapper.monitoring.monitor import Monitor

COMES_BACK_WITHIN = 60.0  # seconds; limit for the cluster to replace a lost worker
CLOSES_WITHIN = 15.0  # seconds; limit for a worker to delete its files
TIMES = 3  # limit of workers lost per shard, and of rewrites of a file

Again = Callable[[list[int]], object]
"""Writes the run files of some shards again."""
Calls = list[tuple[list[int], Any]]
"""Things of each call, and the value of its answer."""


class Owners:
    """One owner on each worker of an engine."""

    def __init__(
        self,
        engine: Engine,
        source: RowSource,
        chunks: int,
        entries: int,
        monitor: Monitor,
        together: int = 1,
        again: Again | None = None,
    ) -> None:
        """chunks, entries : size of the rows; together : see `Shards`

        again : rewrites run files, where rows are built from run files
        """
        self._engine, self._source, self._monitor = engine, source, monitor
        self._chunks, self._entries = chunks, entries
        self._state_log, self._again = StateLog(), again
        self._addresses = engine.some_addresses()
        self._shards = Shards(chunks, entries, len(self._addresses), together)
        self._owners: list[Any] = [None] * len(self._addresses)
        self._known = [0] * len(self._owners)  # state version of each owner
        self._losses: dict[int, int] = {}
        self._stragglers = Stragglers(entries)
        for index, address in enumerate(self._addresses):
            try:
                self._owners[index] = engine.own(address, source)
            except LostError:
                self._replace(index)

    def _live(self) -> list[int]:
        """Return the indices of live owners."""
        return [index for index, owner in enumerate(self._owners) if owner is not None]

    def _swift(self) -> list[int]:
        """Return the live owners that are not stragglers, or all if every one is."""
        live = self._live()
        return [index for index in live if index not in self._stragglers.slow] or live

    def _account(self, **amounts: float) -> None:
        self._engine.account(self._monitor.at_work.get("name", ""), **amounts)

    def _ask(
        self,
        things: Sequence[int],
        share: Callable[[Sequence[int]], dict[int, list[int]]],
        part: Callable[[Sequence[int]], WorkerTask],
    ) -> Calls:
        """Call owners until all things are done; return (things, answer) per call.

        share : assigns things to owners; part : returns the task of some things
        """
        started = time.perf_counter()
        done: Calls = []
        tries: Counter[int] = Counter()
        left = list(things)
        while left:
            calls, shares = [], share(left)
            self._spread(shares)
            for index, mine in shares.items():
                update = self._state_log.since(self._known[index])
                task = part(mine)
                future = self._start(index, "run", update, task)
                self._account(bytes_to=nbytes(update) + nbytes(task))
                calls.append((index, mine, future))
            version, left, lost = self._state_log.version, [], []
            missing: set[int] = set()
            for index, mine, future in calls:
                try:
                    answer = self._result(index, future)
                except LostError:
                    lost.append(index)
                    left += mine
                    continue
                self._known[index] = version
                if isinstance(answer.error, MissingError):
                    missing.update(answer.error.shards)
                    left += mine
                    continue
                if answer.error is not None:
                    raise answer.error
                self._account(bytes_from=nbytes(answer.value), cpu_seconds=answer.cpu_seconds)
                if answer.entries:
                    self._stragglers.add(index, answer.seconds, answer.entries)
                done.append((mine, answer.value))
            for index in lost:  # before shards move to another lost worker
                self._owners[index] = None
            for index in lost:
                self._replace(index)
            if missing:
                tries.update(missing)
                self._make_again(sorted(missing), max(tries.values()))
        self._account(seconds=time.perf_counter() - started, calls=1)
        self._relieve()
        return done

    def _make_again(self, shards: list[int], tries: int) -> None:
        """Rewrite the run files of some shards; tries : times that one of them was missing."""
        assert self._again is not None, "only rows built from run files can miss some"
        if tries > TIMES:
            raise vanishing(self._engine.shared.place.shown)
        self._monitor.write(f"  {len(shards)} run files are missing or damaged: written again")
        self._again(shards)

    def _spread(self, indices: Iterable[int]) -> None:
        """Broadcast the update that most of these owners need through a tree, if it is large."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(self._state_log.base(self._known[index]), []).append(index)
        base, group = max(groups.items(), key=lambda one: len(one[1]))
        if len(group) < broadcast.FROM_WORKERS:
            return
        update = self._state_log.since(base)
        if update is None or nbytes(update) < broadcast.FROM_BYTES:
            return
        reached = [self._engine.reach(self._addresses[one], self._owners[one]) for one in group]
        calls = [
            (node.worker, self._start(node.worker, "broadcast", update, node.down))
            for node in broadcast.tree(list(zip(group, reached, strict=True)))
        ]
        self._account(bytes_to=len(calls) * nbytes(update))
        for index, future in calls:
            with suppress(LostError):  # the next call detects the loss
                answer = self._result(index, future)
                if answer.error is None:
                    self._account(cpu_seconds=answer.cpu_seconds)
                    for one in (index, *answer.value):
                        self._known[one] = update.version

    def _result(self, index: int, future: Any) -> Answer:
        """Return the answer of an owner; raises `LostError`."""
        look = self._monitor.look
        answer: Answer = result_of(future, self._addresses[index], self._engine, look)
        return answer

    def _relieve(self) -> None:
        """Move some shards of the workers that were stragglers in the last passes to the others."""
        for index, factor in self._stragglers.found().items():
            held = self._shards.held(index)
            moved = self._shards.give_away(index, self._swift(), PART)
            if moved:
                self._engine.moved += moved
                self._monitor.write(
                    f"  worker {self._addresses[index]} is {factor:.1f} times slower than the "
                    f"median: {moved} of its {held} shards move to others"
                )

    def _start(self, index: int, method: str, *arguments: Any) -> Any:
        """Start a call; return its future, or None if the worker is lost already."""
        try:
            return getattr(self._owners[index], method)(*arguments)
        except (OSError, RuntimeError):
            return None

    def _replace(self, index: int) -> None:
        """Replace a lost worker, or distribute its shards to the others."""
        address = self._addresses[index]
        self._stragglers.forget(index)
        # the executor of other rows may have found the loss first
        if address not in self._engine.lost:
            self._engine.lost.append(address)
            self._monitor.write(f"  worker {address} was lost; its shards move to others")
        self._losses[index] = self._losses.get(index, 0) + 1
        if self._losses[index] >= TIMES:
            raise ResumableError(
                f"--workers: {TIMES} workers were lost on the same shard, the last at {address}; "
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
            raise all_lost()
        self._shards.give_away(index, self._swift())

    def close(self) -> None:
        """Delete the files of these rows on workers that keep running."""
        owners, self._owners, self._state_log = self._owners, [], StateLog()
        closed = []
        for owner in owners:
            if owner is not None:
                with suppress(Exception):  # its worker may be lost
                    closed.append(owner.close())
        for one in closed:
            with suppress(Exception):
                one.result(timeout=CLOSES_WITHIN)


def vanishing(shown: str) -> ResumableError:
    """Return the error for run files that repeatedly vanish from the shared folder."""
    return ResumableError(
        f"{shown}: files of the run were missing or damaged {TIMES} times; give another "
        f"folder, and {RESUME}"
    )
