"""Exchanges of workers: lost workers and files in the shared folder do not change the result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.concurrency.threads import ThreadTeam
from mapper.distributed import owners
from mapper.errors import ResumableError, UsageError
from mapper.executors.exchange import RowBuffer, Sorted
from mapper.executors.executor import LocalShardExecutor
from mapper.executors.shard import State
from mapper.executors.shared import SharedFolder
from tests.mapper.distributed.stand_in import GridRows, Once, StandIn, exchange_of, full

PART = np.random.default_rng(1).integers(0, 5, 108).astype(np.int32)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Three workers; the driver does not wait for lost ones."""
    monkeypatch.setattr(owners, "COMES_BACK_WITHIN", 0.0)
    with StandIn(tmp_path, 3) as made:
        yield made


def exchanged(engine: StandIn) -> list[Any]:
    executor = engine.executor()
    executor.begin(State(PART, constants=(3,)))
    return list(executor.exchange(exchange_of(PART)))


@pytest.fixture
def expected(tmp_path: Path) -> list[Any]:
    """Return the result without failures."""
    (tmp_path / "quiet").mkdir()
    with StandIn(tmp_path / "quiet", 2) as engine:
        return exchanged(engine)


def run_files(engine: StandIn) -> list[Path]:
    return sorted(engine.shared.place.folder.glob("*.run"))


def test_files_are_deleted_with_their_batch(engine: StandIn, expected: list[Any]) -> None:
    """While a batch is finished there is one file per shard, and none at the end."""
    engine.exchanged = 300
    there: list[set[str]] = []
    engine.before = Once(
        "finish", lambda _: there.append({path.name for path in run_files(engine)}), always=True
    )
    assert exchanged(engine) == expected
    assert len({name for names in there for name in names}) > len(there[0]) > 0
    assert len({len(names) for names in there}) == 1
    assert run_files(engine) == []
    assert engine.amounts["bytes_shared"] > 1000


@pytest.mark.parametrize("method", ["write", "finish"])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_lost_worker(engine: StandIn, expected: list[Any], method: str, replaced: bool) -> None:
    loses = Once(method, lambda address: engine.lose(address, replaced))
    engine.before = loses
    assert exchanged(engine) == expected
    assert loses.done == 1
    assert len(engine.lost) == 1


