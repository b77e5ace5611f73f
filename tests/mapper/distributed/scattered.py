"""An executor whose owners have only their rows, a copy of the state, and received updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.distributed.state_log import StateLog, updated
from mapper.executors.exchange import Exchange, Lists
from mapper.executors.executor import (
    EachTask,
    ExchangeTask,
    GatherTask,
    LocalShardExecutor,
    Task,
    Vertices,
)
from mapper.executors.shard import Shard, State, entries_of
from mapper.graph.csr import Chunk
from mapper.graph.rows import Rows
from mapper.monitoring.callbacks import Advance, ignore


class OwnRows(Rows):
    """Chunks of a graph of which only an owner's chunks are accessible."""

    def __init__(self, rows: Rows, mine: set[int]) -> None:
        self._rows, self._mine, self._sizes = rows, mine, rows.sizes
        self.entries, self.block_size = rows.entries, rows.block_size

    def degrees(self) -> NDArray[np.int32]:
        raise AssertionError("must not be called")

    def read(self, index: int) -> Chunk:
        assert index in self._mine, f"chunk {index} belongs to another owner"
        return self._rows.read(index)


class ScatteredExecutor(LocalShardExecutor):
    """Owners with copies of the state, called in random order."""

    def __init__(self, rows: Rows, owner: Sequence[int], seed: int) -> None:
        self.team = ThreadTeam(1)
        self._owner = owner
        self._state_log = StateLog()
        self._rng = np.random.default_rng(seed)
        self._shards = [
            Shard(OwnRows(rows, {chunk for chunk, one in enumerate(owner) if one == mine}))
            for mine in range(max(owner, default=0) + 1)
        ]
        self._versions = [0 for _ in self._shards]

    def begin(self, state: State) -> None:
        self._state_log.begin(state)

    def settled(self, vertices: Vertices) -> None:
        self._state_log.settled(vertices)

    def _catch_up(self, owner: int) -> Shard:
        """Return the shard of an owner after sending it the missing updates."""
        shard, update = self._shards[owner], self._state_log.since(self._versions[owner])
        if update is not None:
            self._versions[owner] = update.version
            state = updated(shard.state, update)
            if update.whole is not None:
                shard.begin(state)
        return shard

    def run(self, task: Task, advance: Advance = ignore) -> Iterator[Any]:
        match task:
            case GatherTask():
                return self._gather(task, advance)
            case ExchangeTask():
                return self._exchange(task.exchange, advance)
            case _:
                return task.run(self, advance)

    def results(
        self, work: Callable[..., Any], chunks: Sequence[int], *arguments: Any
    ) -> Iterator[tuple[Any, int]]:
        """Yield the results and entries of the chunks, computed in random order."""
        found = {}
        for place in self._rng.permutation(len(chunks)).tolist():
            index = chunks[place]
            found[place] = self._catch_up(self._owner[index]).do(work, index, *arguments)
        for place in range(len(chunks)):
            yield found[place]

    def _gather(self, task: GatherTask, advance: Advance) -> Iterator[Any]:
        """Gather ranges of consecutive chunks, each by the owner of its first chunk."""
        for low, high in pairwise([0, 4, 5, len(self._owner)]):
            found = task.make(self._catch_up(self._owner[low]), *task.arguments)
            for index in range(low, high):
                chunk = self._shards[self._owner[index]].rows.read(index)
                advance(entries_of(chunk))
                found.add(chunk)
            yield found.result()

    def _exchange(self, exchange: Exchange, advance: Advance) -> Iterator[Any]:
        """Process ranges of labels, each finished in random order."""
        labels = exchange.most.size
        made = {}
        edges = np.unique([0, *self._rng.integers(0, labels, 2), labels]).tolist()
        for low, high in pairwise(edges):
            every = range(len(self._owner))
            sort = EachTask(exchange.sort, every, (low, high, *exchange.arguments))
            rows: list[tuple[NDArray[Any], NDArray[Any]]] = []
            for used, ids, weights in sort.run(self, advance):
                ends = np.cumsum(used)[:-1]
                rows += zip(np.split(ids, ends), np.split(weights, ends), strict=True)
            for label in (low + self._rng.permutation(high - low)).tolist():
                own = [rows[v] for v in exchange.members[slice(*exchange.start[label : label + 2])]]
                made[label] = exchange.finish(label, partial(lists, own), *exchange.given(label))
        yield from (made[label] for label in range(labels))


def lists(rows: list[tuple[NDArray[Any], NDArray[Any]]]) -> Lists:
    """Convert ids and weights of some vertices to `Lists`."""
    lengths = [ids.size for ids, _ in rows]
    ids, weights = (
        np.concatenate([np.empty(0, np.int32), *some]).astype(np.int32)
        for some in (zip(*rows, strict=True) if rows else ((), ()))
    )
    return np.append(0, np.cumsum(lengths, dtype=np.int64)), ids, weights
