"""The workers of an executor: who has which shards, what they are told, and what becomes of the
lost.

Each worker has rows and state (`mapper.distributed.owner`). A call that fails with an error of the
network is that of a lost worker: one that comes in its place, or else the others, take its shards,
get the state as a whole, and do the call again. Errors of mapper itself come as answers and end the
run as they would here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from mapper.distributed import relay
from mapper.distributed.engine import Engine, LostError, result_of
from mapper.distributed.owner import Answer
from mapper.distributed.sections import MissingError
from mapper.distributed.sent import nbytes
from mapper.distributed.shards import Shards
from mapper.distributed.state_log import StateLog
from mapper.distributed.stragglers import PART, Stragglers
from mapper.distributed.workers import RowSource
from mapper.errors import RESUME, ResumableError
from mapper.runtime.monitor import Monitor

COMES_BACK_WITHIN = 60.0  # seconds in which a lost worker is replaced by the cluster
CLOSES_WITHIN = 15.0  # seconds that a worker has to leave nothing behind
TIMES = 3  # workers that a shard may lose, and times that files are made again

Again = Callable[[list[int]], object]
"""Lets run files of some shards be written again, of which rows are made."""


class Owners:
    """An owner on each worker of an engine."""

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
        """chunks, entries : how many the rows have; together : see `Shards`

        again : where rows are made of run files
        """
        self._engine, self._source, self._monitor = engine, source, monitor
        self._chunks, self._entries = chunks, entries
        self._state_log, self._again = StateLog(), again
        self._addresses = engine.addresses()
        self._shards = Shards(chunks, entries, len(self._addresses), together)
        self._owners: list[Any] = [None] * len(self._addresses)
        self._known = [0] * len(self._owners)  # the version of each
        self._losses: dict[int, int] = {}
        self._stragglers = Stragglers(entries)
        for index, address in enumerate(self._addresses):
            try:
                self._owners[index] = engine.own(address, source)
            except LostError:
                self._replace(index)

    def _live(self) -> list[int]:
        """The owners that are there; others have given their shards away."""
        return [index for index, owner in enumerate(self._owners) if owner is not None]

    def _swift(self) -> list[int]:
        """Those of them that are no stragglers, or all where there are no others."""
        live = self._live()
        return [index for index in live if index not in self._stragglers.slow] or live

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
        tries: Counter[int] = Counter()
        left = list(things)
        while left:
            calls, shares = [], share(left)
            self._spread(shares)
            for index, mine in shares.items():
                update = self._state_log.since(self._known[index])
                arguments = given(mine)
                future = self._start(index, method, update, *arguments)
                self._account(bytes_to=nbytes(update) + nbytes(arguments))
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
            for index in lost:  # before anything is given to one of them
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
        """Let run files of some shards be written again; tries : how often one was missing."""
        assert self._again is not None, "only rows that are made of files miss some"
        if tries > TIMES:
            raise vanishing(self._engine.shared.place.shown)
        self._monitor.write(f"  {len(shards)} run files are gone or damaged: made again")
        self._again(shards)

    def _spread(self, indices: Iterable[int]) -> None:
        """Let owners pass the update on that most of them need, if it is large."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(self._state_log.base(self._known[index]), []).append(index)
        base, group = max(groups.items(), key=lambda one: len(one[1]))
        if len(group) < relay.FROM_WORKERS:
            return
        update = self._state_log.since(base)
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
        if address not in self._engine.lost:  # or one with other rows has found it out
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
        owners, self._owners, self._state_log = self._owners, [], StateLog()
        closed = []
        for owner in owners:
            if owner is not None:
                with suppress(Exception):  # its worker may be gone
                    closed.append(owner.close())
        for one in closed:
            with suppress(Exception):
                one.result(timeout=CLOSES_WITHIN)


def vanishing(shown: str) -> ResumableError:
    """What ends a run whose files in the shared folder do not stay there."""
    return ResumableError(
        f"{shown}: files of the run vanish there or are damaged, {TIMES} times over; give another "
        f"folder, and {RESUME}"
    )
