"""Runs of the external sort: kernels compared with reference implementations; round trips."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, MemoryShortError, WriteError
from storage.sorting import shared
from storage.sorting.radix import sort_packed
from storage.sorting.records import RecordFile
from storage.sorting.runs import (
    Buffer,
    RecordLayout,
    RunStore,
    Unpacking,
    _as_decimals,
    _count_buckets,
    _fetch,
    _gather,
    _scatter,
    _store,
    key_width,
)
from storage.sorting.shared import equal_loads
from storage.sorting.sorter import ConnectionSorter, _Allowance
from tests.reference import storage as naive
from tests.reference.storage import Entry
from tests.storage.strategies import random_edges

several = settings(max_examples=60)


def ints(values: Any, kind: Any = np.int64) -> np.ndarray[Any, Any]:
    return np.array(list(values), kind)


@several
@given(st.integers(1, 8), st.integers(0, 2**63 - 1), st.integers(0, 3))
def test_store_and_fetch(width: int, value: int, at: int) -> None:
    value %= 256**width
    out = np.zeros(at + width, np.uint8)
    _store(out, at, np.int64(value), width)
    assert out[at:].tobytes() == value.to_bytes(width, "little")
    assert _fetch(out, at, width) == value


@st.composite
def edges(draw: st.DrawFn, vertices: int) -> list[tuple[int, int, int]]:
    vertex = st.integers(0, vertices - 1)
    weight = st.integers(0, draw(st.sampled_from([0, 200, 2**40])))
    return draw(st.lists(st.tuples(vertex, vertex, weight), max_size=25))


@several
@given(st.data(), st.integers(1, 30), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))
def test_scatter(data: st.DataObject, vertices: int, shift: int, mode: int, spare: int) -> None:
    given_edges = data.draw(edges(vertices))
    bits = max(1, (vertices - 1).bit_length())
    entries = naive.entries_of(given_edges, mode)
    expected = naive.bucketed(entries, shift)
    source, target = (ints((e[k] for e in given_edges), np.int32) for k in (0, 1))
    weight = ints(edge[2] for edge in given_edges)
    counts = np.zeros((vertices - 1 >> shift) + 1, np.int64)
    _count_buckets(source, target, mode, shift, counts)
    buckets = [entry[0] >> shift for entry in entries]
    assert counts.tolist() == [buckets.count(bucket) for bucket in range(counts.size)]

    key_bytes = key_width(bits, min(shift, bits)) + spare
    largest = max((edge[2] for edge in given_edges), default=0)
    weight_bytes = -(-largest.bit_length() // 8)
    cursors = np.cumsum(counts) - counts
    out = np.zeros(len(entries) * (key_bytes + weight_bytes), np.uint8)
    weight = weight if weight_bytes else weight[:0]
    layout = RecordLayout(shift, bits, key_bytes, weight_bytes)
    _scatter(source, target, weight, mode, layout, cursors, out)
    assert out.tobytes() == b"".join(
        naive.packed_entry(entry, shift, bits, key_bytes, weight_bytes) for entry in expected
    )
    assert cursors.tolist() == np.cumsum(counts).tolist()


record = st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(0, 99))


@several
@given(
    st.lists(st.lists(record, max_size=8), max_size=4), st.integers(-20, 3), st.integers(1, 20),
    st.sampled_from([0, 1, 8]), st.sampled_from([0, 10, 14]), st.integers(0, 12),
)  # fmt: skip
def test_gather(
    buckets: list[list[tuple[int, int, int]]], base: int, limit: int, weight_bytes: int, low: int,
    room: int,
) -> None:  # fmt: skip
    raw, pairs = b"", []
    for index, records in enumerate(buckets):
        entries: list[Entry] = [(owner, other, 1, weight) for owner, other, weight in records]
        part = b"".join(naive.packed_entry(entry, 3, 4, 2, weight_bytes) for entry in entries)
        pairs += naive.unpacked(part, 2, weight_bytes, 7, base + 8 * index, limit, 4)
        raw += part
    if low:
        pairs = [(key << low | 5 * weight, 0) for key, weight in pairs]
    else:
        pairs = [(key, 5 * weight) for key, weight in pairs]
    data = np.frombuffer(raw, np.uint8)
    starts = 9 + np.cumsum([0, *map(len, buckets)])
    layout, unpacking = RecordLayout(3, 4, 2, weight_bytes), Unpacking(base, limit, 7, 5, low)
    found: list[tuple[int, int]] = []
    done = -1
    while done < starts[-1] - 9:  # repeat while the room runs out
        keys = np.zeros(room + 1, np.int64)
        values = np.zeros(0 if low else room + 1, np.int64)
        begin = min(room, 1)
        at, done = _gather(data, max(done, 0), starts, layout, unpacking, keys, values, begin)
        values = np.zeros_like(keys) if low else values
        found += zip(keys[begin:at].tolist(), values[begin:at].tolist(), strict=True)
    assert found == pairs


@several
@given(
    st.lists(st.one_of(
        st.integers(0, 2**53).map(float), st.floats(0, 1e300),
        st.decimals(0, 10**6, places=3).map(float), st.just(-0.0),
    ), max_size=6),
    st.integers(0, 6),
)  # fmt: skip
def test_as_decimals(values: list[float], decimals: int) -> None:
    out = np.zeros(len(values), np.int64)
    good = _as_decimals(np.array(values, np.float64), 10.0**decimals, out)
    expected = naive.as_decimals(values, 10.0**decimals)
    assert good == (expected is not None)
    if expected is not None:
        assert out.tolist() == expected


@several
@given(
    st.lists(st.integers(0, 2**40), max_size=40), st.integers(0, 12), st.integers(0, 30),
    st.booleans(),
)  # fmt: skip
def test_sort_packed(values: list[int], low: int, more: int, ordered: bool) -> None:
    if ordered:
        values.sort()
    top = 2 ** (low + more)
    values = [value % top for value in values]
    keys = ints(values)
    sort_packed(keys, np.empty_like(keys), low, low + more)
    assert keys.tolist() == sorted(values, key=lambda value: value >> low)


WEIGHTS: dict[str, Any] = {
    "one": np.ones(40, np.int64),
    "small": np.arange(40) % 9,
    "large": np.arange(40) << 40,
    "decimal": np.arange(40) / 8,
    "real": np.linspace(0, 1, 40) ** 2 / 7,
    "negative zero": np.full(40, -0.0),
}


@pytest.mark.heavy
@pytest.mark.sample(8)
@pytest.mark.parametrize("memory", [0, 1 << 20], ids=["disk", "memory"])
@pytest.mark.parametrize("kind", WEIGHTS)
def test_store_of_runs(kind: str, memory: int, tmp_path: Path) -> None:
    source, target = np.random.default_rng(1).integers(0, 5000, (2, 40)).astype(np.int32)
    with RecordFile(tmp_path) as file, RunStore(5000, memory, False, file) as store:
        buffer = Buffer(source, target, WEIGHTS[kind], [(0, 10, 0), (10, 15, 1), (15, 40, 2)])
        run, entries, total = store.make(buffer)
        again, _, _ = store.make(buffer)
        assert entries == 65 == run.starts[-1]
        assert total == pytest.approx(WEIGHTS[kind].sum() + WEIGHTS[kind][15:].sum())
        assert (run.data is None) == (memory == 0)
        assert file.size == (0 if memory else 2 * 65 * run.width)
        assert run.weight_bytes == {"one": 0, "negative zero": 0, "small": 1}.get(
            kind, run.weight_bytes
        )
        assert run.raw == (kind == "real")
        whole = run.read(0, 65)
        assert whole.tobytes() == again.read(0, 65).tobytes()
        assert run.read(7, 9).tobytes() == whole[7 * run.width : 9 * run.width].tobytes()
    assert list(tmp_path.iterdir()) == []


def test_truncated_runs(tmp_path: Path) -> None:
    ids = np.arange(40, dtype=np.int32)
    with RecordFile(tmp_path) as file, RunStore(50, 0, False, file) as store:
        run, _, _ = store.make(Buffer(ids, ids + 1, np.ones(40, np.int64), [(0, 40, 2)]))
        assert file._file is not None
        file._file.truncate(5)
        with pytest.raises(WriteError, match="the file of runs was truncated"):
            run.read(0, 80)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.jit)])
@pytest.mark.parametrize("memory", [1, 1 << 22])
def test_ranges_and_allowance(threads: int, memory: int, tmp_path: Path) -> None:
    """A hub whose list exceeds the memory, blocks of different sizes, parts of buckets."""
    vertices = 5000
    edges = random_edges(vertices, 9000, 4) + [(17, v, v % 5) for v in range(vertices)] * 2
    expected = naive.network(vertices, edges, undirected=False)
    for block_size in (1000, 4096, 9999):
        with ConnectionSorter(vertices, tmp_path, memory, threads) as sorter:
            columns = [column[:] for column in naive.columns([e for e in edges if e[0] != e[1]])]
            sorter.add_edges(*columns[:2], columns[2], False)
            assert sorter.entries == 2 * columns[0].size
            ranges = list(sorter._ranges(block_size, range(vertices)))
            assert [first for first, _, _ in ranges[1:]] == [last for _, last, _ in ranges[:-1]]
            assert ranges[-1][1] == vertices
            assert naive.flatten(block for block, _ in sorter.blocks(block_size)) == expected


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("held", [0, 9])
@pytest.mark.parametrize("memory", [1, 1 << 22])
def test_runs_shared_between_sorters(
    held: int, memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several sorters build runs, others read ranges of blocks from them, like a single sorter."""
    vertices, block_size = 5000, 96
    edges = [edge for edge in random_edges(vertices, 9000, 4) if edge[0] != edge[1]]
    monkeypatch.setattr(shared, "HELD", held)
    made = []
    for part in (edges[:10], [], edges[10:6000], edges[6000:]):
        with ConnectionSorter(vertices, tmp_path, memory, shared="runs-") as sorter:
            source, target, weight = naive.columns(part)
            sorter.add_edges(source, target, weight, undirected=False)
            made.append(sorter.leave())
    assert len({one.path for one in made}) == 4
    assert all(one.path.name.startswith("runs-") for one in made)
    loads = np.sum([one.loads for one in made], axis=0)
    owners = sorted(v for edge in edges for v in edge[:2])
    bounds = np.minimum(np.arange(loads.size) << 3, vertices)
    assert made[0].bounds.tolist() == bounds.tolist()
    assert loads.tolist() == np.searchsorted(owners, bounds).tolist()
    assert sum(one.total for one in made) == 2 * sum(edge[2] for edge in edges)

    found = []
    cuts = [0, 96, 96, 480, 4800, vertices]
    for first, last in pairwise(cuts):
        if first == last:
            continue
        with ConnectionSorter(vertices, tmp_path, memory) as sorter:
            sorter.read_from([one.path for one in made], first, last)
            spans = list(sorter._ranges(block_size, range(first, last)))
            assert (spans[0][0], spans[-1][1]) == (first, last)
            blocks = sorter.map_blocks(
                lambda block, _: block, block_size, vertices=range(first, last)
            )
            found += list(blocks)
    assert naive.flatten(found) == naive.network(vertices, edges, undirected=False)