def halve(path: Path, _: bytes) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def damage(path: Path, _: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def vanish(path: Path, _: bytes) -> None:
    path.unlink()


def replace(path: Path, other: bytes) -> None:
    path.write_bytes(other)


@pytest.mark.sample(3)
@pytest.mark.parametrize("harm", [halve, damage, vanish, replace])
def test_unusable_run_files_are_rewritten(
    engine: StandIn, expected: list[Any], harm: Callable[[Path, bytes], None]
) -> None:
    """One or all files are truncated, damaged, missing, or from another run or an earlier attempt;
    their
    writer may be lost.
    """
    others: list[bytes] = []
    with StandIn(engine.shared.place.folder, 1) as other:
        other.before = Once("finish", lambda _: others.extend(
            path.read_bytes() for path in run_files(other)))  # fmt: skip
        assert exchanged(other) == expected
    for count in (1, len(others)):
        sizes: list[int] = []

        def harm_some(_: str, count: int = count, sizes: list[int] = sizes) -> None:
            sizes += [path.stat().st_size for path in run_files(engine)]
            for path, strange in list(zip(run_files(engine), others, strict=True))[:count]:
                assert path.read_bytes() != strange
                harm(path, strange)

        harms = Once("finish", harm_some)
        engine.before = harms
        before = engine.amounts["bytes_shared"]
        assert exchanged(engine) == expected
        assert harms.done == 1
        assert engine.amounts["bytes_shared"] - before == sum(sizes) + sum(sizes[:count])


def test_earlier_run_files_are_overwritten(engine: StandIn, expected: list[Any]) -> None:
    """They have the names of new files; a partial file has another name."""
    place = engine.shared.place
    for shard in range(32):
        (place.folder / f"batch-0-{shard:05d}.run").write_bytes(b"of another attempt")
    (place.folder / "batch-0-00001.run.other-1-0.partial").write_bytes(b"half")
    assert exchanged(engine) == expected


def test_files_that_vanish_repeatedly(engine: StandIn) -> None:
    def empty(_: str) -> None:
        for path in run_files(engine):
            path.unlink()

    engine.before = Once("finish", empty, always=True)
    with pytest.raises(ResumableError) as raised:
        exchanged(engine)
    assert str(raised.value).startswith(f"--shared {engine.shared.place.folder.parent}")
    assert "were missing or damaged 3 times" in str(raised.value)


@pytest.mark.parametrize("method", ["write", "finish"])
def test_a_missing_folder(engine: StandIn, method: str) -> None:
    engine.before = Once(method, lambda _: shutil.rmtree(engine.shared.place.folder))
    with pytest.raises(ResumableError) as raised:
        exchanged(engine)
    line = str(raised.value)
    assert line.startswith(f"--shared {engine.shared.place.folder.parent}")
    assert "No such file or directory" in line
    assert line.endswith("make room there, and continue with --resume")


def test_a_full_folder(engine: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.executors.shared.write_run", full)
    with pytest.raises(ResumableError, match=r"cannot write on .*: No space left on device; make"):
        exchanged(engine)


def test_all_workers_write_the_same_bytes(tmp_path: Path) -> None:
    """Only the tag of the run differs, whichever worker has a shard."""
    found = []
    for count in (1, 3):
        (tmp_path / str(count)).mkdir()
        with StandIn(tmp_path / str(count), count) as engine:
            engine.shared.place = engine.shared.place._replace(tag="same")
            (engine.shared.place.folder / "seen").write_text("same")
            executor = engine.executor()
            executor.begin(State(PART, constants=(3,)))
            exchange = exchange_of(PART)
            batch = engine.shared.batch(exchange.shares(2, 1 << 20)[0])
            executor._write(batch, exchange, range(16))
            found.append([path.read_bytes() for path in run_files(engine)])
    assert len(found[0]) == 16
    assert found[0] == found[1]


def test_a_worker_without_access_to_the_folder(engine: StandIn) -> None:
    shutil.rmtree(engine.shared.place.folder)
    with pytest.raises(UsageError, match=r"^--shared .*: the worker on .* does not see it"):
        engine.executor()


def test_a_worker_that_sees_another_folder(engine: StandIn) -> None:
    (engine.shared.place.folder / "seen").write_text("something else")
    with pytest.raises(UsageError, match="does not see it"):
        engine.executor()


def test_a_given_folder(tmp_path: Path) -> None:
    """Resuming a run deletes the files of its killed driver, and nothing else."""
    shared, work = tmp_path / "shared", tmp_path / "work"
    with pytest.raises(UsageError, match=r"^--shared .*shared: cannot write: No such file or dir"):
        SharedFolder(shared, work)
    shared.mkdir()
    (shared / "other").write_text("of somebody")
    killed = SharedFolder(shared, work)
    (killed.place.folder / "batch-0-00000.run").write_bytes(b"left behind")
    with SharedFolder(shared, work) as again, SharedFolder(shared, tmp_path / "another") as third:
        assert again.place.folder == killed.place.folder != third.place.folder
        assert again.place.tag != killed.place.tag
        assert [path.name for path in again.place.folder.iterdir()] == ["seen"]
        assert third.place.folder.parent == shared
    assert [path.name for path in shared.iterdir()] == ["other"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("light", [True, False])
def test_rows_are_read_from_where_they_were_stored(seed: int, near: bool, light: bool) -> None:
    """Compared with lists; some vertices are skipped at random."""
    rng = np.random.default_rng(seed)
    buffer = RowBuffer(100, 300, near, light)
    rows: dict[int, tuple[list[int], list[int]]] = {}
    first = 0
    while len(rows) < 30:
        used = rng.integers(0, 7, int(rng.integers(1, 9))).astype(np.int32)
        ids = rng.integers(0, 2**16 if near else 2**31 - 1, used.sum())
        weights = rng.integers(0, 2**8 if light else 2**31 - 1, used.sum())
        left_out = int(rng.choice([0, 0, 5]))
        first += left_out
        buffer.put(Sorted(used, ids, weights), first if left_out else None)
        ends = np.cumsum(used)[:-1]
        pairs = zip(np.split(ids, ends), np.split(weights, ends), strict=True)
        for place, (some, heavy) in enumerate(pairs, first):
            rows[place] = some.tolist(), heavy.tolist()
        first += used.size
    assert buffer.vertices == first
    assert buffer.entries == sum(len(ids) for ids, _ in rows.values())
    places = np.sort(rng.choice(list(rows), int(rng.integers(0, 20)), replace=False))
    indptr, found, weights = buffer.rows(places.astype(np.int32))
    assert indptr[-1] == found.size == weights.size
    assert [rows[place] for place in places.tolist()] == [
        (found[low:high].tolist(), weights[low:high].tolist())
        for low, high in pairwise(indptr.tolist())
    ]


def test_a_batch_ends_at_the_memory_limit() -> None:
    exchange = exchange_of(PART)._replace(most=np.array([40, 10, 30, 20, 90]))
    exchange = exchange._replace(memory=50 * exchange.entry_bytes)
    assert [exchange.batch_end(low, 1.0) for low in range(5)] == [2, 3, 4, 4, 5]
    assert [exchange.batch_end(low, 0.5) for low in range(5)] == [4, 4, 4, 4, 5]


def test_chunks_without_labels_of_a_batch_are_skipped() -> None:
    rows = GridRows().open(None)  # type: ignore[arg-type]  # needs no scratch
    part = np.sort(PART)
    exchange = exchange_of(part)
    seen: list[list[int]] = []
    for memory in (1 << 20, 0):
        visited: list[int] = []
        with ThreadTeam(2) as team:
            executor = LocalShardExecutor(rows, team)
            executor.begin(State(part, constants=(3,)))
            list(executor.exchange(exchange._replace(memory=memory), visited.append))
        seen.append(visited)
    whole, each = (sum(visited) for visited in seen)
    assert whole == rows.entries
    assert whole < each < 2 * whole  # a chunk between two labels is read for both


@given(st.lists(st.integers(0, 50), min_size=5, max_size=5), st.integers(1, 9), st.integers(0, 400))
def test_shares_have_each_label_once(most: list[int], count: int, memory: int) -> None:
    exchange = exchange_of(PART)._replace(most=np.array(most))
    ranges = [one for batch in exchange.shares(count, memory) for one in batch]
    assert [label for low, high in ranges for label in range(low, high)] == list(range(5))
    assert all(len(batch) <= count for batch in exchange.shares(count, memory))
    fits = memory // exchange.entry_bytes
    largest = max(fits, fits // 2 + max(most), 1 + max(most))
    assert max(sum(most[low:high]) for low, high in ranges) <= largest
