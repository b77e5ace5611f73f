"""Workers of a Dask cluster; the only module that knows the engine.

One actor a worker has rows and state (`mapper.fleet.owner`). A call that fails with an error of the
network is that of a lost worker: one that the cluster starts in its place, or else the others, take
its shards, get the state as a whole, and do the call again. Errors of mapper itself come as
answers and end the run as they would here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from mapper.errors import MapperError, UsageError
from mapper.fleet.fleet import Vertices
from mapper.fleet.ledger import Ledger
from mapper.fleet.owner import Answer, Owner, about
from mapper.fleet.shard import Result, State, Work
from mapper.fleet.shards import Shards
from mapper.fleet.workers import RowSource
from mapper.runtime.callbacks import Advance, ignore
from mapper.runtime.monitor import Monitor
from storage.closing import Closing

HERE = "127.0.0.1"  # nobody else is to talk to processes of this machine
ANSWERS_WITHIN = 15  # seconds in which a scheduler answers, and has a worker
COMES_BACK_WITHIN = 60  # seconds in which a lost worker is replaced by the cluster
PATIENCE = 600  # seconds that a run waits without any worker
TIMES = 3  # workers that a shard may lose
KEEP = 1 << 28  # bytes of a free block that a process keeps: blocks of rows come again at once

SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": KEEP,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": KEEP,
    "distributed.comm.compression": False,  # what is sent is packed
    "distributed.worker.memory.target": False,  # mapper plans its memory itself
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.worker-ttl": "30s",
    "distributed.admin.tick.limit": "1h",  # kernels are long; nobody need hear of it
}


class LostError(Exception):
    """A worker does not answer any more."""


class DaskWorkers(Closing):
    """Workers that this process starts, or that are there already; see `Workers`."""

    def __init__(self, where: int | str | Client, threads: int, folder: Path) -> None:
        """Start workers, or go to those that there are.

        where : how many processes, the address of a scheduler, its file, or a client, which stays
            the caller's
        threads : of all workers that are started together
        folder : for the rows of workers that are started

        Raises `UsageError` if nobody answers, or another version does.
        """
        self._held = ExitStack()
        self._folder = ""
        try:
            self.client = self._connect(where, threads, folder)
            self._require_same()
        except BaseException:
            self._held.close()
            raise
        self.seconds: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self._fleets: list[DaskFleet] = []
        self._peaks: dict[str, int] = {}

    def _connect(self, where: int | str | Client, threads: int, folder: Path) -> Client:
        if isinstance(where, Client):
            return where
        if isinstance(where, int):
            self._folder = str(folder)
            self._held.enter_context(
                dask.config.set({**SETTINGS, "temporary-directory": str(folder)})
            )
            cluster = LocalCluster(
                n_workers=where, threads_per_worker=max(1, threads // where), processes=True,
                host=HERE, dashboard_address=f"{HERE}:0", worker_dashboard_address=f"{HERE}:0",
                silence_logs=logging.CRITICAL,
                local_directory=str(folder), memory_limit=_machine_memory(),
            )  # fmt: skip
            self._held.callback(_quietly, cluster.close)
            client = Client(cluster, direct_to_workers=True, set_as_default=False)
            self._held.callback(_quietly, client.close)
            return client
        try:
            given = {"scheduler_file": where} if where.endswith(".json") else {"address": where}
            client = Client(
                **given, timeout=ANSWERS_WITHIN, direct_to_workers=True, set_as_default=False
            )
        except (OSError, ValueError) as error:  # a timeout is an OSError
            raise UsageError(
                f"--workers {where}: no scheduler answers there; start one with `dask scheduler`"
            ) from error
        self._held.callback(_quietly, client.close)
        return client

    def _require_same(self) -> None:
        """Raise `UsageError` if there are no workers, or those of another version."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=ANSWERS_WITHIN)
        if not self.workers():
            raise UsageError(
                f"--workers: the scheduler at {self.client.scheduler.address} has no workers; "
                "start some with `dask worker`"
            )
        try:
            found = self.client.run(about)
        except ImportError as error:
            raise UsageError(
                f"--workers: a worker cannot load mapper ({error}); install the same version there"
            ) from error
        own = about()
        for address, other in found.items():
            for (name, here), (_, there) in zip(own.versions, other.versions, strict=True):
                if here != there:
                    raise UsageError(
                        f"--workers: {name} is {there} on {other.host} ({address}), {here} here; "
                        "install the same version"
                    )
        self._hosts = {address: other.host for address, other in found.items()}

    def workers(self) -> dict[str, Any]:
        """What the scheduler knows of each worker, by address."""
        return dict(self.client.scheduler_info(n_workers=-1)["workers"])

    def fleet(self, source: RowSource, chunks: int, entries: int, monitor: Monitor) -> DaskFleet:
        made = DaskFleet(self, source, Shards(chunks, entries, len(self.workers())), monitor)
        self._fleets.append(made)
        return made

    def own(self, address: str, source: RowSource) -> Any:
        """An actor on a worker; raises `LostError` if that is lost, or what opening rows does."""
        about_it = self.workers().get(address)
        if about_it is None:
            raise LostError(address)
        folder = self._folder or about_it["local_directory"]
        try:
            with self.client.as_current():  # the actor takes the client that it finds
                owner = self.client.submit(
                    Owner, source, about_it["nthreads"], folder, actor=True, workers=[address],
                    allow_other_workers=False, pure=False,
                ).result(timeout=COMES_BACK_WITHIN)  # fmt: skip
                answer = owner.open().result()
        except (OSError, RuntimeError) as error:
            raise LostError(address) from error
        if answer.error is not None:
            raise answer.error
        return owner

    def account(self, stage: str, **amounts: float) -> None:
        """Add seconds and bytes to a stage."""
        sums = self.seconds.setdefault(stage, {"seconds": 0.0, "bytes_to": 0, "bytes_from": 0})
        for name, amount in amounts.items():
            sums[name] += amount

    def facts(self) -> dict[str, Any]:
        there = self.workers()
        with suppress(Exception):  # who is lost at the end has nothing to say
            for address, other in self.client.run(about).items():
                self._hosts[address] = other.host
                self._peaks[address] = other.peak_rss_bytes
        return {
            "count": len(there),
            "hosts": sorted({self._hosts.get(address, address) for address in there}),
            "threads": sum(one["nthreads"] for one in there.values()),
            "peak_rss_bytes": [self._peaks[address] for address in sorted(self._peaks)],
            "replaced": len(self.lost),
            "stages": [
                {"name": name, **{key: round(value, 4) for key, value in sums.items()}}
                for name, sums in self.seconds.items()
            ],
        }

    def close(self) -> None:
        for fleet in self._fleets:
            fleet.close()
        self._held.close()


