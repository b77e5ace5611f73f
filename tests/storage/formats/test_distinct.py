"""Distinct ids on disk give the same results as in memory, for any memory budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.formats import distinct, import_network
from storage.formats.distinct import DistinctIds, TemporaryNumbers, merge_sorted
from storage.formats.text import reader as text_module

chunks_of_ids = st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=5)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "SMALLEST_TABLE", 4)
    monkeypatch.setattr(distinct, "LEAST_WINDOW", 1)


@settings(max_examples=60)
@given(st.lists(st.sets(st.integers(0, 99), max_size=20), max_size=5), st.integers(1, 9))
def test_merge_sorted(runs: list[set[int]], window: int) -> None:
    with TemporaryNumbers(Path("/tmp")) as file:
        bounds = []
        for run in runs:
            file.append(np.array(sorted(run), np.int64))
            bounds.append((file.size - len(run), file.size))
        pieces = list(merge_sorted(file, bounds, window))
    assert [x for piece in pieces for x in piece.tolist()] == sorted(set().union(*runs))
    assert all(piece.size <= window * len(runs) for piece in pieces)


@pytest.mark.heavy
@settings(max_examples=40)
@given(chunks_of_ids, st.sampled_from([0, 300, 1 << 20]), st.sampled_from([1, 2**50]))
def test_distinct_ids(chunks: list[list[int]], memory: int, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "SMALLEST_TABLE", 4)
        patch.setattr(distinct, "LEAST_WINDOW", 1)
        with DistinctIds(Path("/tmp"), memory) as ids:
            expected: list[int] = []
            for chunk in chunks:
                given_ids = np.array(chunk, np.int64) * step
                ids.add(given_ids)
                expected = sorted({*expected, *given_ids.tolist()})
                assert ids.seen <= len(expected) == ids.size  # reading does not finish it
            places = np.arange(len(expected))[::-1]
            assert ids.read(0, len(expected)).tolist() == expected
            assert ids.at(places).tolist() == expected[::-1]
            assert ids.at(places[:0]).size == 0
            if expected:
                assert ids.largest == expected[-1]
                if len(expected) > 4:  # more than any small table can hold
                    assert (ids.at_a_time is None) == (memory == 1 << 20)
            for chunk in chunks:
                found = ids.numbers(np.array(chunk, np.int64) * step)
                assert found.tolist() == [expected.index(value * step) for value in chunk]


TABLES = {
    "numbers": "a.txt",
    "weights": "a.csv",
    "populations": "b.csv",
}


def table(name: str, rng: np.random.Generator) -> str:
    ends = rng.integers(0, 400, (600, 2)) * 977
    if name == "numbers":
        return "".join(f"{u} {v}\n" for u, v in ends.tolist())
    if name == "weights":
        weights = rng.integers(1, 99, 600) / 8
        rows = zip(ends.tolist(), weights.tolist(), strict=True)
        return "source,target,weight\n" + "".join(f"{u},{v},{w}\n" for (u, v), w in rows)
    groups = rng.integers(0, 3, (600, 2))
    rows = np.column_stack([ends, groups]).tolist()
    head = "source_node_id,target_node_id,source_population,target_population\n"
    return head + "".join(f"{u},{v},{g},{h}\n" for u, v, g, h in rows)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", TABLES)
def test_networks_with_ids_on_disk_are_equal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 1024)
    source = tmp_path / TABLES[name]
    source.write_text(table(name, np.random.default_rng(5)))
    spilled = count_spills(monkeypatch)
    whole, parts = tmp_path / "whole.bin", tmp_path / "parts.bin"
    import_network(source, whole, memory=1 << 22)
    assert spilled == []
    import_network(source, parts, memory=1 << 12)
    assert len(spilled) > 3
    assert whole.read_bytes() == parts.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [source.name, "whole.bin", "parts.bin"]
    )


def count_spills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    spilled: list[int] = []
    spill: Callable[[DistinctIds], None] = DistinctIds._spill

    def counted(ids: DistinctIds) -> None:
        spilled.append(1)
        spill(ids)

    monkeypatch.setattr(DistinctIds, "_spill", counted)
    return spilled


@pytest.mark.usefixtures("_small")
def test_size_line_with_ids_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 64)
    rows = "".join(f"{i} {(i + 1) % 90}\n" for i in range(90)) + "5 9\n" * 30
    source = tmp_path / "a.txt"
    for first, synapses in (("90 120\n", 120), ("91 120\n", 121)):
        source.write_text(first + rows)
        meta = import_network(source, tmp_path / "net.bin", memory=1 << 10)
        assert meta.synapses_read == synapses
