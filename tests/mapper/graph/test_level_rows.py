"""Contraction on workers equals one process, with lost workers and damaged files."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mapper.concurrency.threads import ThreadTeam
from mapper.distributed import owners
from mapper.distributed.remote import RemoteShardExecutor
from mapper.errors import ResumableError
from mapper.executors import sections
from mapper.executors.sections import (
    MissingError,
    Pairs,
    Sections,
    ends_of,
    pack_pairs,
    read_pairs,
    section_bits,
)
from mapper.executors.shared import SharedPlace
from mapper.graph.by_label import sums_by_label
from mapper.graph.contracted_rows import ContractedRows, contract_to_scratch
from mapper.graph.level_rows import LevelRows, contract_on_workers
from mapper.graph.rows import Rows, StreamedRows
from mapper.monitoring.monitor import Monitor
from mapper.planning.worker_plan import MADE_BYTES
from storage.scratch.run_file import write_run
from storage.scratch.scratch import Scratch
from storage.store.memory import MemoryGraph
from tests.mapper.distributed.stand_in import Once, StandIn, full
from tests.mapper.helpers import heavy_clusters, links_of, random_clusters, random_graph
from tests.seeds import seeds


class GraphRows(NamedTuple):
    """Rows of a graph in memory, as opened by workers."""

    graph: MemoryGraph

    @property
    def exchanged(self) -> bool:
        return True

    def open(self, _: Scratch | None) -> Rows:
        return StreamedRows(self.graph, self.graph.vertex_sizes(), 0)


class OnWorkers(NamedTuple):
    """A graph whose rows workers process."""

    engine: StandIn
    rows: Rows
    executor: RemoteShardExecutor

    @classmethod
    def of(cls, engine: StandIn, graph: MemoryGraph) -> OnWorkers:
        source = GraphRows(graph)
        rows = source.open(None)
        executor = RemoteShardExecutor(engine, source, rows.chunks, rows.entries, Monitor())
        return cls(engine, rows, executor)


@contextmanager
def contracted(
    rows: Rows, executor: Any, cluster: np.ndarray, count: int, sample: tuple[int, int]
) -> Iterator[LevelRows]:
    visited: list[int] = []
    sizes = sums_by_label(cluster, rows.sizes, count)
    with contract_on_workers(
        rows, executor, cluster, sizes, sample, 10 * count, visited.append
    ) as found:
        assert sum(visited) == sum(map(len, links_of(rows)))
        yield found


def by_one_process(
    rows: Rows, cluster: np.ndarray, count: int, sample: tuple[int, int], folder: Path
) -> ContractedRows:
    sizes = sums_by_label(cluster, rows.sizes, count)
    with ThreadTeam(1) as team:
        return contract_to_scratch(rows, cluster, sizes, sample, Scratch(folder), 1 << 20, team)


def require_same(found: Rows, expected: Rows) -> None:
    """Compare rows, chunks and properties."""
    assert links_of(found) == links_of(expected)
    for name in ("vertices", "entries", "block_size", "chunks"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.degrees().tolist() == expected.degrees().tolist()
    assert found.sizes.tolist() == expected.sizes.tolist()


def small_blocks(monkeypatch: pytest.MonkeyPatch, target: int) -> None:
    """Set the number of entries per chunk of coarsening levels."""
    from mapper.graph import contracted_rows, level_rows
    from storage.graph import choose_block_size

    def choose(vertices: int, entries: int) -> int:
        return choose_block_size(vertices, entries, target)

    for module in (contracted_rows, level_rows):
        monkeypatch.setattr(module, "choose_block_size", choose)


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", seeds(20, plain=4))
def test_two_levels_equal_one_process(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units of several chunks and of several sections; pieces of a few connections."""
    rng = np.random.default_rng(seed)
    small_blocks(monkeypatch, int(rng.choice([1, 20, 10**6])))
    monkeypatch.setattr(sections, "FRAME", int(rng.choice([1, 4096])))
    monkeypatch.setattr(sections, "SORTED_CONNECTIONS", int(rng.choice([1, 40, 10**6])))
    n = int(rng.integers(2, 200))
    graph = random_graph(rng, n, largest=9, sizes=4, block_size=int(rng.integers(1, 20)))
    with StandIn(tmp_path, int(rng.integers(1, 4))) as engine:
        engine.exchanged = int(rng.choice([1, 4000, 1 << 20]))
        one = OnWorkers.of(engine, graph)
        local, rows, executor = one.rows, one.rows, one.executor
        with ExitStack() as held:
            for depth in range(2):
                count = max(1, rows.vertices // int(rng.integers(1, 4)))
                cluster = random_clusters(rng, rows.vertices, count)
                sample = int(rng.integers(1, 9)), depth
                rows = held.enter_context(contracted(rows, executor, cluster, count, sample))
                local = by_one_process(local, cluster, count, sample, tmp_path / str(depth))
                require_same(rows, local)
                executor = rows.executor
        require_nothing_left(engine)


def require_nothing_left(engine: StandIn) -> None:
    """Levels are deleted, except the owner of the network itself on each worker."""
    assert not list(engine.shared.place.folder.glob("batch*"))
    assert len(list(engine.folder.glob("mapper-*/scratch"))) == len(engine.addresses())


def test_all_weights_are_shifted_if_a_sum_is_too_large(tmp_path: Path) -> None:
    graph, cluster = heavy_clusters()
    with StandIn(tmp_path, 2) as engine:
        one = OnWorkers.of(engine, graph)
        local = by_one_process(one.rows, cluster, 3, (1, 0), tmp_path / "local")
        with contracted(one.rows, one.executor, cluster, 3, (1, 0)) as found:
            assert links_of(found) == links_of(local)
            assert links_of(found)[2] == [(0, 1)]
        require_nothing_left(engine)


class Level:
    """A graph on three workers, and its coarse level computed by one process."""

    CLUSTER = (np.arange(150) % 40).astype(np.int32)
    SAMPLE = 3, 1

    def __init__(self, folder: Path) -> None:
        graph = random_graph(np.random.default_rng(5), 150, largest=9, block_size=6)
        self.engine = StandIn(folder, 3)
        self.made = OnWorkers.of(self.engine, graph)
        local = by_one_process(self.made.rows, self.CLUSTER, 40, self.SAMPLE, folder / "local")
        self.expected = links_of(local)

    @contextmanager
    def rows(self) -> Iterator[LevelRows]:
        with contracted(
            self.made.rows, self.made.executor, self.CLUSTER, 40, self.SAMPLE
        ) as found:  # fmt: skip
            yield found

    def files(self) -> list[Path]:
        return sorted(self.engine.shared.place.folder.glob("batch*"))


@pytest.fixture
def level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    """A level with several chunks; the driver does not wait for lost workers."""
    monkeypatch.setattr(owners, "COMES_BACK_WITHIN", 0.0)
    small_blocks(monkeypatch, 20)
    made = Level(tmp_path)
    with made.engine:
        yield made


@pytest.mark.sample(4)
@pytest.mark.parametrize(("method", "call"), [("send", 1), ("send", 2), ("each", 1), ("each", 2)])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_worker_is_lost_while_rows_are_built(
    level: Level, method: str, call: int, replaced: bool
) -> None:
    loses = Once(method, lambda address: level.engine.lose(address, replaced), call)
    level.engine.before = loses
    with level.rows() as found:
        assert links_of(found) == level.expected
    assert loses.done
    assert len(level.engine.lost) == 1
    assert not level.files()


@pytest.mark.parametrize("replaced", [True, False])
def test_a_worker_is_lost_while_a_level_is_read(level: Level, replaced: bool) -> None:
    """The replacement builds its rows from the files, which still exist."""
    with level.rows() as found:
        assert links_of(found) == level.expected
        assert level.files()
        before = level.engine.amounts["bytes_shared"]
        level.engine.lose("worker-1", replaced)
        assert links_of(found) == level.expected
        assert level.engine.amounts["bytes_shared"] == before > 0
    assert level.engine.lost == ["worker-1"]
    assert not level.files()


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.sample(3)
@pytest.mark.parametrize("harm", [halve, Path.unlink])
@pytest.mark.parametrize("count", [1, 20])
def test_missing_or_damaged_files_are_rewritten(
    level: Level, harm: Callable[[Path], object], count: int
) -> None:
    """While rows are built from them, and when a worker is lost that had built its rows."""

    def harm_some(_: str = "") -> None:
        for path in level.files()[:count]:
            harm(path)

    harms = Once("each", harm_some)
    level.engine.before = harms
    with level.rows() as found:
        assert links_of(found) == level.expected
        assert harms.done
        harm_some()
        assert links_of(found) == level.expected  # the files are not needed
        level.engine.lose("worker-2", True)
        assert links_of(found) == level.expected
    assert not level.files()


def test_files_that_vanish_repeatedly(level: Level) -> None:
    def empty(_: str) -> None:
        for path in level.files():
            path.unlink()

    level.engine.before = Once("each", empty, always=True)
    with pytest.raises(ResumableError, match="were missing or damaged 3 times"):
        level.rows().__enter__()
    assert not level.files()


def test_files_cannot_be_rewritten_without_the_rows_below(level: Level) -> None:
    """Rows of a level are deleted once the level above exists."""
    with level.rows() as found:
        level.made.executor.close()
        assert links_of(found) == level.expected
        for path in level.files():
            path.unlink()
        level.engine.lose("worker-0", True)
        with pytest.raises(ResumableError, match=r"^--shared .* continue with --resume$"):
            links_of(found)


def test_a_full_folder(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "write_run", full)
    with pytest.raises(ResumableError, match=r"cannot write on .*: No space left on device; make"):
        level.rows().__enter__()
    assert not level.files()


def test_a_missing_folder(level: Level) -> None:
    """When rows are built from its files; then the files cannot be rewritten either."""
    folder = level.engine.shared.place.folder
    level.engine.before = Once("each", lambda _: shutil.rmtree(folder))
    with pytest.raises(ResumableError, match=r"cannot write on .*: No such file or directory; "):
        level.rows().__enter__()


@pytest.mark.parametrize("seed", seeds(30, plain=6))
def test_pairs_survive_the_round_trip(seed: int, tmp_path: Path) -> None:
    """Compared with sums in a dictionary; some sums exceed the largest weight."""
    rng = np.random.default_rng(seed)
    vertices, senders = int(rng.integers(2, 60)), int(rng.integers(1, 4))
    runs = Sections(
        SharedPlace("--shared", tmp_path, "tag"), 3, senders, vertices, int(rng.integers(0, 7))
    )
    sums: dict[tuple[int, int], int] = defaultdict(int)
    counts = np.zeros(runs.per_file, np.int64)
    for sender in range(senders):
        frames: list[list[bytes]] = [[] for _ in range(runs.per_file)]
        for _ in range(int(rng.integers(0, 3))):
            ends = np.sort(rng.integers(0, vertices, (int(rng.integers(0, 40)), 2)), axis=1)
            low, high = ends[ends[:, 0] < ends[:, 1]].T.astype(np.int32)
            weights = rng.integers(1, 2**30, low.size).astype(np.int32)
            cut = low.size // 2
            some = [
                Pairs(low[part], high[part], weights[part])
                for part in (slice(cut), slice(cut, None))
            ]
            packed = pack_pairs(some, runs)
            counts += packed.counts
            for index, frame in packed.frames:
                frames[index].append(frame)
            for a, b, w in zip(low.tolist(), high.tolist(), weights.tolist(), strict=True):
                sums[a, b] += w
                sums[b, a] += w
        write_run(runs.name(sender), frames)
    assert counts.sum() >= len(sums)
    found: list[tuple[int, int, int]] = []
    first = 0
    while first < runs.per_file:
        last = int(rng.integers(first, runs.per_file)) + 1
        keys, weights = read_pairs(runs, first, last, int(counts[first:last].sum()))
        own, ids = ends_of(keys)
        found += zip(own.tolist(), ids.tolist(), weights.tolist(), strict=True)
        first = last
    assert found == [(*key, min(total, 2**31 - 1)) for key, total in sorted(sums.items())]
    runs.name(senders - 1).path.unlink()
    with pytest.raises(MissingError) as raised:
        read_pairs(runs, 0, 1, int(counts[:1].sum()))
    assert raised.value.shards == [senders - 1]


def test_section_sizes_follow_memory_and_frames() -> None:
    """About 4,096 connections of a shard per section, unless a worker's memory is too small."""
    count, entries = 1 << 20, 1 << 26
    plenty = section_bits(count, entries, 256, 2, 1 << 40)
    assert count >> plenty == entries // (256 * 4096) == 64
    little = section_bits(count, entries, 256, 2, MADE_BYTES * (entries >> 10))
    assert count >> little == 1 << 10
    assert count >> section_bits(count, entries, 1 << 16, 16, 1 << 40) == 64  # few entries
    assert section_bits(1, 10, 1, 64, 1) == 0
