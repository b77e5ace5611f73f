"""A fleet whose shards are on other processes, whatever engine starts and reaches these.

Each worker has rows and state (`mapper.fleet.owner`). A call that fails with an error of the
network is that of a lost worker: one that comes in its place, or else the others, take its shards,
get the state as a whole, and do the call again. Errors of mapper itself come as answers and end the
run as they would here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mapper.errors import ResumableError
from mapper.fleet.fleet import Vertices
from mapper.fleet.ledger import Ledger
from mapper.fleet.owner import Answer
from mapper.fleet.sent import received
from mapper.fleet.shard import Result, State, Work
from mapper.fleet.shards import Shards
from mapper.fleet.workers import RowSource
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.monitor import Monitor

COMES_BACK_WITHIN = 60.0  # seconds in which a lost worker is replaced by the cluster
LOOKS_EVERY = 2.0  # seconds between two questions whether a worker that is silent is there
CLOSES_WITHIN = 15.0  # seconds that a worker has to leave nothing behind
TIMES = 3  # workers that a shard may lose


def new_account() -> dict[str, float]:
    """What workers have done in a stage, before it begins.

    calls : of all of them together; seconds : that the driver waited for these
    cpu_seconds : processor time of the workers; bytes_to, bytes_from : sent to and by them
    """
    return {"calls": 0, "seconds": 0.0, "cpu_seconds": 0.0, "bytes_to": 0, "bytes_from": 0}


class LostError(Exception):
    """A worker does not answer any more."""


class Engine(Protocol):
    """What starts processes and reaches them.

    patience : seconds that a run waits without any worker
    lost : addresses of workers that were lost
    """

    patience: float
    lost: list[str]

    def addresses(self) -> list[str]:
        """Of the workers that are there, ascending; raises `ResumableError` if nobody knows."""

    def own(self, address: str, source: RowSource) -> Any:
        """An `Owner` on a worker, whose methods return futures of what they would.

        Raises `LostError` if the worker is lost, or what opening rows does.
        """

    def account(self, stage: str, **amounts: float) -> None:
        """Add to what a stage has taken: see `new_account`."""


class RemoteFleet:
    """The workers of an engine; see `Fleet`."""

    def __init__(
        self, engine: Engine, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> None:
        """chunks, entries : how many the rows have"""
        self._engine, self._source, self._monitor = engine, source, monitor
        self._ledger = Ledger()
        self._addresses = engine.addresses()
        self._shards = Shards(chunks, entries, len(self._addresses))
        self._owners: list[Any] = [None] * len(self._addresses)
        self._known = [0] * len(self._owners)  # the version of each
        self._losses: dict[int, int] = {}
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
        started, done = time.perf_counter(), []
        stage = self._monitor.at_work.get("name", "")
        left = list(places)
        while left:
            calls = []
            for index, mine in self._shards.by_owner(chunks, left).items():
                update = self._ledger.since(self._known[index])
                wanted = [chunks[place] for place in mine]
                future = self._start(index, method, update, work, wanted, arguments, *more)
                sent = nbytes(update) + nbytes(arguments) + 8 * len(mine)
                self._engine.account(stage, bytes_to=sent)
                calls.append((index, mine, future))
            version, left, lost = self._ledger.version, [], []
            for index, mine, future in calls:
                try:
                    answer: Answer = result_of(
                        future, self._addresses[index], self._engine, self._monitor.stop.check
                    )
                except LostError:
                    lost.append(index)
                    left += mine
                    continue
                self._known[index] = version
                if answer.error is not None:
                    raise answer.error
                got = nbytes(answer.value)
                self._engine.account(stage, bytes_from=got, cpu_seconds=answer.cpu_seconds)
                done.append((mine, answer.value))
            for index in lost:  # before anything is given to one of them
                self._owners[index] = None
            for index in lost:
                self._replace(index)
        self._engine.account(stage, seconds=time.perf_counter() - started, calls=1)
        return done

    def _start(self, index: int, method: str, *arguments: Any) -> Any:
        """The future of a call; None if the worker is lost already."""
        try:
            return getattr(self._owners[index], method)(*arguments)
        except (OSError, RuntimeError):
            return None

    def _replace(self, index: int) -> None:
        """Find others for the shards of a worker that is lost."""
        address = self._addresses[index]
        self._engine.lost.append(address)
        self._monitor.write(f"  worker {address} is lost; its shards go elsewhere")
        self._losses[index] = self._losses.get(index, 0) + 1
        if self._losses[index] >= TIMES:
            raise ResumableError(
                f"--workers: {TIMES} workers were lost at the same shard, the last at {address}; "
                "give workers more memory, or go on with --resume"
            )
        others = [other for other, owner in enumerate(self._owners) if owner is not None]
        until = time.monotonic() + (COMES_BACK_WITHIN if others else self._engine.patience)
        while True:
            self._monitor.stop.check()
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
            raise ResumableError(
                "--workers: all workers are gone; start some and go on with --resume"
            )
        self._shards.give_away(index, others)

    def close(self) -> None:
        """Leave nothing on workers that go on."""
        for owner in self._owners:
            if owner is not None:
                with suppress(Exception):  # its worker may be gone
                    owner.close().result(timeout=CLOSES_WITHIN)
        self._owners = []


def result_of(
    future: Any, address: str, engine: Engine, check: Callable[[], None] = lambda: None
) -> Any:
    """What a worker returns; raises `LostError`, or what `check` does meanwhile.

    future : of a call; None if it could not be made
    """
    looked = time.monotonic()
    ended = False
    while future is not None:
        try:
            return future.result(timeout=1.0)
        except TimeoutError as error:
            if ended:  # and that is what it gives
                raise LostError(address) from error
            ended = future.done()  # it may have come a moment later
            if ended:
                continue
            check()
            if time.monotonic() - looked > LOOKS_EVERY:
                if address not in engine.addresses():  # though its connection may stay open
                    raise LostError(address) from error
                looked = time.monotonic()
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
    raise LostError(address)


def nbytes(thing: Any) -> int:
    """Bytes of all arrays and packed lists in something that is sent."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, bytes):
        return len(thing)
    if isinstance(thing, tuple | list):
        return sum(map(nbytes, thing))
    if is_dataclass(thing):
        return sum(nbytes(getattr(thing, field.name)) for field in fields(thing))
    return sum(map(nbytes, vars(thing).values())) if hasattr(thing, "__dict__") else 8