class DaskFleet:
    """The workers of a cluster; see `Fleet`."""

    def __init__(
        self, workers: DaskWorkers, source: RowSource, shards: Shards, monitor: Monitor
    ) -> None:
        self._workers, self._source = workers, source
        self._shards, self._monitor = shards, monitor
        self._ledger = Ledger()
        self._addresses: list[str] = sorted(workers.workers())
        self._owners: list[Any] = [workers.own(one, source) for one in self._addresses]
        self._known = [0] * len(self._owners)  # the version of each
        self._losses: dict[int, int] = {}

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
                yield result

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
            total += some
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
                self._workers.account(stage, bytes_to=sent)
                calls.append((index, mine, future))
            version, left, lost = self._ledger.version, [], []
            for index, mine, future in calls:
                try:
                    answer = self._wait(future)
                except LostError:
                    lost.append(index)
                    left += mine
                    continue
                self._known[index] = version
                if answer.error is not None:
                    raise answer.error
                self._workers.account(stage, bytes_from=nbytes(answer.value))
                done.append((mine, answer.value))
            for index in lost:
                self._replace(index)
        self._workers.account(stage, seconds=time.perf_counter() - started)
        return done

    def _start(self, index: int, method: str, *arguments: Any) -> Any:
        """The future of a call; None if the worker is lost already."""
        try:
            return getattr(self._owners[index], method)(*arguments)
        except (OSError, RuntimeError):
            return None

    def _wait(self, future: Any) -> Answer:
        """The answer to a call; raises `LostError`, or what ends the run meanwhile."""
        if future is None:
            raise LostError
        while True:
            try:
                answer: Answer = future.result(timeout=1.0)
                return answer
            except TimeoutError as error:
                if future.done():
                    raise LostError from error
                self._monitor.stop.check()
            except (OSError, RuntimeError) as error:
                raise LostError from error

    def _replace(self, index: int) -> None:
        """Find others for the shards of a worker that is lost."""
        address = self._addresses[index]
        self._workers.lost.append(address)
        self._monitor.write(f"  worker {address} is lost; its shards go elsewhere")
        self._losses[index] = self._losses.get(index, 0) + 1
        if self._losses[index] >= TIMES:
            raise MapperError(
                f"--workers: {TIMES} workers were lost at the same shard, the last at {address}; "
                "give workers more memory, or go on with --resume"
            )
        self._owners[index] = None
        others = [other for other, owner in enumerate(self._owners) if owner is not None]
        until = time.monotonic() + (COMES_BACK_WITHIN if others else PATIENCE)
        while time.monotonic() < until:
            self._monitor.stop.check()
            fresh = set(self._workers.workers()) - set(self._addresses)
            for one in sorted(fresh):
                with suppress(LostError):
                    self._owners[index] = self._workers.own(one, self._source)
                    self._addresses[index], self._known[index] = one, 0
                    return
            time.sleep(0.2)
        if not others:
            raise MapperError("--workers: all workers are gone; start some and go on with --resume")
        self._shards.give_away(index, others)

    def close(self) -> None:
        """Leave nothing on workers that go on."""
        for owner in self._owners:
            if owner is not None:
                with suppress(Exception):  # its worker may be gone
                    owner.close().result(timeout=ANSWERS_WITHIN)
        self._owners = []


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


def _machine_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)


def _quietly(close: Callable[[], None]) -> None:
    """Close what may be half gone."""
    with suppress(Exception):
        close()
