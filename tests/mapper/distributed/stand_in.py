"""In-process workers for the tests: owners that are lost on request."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.engine import LostError, new_account
from mapper.distributed.owner import Owner
from mapper.distributed.remote import RemoteShardExecutor
from mapper.executors.exchange import Exchange, Lists, Sorted
from mapper.executors.shard import Shard
from mapper.executors.shared import SharedFolder
from mapper.executors.worker_interface import RowSource
from mapper.graph.by_label import by_label
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows, StreamedRows
from mapper.monitoring.callbacks import ignore
from mapper.monitoring.monitor import Monitor
from storage.closing import Closing
from storage.scratch.scratch import Scratch
from tests.mapper.helpers import grid_graph


class GridRows(NamedTuple):
    """The rows of these tests, as opened by workers."""

    @property
    def exchanged(self) -> bool:
        return True

    def open(self, _: Scratch) -> Rows:
        graph = grid_graph(12, 9, block_size=7)
        return StreamedRows(graph, graph.vertex_sizes(), 0)


def exchange_of(part: NDArray[np.int32], narrow: bool = True, memory: int = 1 << 20) -> Exchange:
    """Return an exchange that collects all rows of a label, for labels 0 .. 4.

    narrow : use variable-length encoding
    """
    members, start, _ = by_label(part, 5)
    return Exchange(
        sort=rows_within, arguments=(3, narrow), finish=brought_together,
        given=lambda label: (np.full(100, label),), most=4 * np.diff(start), members=members,
        start=start, near=narrow, light=narrow, memory=memory,
    )  # fmt: skip


def rows_within(
    shard: Shard, chunk: Chunk, low: int, high: int, factor: int, narrow: bool
) -> Sorted:
    """Return rows of vertices whose label is in a range, with weights multiplied by a factor."""
    assert shard.state.constants == (factor,)
    label = shard.state.part[chunk.first : chunk.first + chunk.vertices]
    used = np.where((label >= low) & (label < high), np.diff(chunk.indptr), 0).astype(np.int32)
    mine = np.repeat(used > 0, np.diff(chunk.indptr))
    at = slice(chunk.indptr[0], chunk.indptr[-1])
    ids, weights = chunk.ids[at][mine], factor * chunk.weights[at][mine]
    if narrow:
        return Sorted(used, ids.astype(np.uint16), weights.astype(np.uint8))
    return Sorted(used, ids, weights)


def brought_together(label: int, rows: Callable[[], Lists], given: NDArray[np.int64]) -> Any:
    """Return the label, ids and weights of each of its vertices, and the given values."""
    indptr, ids, weights = rows()
    found = [(ids[low:high].tolist(), weights[low:high].tolist()) for low, high in pairwise(indptr)]
    return label, found, given.tolist()


REACHED: dict[tuple[str, str], _Reached] = {}
"""Owners by the folder of their engine and their address."""


class Near(NamedTuple):
    """An owner as reached by other owners; see `Reach`."""

    folder: str
    address: str

    def broadcast(self, *arguments: Any) -> Any:
        return REACHED[self].broadcast(*arguments)


class StandIn(Closing):
    """Owners with copies of all arguments; see `Engine`.

    before : called with address and task ("each", "finish", ...) or other method before an owner
        executes; may call `lose`
    folder : folder of all rows
    late : calls are not done when first queried
    pace : seconds per entry that some addresses report, regardless of measurement
    """

    patience = 0.0

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self._owners: list[Owner] = []
        self._there = [f"worker-{index}" for index in range(count)]
        self.lost: list[str] = []
        self.moved = 0
        self.late = False
        self.pace: dict[str, float] = {}
        self.exchanged = 1 << 20
        self.shared = SharedFolder(None, folder)
        self.before: Callable[[str, str], object] = ignore
        self.amounts = new_account()

    def addresses(self) -> list[str]:
        return sorted(self._there)

    some_addresses = addresses

    def lose(self, address: str, replaced: bool = False) -> None:
        """Lose a worker; optionally another one joins."""
        self._there.remove(address)
        if replaced:
            self._there.append(f"{address}-again")

    def own(self, address: str, source: RowSource) -> _Reached:
        if address not in self._there:
            raise LostError(address)
        owner = Owner(source, 2, str(self.folder), self.shared.place)
        self._owners.append(owner)
        if (error := owner.open().error) is not None:
            raise error
        reached = REACHED[str(self.folder), address] = _Reached(self, address, owner)
        return reached

    def reach(self, address: str, _: Any) -> Near:
        return Near(str(self.folder), address)

    def account(self, _: str, **amounts: float) -> None:
        for name, amount in amounts.items():
            self.amounts[name] += amount

    def executor(self, monitor: Monitor | None = None) -> RemoteShardExecutor:
        """Return an executor of `GridRows`."""
        rows = GridRows().open(None)  # type: ignore[arg-type]  # needs no scratch
        return RemoteShardExecutor(
            self, GridRows(), rows.chunks, rows.entries, monitor or Monitor()
        )

    def close(self) -> None:
        self.shared.close()
        for owner in self._owners:
            owner.close()


class Once:
    """Calls a function before the n-th call of a task or method, or before each call."""

    def __init__(
        self, method: str, act: Callable[[str], object], call: int = 1, always: bool = False
    ) -> None:
        self._method, self._act, self._left, self._always = method, act, call, always
        self.done = 0

    def __call__(self, address: str, method: str) -> None:
        if method == self._method:
            self._left -= 1
            if self._always or not self._left:
                self.done += 1
                self._act(address)


def full(*_: object) -> int:
    """Fail as writing to a full disk does."""
    raise OSError(28, "No space left on device")


class _Late(Future[Any]):
    """A future that is done only at the second query."""

    _asked = 0

    def result(self, timeout: float | None = None) -> Any:
        self._asked += 1
        if self._asked == 1:
            raise TimeoutError
        return super().result(timeout)

    def done(self) -> bool:
        return self._asked > 1 and super().done()


class _Reached:
    """An owner whose methods return futures."""

    def __init__(self, engine: StandIn, address: str, owner: Owner) -> None:
        self._engine, self._address, self._owner = engine, address, owner

    def __getattr__(self, method: str) -> Callable[..., Future[Any]]:
        def call(*arguments: Any) -> Future[Any]:
            future: Future[Any] = _Late() if self._engine.late else Future()
            task = arguments[-1] if method == "run" else None
            shown = type(task).__name__.removesuffix("Task").lower() if task else method
            self._engine.before(self._address, shown)
            if self._address in self._engine.addresses():
                copies = pickle.loads(pickle.dumps(arguments))
                answer = getattr(self._owner, method)(*copies)
                if (pace := self._engine.pace.get(self._address)) is not None:
                    answer = answer._replace(seconds=pace * answer.entries)
                future.set_result(pickle.loads(pickle.dumps(answer)))
            else:
                future.set_exception(OSError(f"{self._address} is lost"))
            return future

        return call
