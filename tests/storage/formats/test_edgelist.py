"""Edge lists: separators, headers, sparse ids, faults, real files."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.formats import distinct, import_network
from storage.formats.distinct import _insert, _look_up, _number, _place
from storage.formats.text import reader as text_module
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "source,target,synapses\n10,30,2\n30,20,5\n"),
        ("a.csv", '"pre","post","w"\n"10","30","2"\n30,20,5'),
        ("a.csv", "synapses;to;from\n2;30;10\n5;20;30\n"),
        ("a.csv", "pre,post,layer,count\n10,30,1,2\n30,20,1,5\n"),
        ("a.tsv", "10\t30\t2\n30\t20\t5.0\n"),
        ("a.txt", "# from to\n% more\n10 30 2\n\n  30   20 5 # last\n"),
        ("a.txt.gz", "10 30 2\r\n30 20 5\r\n"),
        ("a.edges", "\ufeff10;30;2\n30;20;5\n"),
    ],
)
def test_same_network(name: str, text: str, converted: Convert) -> None:
    path = converted(name, text)
    assert edges_of(path) == {(0, 2): 2, (2, 1): 5}
    assert attributes_of(path) == {"id": [10, 20, 30]}


def test_decimal_weights_and_repeats(converted: Convert) -> None:
    path = converted("a.csv", "0,1,0.25\n1,0,3\n0,1,0.5\n1,1,7\n")
    assert edges_of(path) == {(0, 1): 0.75, (1, 0): 3.0}
    with NetworkFile(path) as net:
        assert (net.meta.synapses_read, net.meta.self_loops, net.meta.repeated) == (4, 1, 1)


def test_ids_up_to_the_largest(converted: Convert) -> None:
    path = converted("a.txt", f"{2**63 - 1} 0\n")
    assert edges_of(path) == {(1, 0): 1}
    assert attributes_of(path) == {"id": [0, 2**63 - 1]}


@pytest.mark.parametrize("high", [50, 10**15])
def test_many_chunks(high: int, converted: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 64)
    monkeypatch.setattr(distinct, "SMALLEST_TABLE", 2)
    rng = np.random.default_rng(3)
    rows = rng.integers(0, high, (200, 2)).tolist()
    path = converted("a.csv", "".join(f"{a},{b}\n" for a, b in rows))
    ids = sorted({end for row in rows for end in row})
    expected: dict[tuple[int, int], float] = {}
    for a, b in rows:
        if a != b:
            pair = (ids.index(a), ids.index(b))
            expected[pair] = expected.get(pair, 0) + 1
    assert attributes_of(path)["id"] == ids
    assert edges_of(path) == expected


def test_size_line(converted: Convert) -> None:
    path = converted("a.txt", "4 5\n0 1\n1 2\n2 3\n3 0\n0 2\n")
    assert len(edges_of(path)) == 5
    assert attributes_of(path)["id"] == [0, 1, 2, 3]


@pytest.mark.parametrize("text", ["4 3\n0 1\n1 2\n2 3\n", "9 2\n0 1\n1 5\n", "7 8\n"])
def test_no_size_line(text: str, converted: Convert) -> None:
    assert len(edges_of(converted("a.txt", text))) == text.count("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty"),
        ("# nothing\n", ": no neurons"),
        ("source,target\n", ": no neurons"),
        ("1,2\n3,4,5\n", "line 2: 3 columns instead of 2"),
        ("1,2,3\n3,4\n", "line 2: 2 columns instead of 3"),
        ("1,2,3,4\n", "line 1: 4 columns without names"),
        ("1\n", "line 1: 1 columns without names"),
        ("a,b,c,d\n1,2,3,4\n", "line 1: columns are a, b, c, d; which are source and"),
        ("source,ta\rrget\n1,2\n", "line 1: a CR that is not the end of a line; repair it"),
        (",".join("abcdefghijk") + "\n", "line 1: 11 columns, none called weight"),
        ("x" * 99 + "\n1\n", f"columns are {'x' * 24}...; name source and target"),
        ("id\n1\n", "line 1: columns are id; name source and target"),
        ("1,2\n-3,4\n", "line 2: -3 is negative"),
        ("1,2\n1.5,4\n", "line 2: 1.5 is not a whole number"),
        ("1,2\n9223372036854775808,4\n", "is not a whole number below 2^63"),
        ("1,2,nan\n", "line 1: nan is not a finite number"),
        ("1,2,3\n1,2,NaN\n", "line 2: NaN is not a finite number"),
        ("1,2,3\n\n1,2,1e999\n", "line 3: 1e999 is too large"),
        ("1,2\nx,4\n", "line 2: 'x' is not a number"),
        ("1,,2\n", "line 1: a value is missing"),
    ],
)
def test_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.csv", text)


def test_endless_line(refused: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 16)
    assert "longer than 2 MB" in refused("a.txt", "1 2\n" + "3 4 " * 40_000)


def test_truncated_gzip(refused: Refuse) -> None:
    packed = gzip.compress(b"".join(b"%d %d\n" % (i, i * i % 977) for i in range(999)))[:-200]
    assert "truncated or damaged" in refused("a.csv", packed)


@pytest.mark.jit
def test_larva(data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "connectomes" / "larva_subset_edgelist.csv"
    meta = import_network(source, tmp_path / "net.bin")
    with source.open() as file:
        rows = [tuple(map(int, row)) for row in csv.reader(file) if row[0].isdigit()]
    ids = sorted({end for row in rows for end in row[:2]})
    pairs = {(a, b) for a, b, _ in rows if a != b}
    assert (meta.neurons, meta.synapses, meta.synapses_read) == (len(ids), len(pairs), len(rows))
    assert meta.self_loops == sum(a == b for a, b, _ in rows)
    assert meta.total_weight == sum(w for a, b, w in rows if a != b)
    assert attributes_of(tmp_path / "net.bin")["id"] == ids


@pytest.mark.jit
def test_facebook(data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "graphs" / "facebook_combined.txt.gz"
    meta = import_network(source, tmp_path / "net.bin")
    with gzip.open(source, "rt") as file:
        rows = [tuple(map(int, line.split())) for line in file]
    assert rows[0] == (len({end for row in rows[1:] for end in row}), len(rows) - 1)
    assert (meta.neurons, meta.synapses) == (rows[0][0], len(set(rows[1:])))


PATTERN = st.sampled_from([1, 2**20, 2**40 - 1])


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 2**22), max_size=20), max_size=4), PATTERN)
def test_id_table(chunks: list[list[int]], step: int) -> None:
    chunks = [[step * value for value in chunk] for chunk in chunks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distinct, "SMALLEST_TABLE", 2)
        table = distinct.IdTable()
    for chunk in chunks:
        table.add(np.array(chunk, np.int64))
    expected = sorted({value for chunk in chunks for value in chunk})
    ids = table.sorted()
    assert ids.tolist() == expected
    assert table.size == len(expected)
    table.number(ids)
    for chunk in chunks:
        found = table.numbers(np.array(chunk, np.int64))
        assert found.tolist() == [expected.index(value) for value in chunk]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 99), unique=True, max_size=15), st.integers(0, 15))
def test_id_table_kernels(ids: list[int], room: int) -> None:
    """A dictionary is the reference implementation."""
    table, numbers = np.full(32, -1, np.int64), np.zeros(32, np.int32)
    given_ids = np.array(ids, np.int64)
    with np.errstate(over="ignore"):
        fresh, seen = _insert(table, given_ids, room)
        twin = {value: i for i, value in enumerate(ids[:room])}
        assert (fresh, seen) == (len(twin), min(room, len(ids)))
        assert sorted(table[table >= 0].tolist()) == sorted(twin)
        assert all(table[_place(table, value)] == value for value in twin)
        assert all(table[_place(table, value)] == -1 for value in ids[room:])
        _number(table, numbers, given_ids[:room])
        out = np.zeros(len(twin), np.int32)
        _look_up(table, numbers, given_ids[:room], out)
    assert out.tolist() == list(twin.values())