def test_missing_runs(tmp_path: Path) -> None:
    with ConnectionSorter(9, tmp_path, shared="runs-") as sorter:
        made = sorter.leave()
    assert made.loads.tolist() == [0] * 10
    made.path.unlink()
    with (
        ConnectionSorter(9, tmp_path) as sorter,
        pytest.raises(BadInputError, match=r"runs-.*: cannot read: No such file"),
    ):
        sorter.read_from([made.path], 0, 9)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.integers(1, 9))
def test_equal_loads(entries: list[int], most: int) -> None:
    loads = np.cumsum([0, *entries])
    found = equal_loads(loads, most)
    assert 1 <= len(found) <= most
    assert [block for span in found for block in range(*span)] == list(range(len(entries)))
    share = loads[-1] / min(most, len(entries))
    assert max(int(loads[last] - loads[first]) for first, last in found) < share + max(entries) + 1


def test_allowance() -> None:
    allowance = _Allowance(10)
    with allowance.of(4), allowance.of(6):
        assert allowance._left == 0
    with allowance.of(1000):
        assert allowance._left == 0
    assert allowance._left == 10


def test_a_block_above_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated edges compress to nothing, and fill the memory when they are sorted."""
    monkeypatch.setattr("storage.sorting.sorter.LEAST_MEMORY", 0)
    ends, count = (np.zeros(1000, np.int32), np.ones(1000, np.int32)), 70
    with ConnectionSorter(2, tmp_path, 1 << 20) as sorter:
        for _ in range(count):
            sorter.add_edges(*ends, np.ones(1000, np.int64), False)
        with pytest.raises(MemoryShortError, match=r"a block of 70,00[01] connections"):
            list(sorter.blocks(1))
