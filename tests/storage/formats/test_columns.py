"""Choice of table columns: by name, by position, or by option."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats import import_network, recognise
from storage.formats.columns import (
    ColumnNames,
    choose_columns,
    name_columns,
    number_columns,
    parse_columns,
    said,
)
from storage.formats.text.heading import names_columns, names_in
from tests.storage.formats.conftest import attributes_of, edges_of, meta_of, put

Convert = Callable[..., Path]
Refuse = Callable[..., str]


def chosen(names: str, **wanted: str) -> dict[str, Any]:
    columns = choose_columns(names.split(","), "a.csv", ColumnNames(**wanted))
    found: dict[str, Any] = columns.facts["columns"]
    return found


@pytest.mark.parametrize(
    ("names", "source", "target", "weight"),
    [
        ("source,target", "source", "target", None),
        ("a,b", "a", "b", None),
        ("a,b,c", "a", "b", "c"),
        ("strength,to,from", "from", "to", "strength"),
        ("i,j,weight,delay", "i", "j", "weight"),
        ("source,target,delay", "source", "target", None),
        (",source,target", "source", "target", None),
        ("Unnamed: 0,source,target,strength", "source", "target", "strength"),
        ("pre,post,layer,count", "pre", "post", "count"),
        ("Pre ID,Post-ID,Syn Count", "Pre ID", "Post-ID", "Syn Count"),
        ("FromNodeId,ToNodeId", "FromNodeId", "ToNodeId", None),
    ],
)
def test_default_choice(names: str, source: str, target: str, weight: str | None) -> None:
    expected = {"source": source, "target": target}
    assert chosen(names) == (expected if weight is None else {**expected, "weight": weight})


@pytest.mark.parametrize(
    "names",
    [
        "pre_pop,pre,post_pop,post",
        "source_pop,source,target_pop,target",
        "source_population,source,target_population,target",
        "pre_population,pre,post_population,post",
        "pop_pre,pre,pop_post,post",
        "presynaptic_population,presynaptic,postsynaptic_population,postsynaptic",
        "source_layer,source,target_layer,target",
        "Source Population,Source,Target Population,Target",
    ],
)
def test_populations(names: str) -> None:
    group, source, other, target = names.split(",")
    expected = {
        "source": source, "target": target, "source-population": group, "target-population": other
    }  # fmt: skip
    assert chosen(names) == expected
    assert chosen(f"{names},strength") == {**expected, "weight": "strength"}
    assert chosen(names, source_population="-", target_population="-", weight="-") == {
        "source": source, "target": target
    }  # fmt: skip


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("pop_a,id_a,pop_b,id_b,weight", "which are source and target? Name them: --columns"),
        ("pre_pop,pre,post,weight", "pre_pop is the population of only one end; name both"),
        ("pre,post_population,post,weight", "post_population is the population of only one end"),
        ("population,pre,post,weight", "population is the population of which end? Name both"),
        (
            "pre_pop,pre_layer,pre,post_pop,post",
            "pre_pop, pre_layer are candidates for the population",
        ),
        ("source,target,delay,x,y", "5 columns, none called weight"),
        ("pre_pop,post_pop,w", "a.csv: columns are pre_pop, post_pop, w; name source and"),
    ],
)
def test_ambiguous_columns_are_refused(names: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        chosen(names)
    assert message in str(caught.value)


def test_columns_named_by_the_user() -> None:
    names = "cell,area,other cell,other area,delay,n"
    wanted = {"source": "cell", "target": "other cell", "weight": "n"}
    areas = {"source_population": "area", "target_population": "other area"}
    assert chosen(names, **wanted) == wanted
    assert chosen(names, **wanted, **areas) == {
        **wanted, "source-population": "area", "target-population": "other area"
    }  # fmt: skip
    shared = {"source_population": "population", "target_population": "population"}
    assert chosen("population,pre,post", **shared) == {
        "source": "pre", "target": "post",
        "source-population": "population", "target-population": "population",
    }  # fmt: skip
    with pytest.raises(BadInputError, match="area is the population of only one end"):
        chosen(names, **wanted, source_population="area")
    with pytest.raises(BadInputError, match="name source and target"):
        chosen(names, **wanted, source_population="cell", target_population="area")


def test_columns_by_number() -> None:
    assert number_columns(3, "").facts["columns"] == {"source": 1, "target": 2, "weight": 3}
    wanted = ColumnNames(source="2", target="1", weight="4")
    assert number_columns(5, "", wanted).facts == {
        "columns": {"source": 2, "target": 1, "weight": 4}, "columns_ignored": [3, 5]
    }  # fmt: skip
    with pytest.raises(BadInputError, match="columns are 1, 2, 3; none is '4'"):
        number_columns(3, "", ColumnNames(weight="4"))
    with pytest.raises(BadInputError, match="6 columns without names; give 2"):
        number_columns(6, "")


def test_columns_option() -> None:
    names = parse_columns("source=a,b,target=c=d", ColumnNames(weight="-"))
    assert names == ColumnNames("a,b", "c=d", "-")
    assert parse_columns("target-population=x").target_population == "x"
    for text in ("a", "source", "source=", "colour=a", "source=a,source=b"):
        with pytest.raises(ValueError, match=r"is not ROLE=NAME|is named twice"):
            parse_columns(text)
    with pytest.raises(ValueError, match="weight is named twice"):
        parse_columns("weight=a", names)
    with pytest.raises(ValueError, match="'colour': 'a'; give names by source, "):
        name_columns({"colour": "a"})


def test_note_on_columns() -> None:
    columns = choose_columns(["", "pre", "post", "delay", "w\x1b"], "", ColumnNames(weight="w\x1b"))
    assert said(columns.facts) == (
        "columns used: pre (source), post (target), w\\x1b (weight); ignored: one unnamed, delay"
    )
    assert said(number_columns(2, "").facts) == (
        "columns used: 1 (source), 2 (target); every row weighs 1"
    )
    assert said({"format": "metis"}) is None


def test_comments_that_name_columns() -> None:
    pynn = ["# columns = ['i', 'j', 'weight', 'delay']"]
    assert names_in(pynn, 4) == ["i", "j", "weight", "delay"]
    assert names_in(['# columns = ("i", "j", "delay")'], 3) == ["i", "j", "delay"]
    one = f"# columns = {['i', 'j', *'weight']}"
    assert names_in([one], 3) == ["i", "j", "weight"]
    assert names_in(["# source target weight", "# units: nS"], 3) == ["source", "target", "weight"]
    assert names_in(["# source,target,delay (ms)"], 3) == ["source", "target", "delay (ms)"]
    assert names_in(["# source target weight", "# made by me"], 2) is None
    assert names_in(["# edges from a to b"], 2) is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"# source target weight delay\n1 2 0.5 1\n", True),
        (b"# NEST\n# source\ttarget\n1\t2\n", True),
        (b"source,target\n0,1\n", True),
        (b"# from one to another\n1 2\n", False),
        (b"12\n\n0 1\n", False),
        (b"# source target\n", False),
    ],
)
def test_detection_by_column_names(content: bytes, expected: bool, tmp_path: Path) -> None:
    assert names_columns(content) is expected
    (tmp_path / "a.dat").write_bytes(content)
    assert recognise(tmp_path / "a.dat").name == ("edgelist" if expected else "qaplib")


LOCAL = [  # population and id of source and target, weight
    ("exc", 0, "exc", 1, 1.0),
    ("exc", 0, "inh", 0, 2.0),
    ("inh", 0, "exc", 7, 3.0),
    ("inh", 1, "inh", 0, 4.0),
    ("exc", 7, "inh", 1, 5.0),
]
NEURONS = [("exc", 0), ("exc", 1), ("exc", 7), ("inh", 0), ("inh", 1)]
LOCAL_EDGES = {
    (NEURONS.index((a, i)), NEURONS.index((b, j))): w for a, i, b, j, w in LOCAL
}  # fmt: skip
HEAD = "pre_pop, pre, post_pop, post, weight"


def table(mark: str = ",", head: str = HEAD, rows: Any = LOCAL) -> str:
    lines = [mark.join(map(str, row)) for row in rows]
    return "\n".join([head.replace(", ", mark), *lines, ""])


def parquet(**options: Any) -> bytes:
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    columns = dict(zip(HEAD.split(", "), map(list, zip(*LOCAL, strict=True)), strict=True))
    content = arrow.table(columns)
    for name in ("pre_pop", "post_pop") if options.get("encoded") else ():
        place = content.column_names.index(name)
        content = content.set_column(place, name, content[name].dictionary_encode())
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(content, stream)
    return stream.getvalue()


TABLES: dict[str, Callable[[], str | bytes]] = {
    "a.csv": table,
    "a.csv.gz": table,
    "a.tsv": lambda: table("\t"),
    "a.txt": lambda: table(" "),
    "a.parquet": parquet,
    "b.parquet": lambda: parquet(encoded=True),
}


@pytest.mark.parametrize("name", TABLES)
def test_ids_per_population(name: str, tmp_path: Path) -> None:
    """A neuron is an id in a population; neurons are numbered in order of appearance."""
    put(tmp_path / name, TABLES[name]())
    meta = import_network(tmp_path / name, tmp_path / "net.bin")
    assert meta.neurons == len(NEURONS)
    assert edges_of(tmp_path / "net.bin") == LOCAL_EDGES
    assert attributes_of(tmp_path / "net.bin") == {
        "id": [i for _, i in NEURONS], "population": [0, 0, 0, 1, 1]
    }  # fmt: skip
    assert meta.attributes["population"].labels == ["exc", "inh"]
    assert meta.provenance["columns"]["target-population"] == "post_pop"


def test_numeric_populations(converted: Convert) -> None:
    """Numeric populations are sorted in increasing order."""
    codes = {"exc": 12, "inh": 3}
    rows = [(codes[a], i, codes[b], j, w) for a, i, b, j, w in LOCAL]
    path = converted("a.csv", table(rows=rows))
    place = [2, 3, 4, 0, 1]  # positions of the neurons above
    assert edges_of(path) == {(place[a], place[b]): w for (a, b), w in LOCAL_EDGES.items()}
    assert attributes_of(path) == {"id": [0, 1, 0, 1, 7], "population": [0, 0, 1, 1, 1]}
    assert meta_of(path).attributes["population"].labels == ["3", "12"]


def test_names_in_populations(converted: Convert) -> None:
    rows = [("exc", "a", "inh", "b"), ("inh", "b", "inh", "a"), ("inh", "a", "exc", "b")]
    path = converted("a.csv", table(head=HEAD.removesuffix(", weight"), rows=rows))
    assert edges_of(path) == {(0, 3): 1, (3, 2): 1, (2, 1): 1}
    assert meta_of(path).attributes["id"].labels == ["a", "b"]
    assert attributes_of(path) == {"id": [0, 1, 0, 1], "population": [0, 0, 1, 1]}


@pytest.mark.parametrize("text", [True, False])
def test_populations_against_python(
    text: bool, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.formats.text.reader.CHUNK_BYTES", 256)
    monkeypatch.setattr("storage.formats.text.namedtable.SPLIT_BYTES", 256)
    rng = np.random.default_rng(5)
    groups = [f"p{i}" if text else str(i) for i in (30, 4, 100, 7)]
    ids = rng.integers(0, 2**62, 6).tolist()
    rows = [
        (groups[a], ids[i], groups[b], ids[j], w)
        for a, i, b, j, w in zip(
            *(rng.integers(0, n, 300).tolist() for n in (4, 6, 4, 6, 9)), strict=True
        )
    ]
    order = list(dict.fromkeys(g for row in rows for g in row[:3:2]))
    if not text:
        order.sort(key=int)
    neurons = sorted(
        {(row[k], row[k + 1]) for row in rows for k in (0, 2)},
        key=lambda n: (order.index(n[0]), n[1]),
    )
    place = {neuron: i for i, neuron in enumerate(neurons)}
    expected: dict[tuple[int, int], float] = {}
    for a, i, b, j, w in rows:
        if (a, i) != (b, j):
            pair = place[a, i], place[b, j]
            expected[pair] = expected.get(pair, 0) + w
    path = converted("a.csv", table(rows=rows))
    assert edges_of(path) == expected
    found = attributes_of(path)
    assert list(zip(found["population"], found["id"], strict=True)) == [
        (order.index(group), number) for group, number in neurons
    ]


def test_global_ids_with_population_columns(converted: Convert) -> None:
    names = ColumnNames(source_population="-", target_population="-")
    path = converted("a.csv", table(), extra={"columns": names})
    assert attributes_of(path) == {"id": [0, 1, 7]}
    assert meta_of(path).provenance["columns_ignored"] == ["pre_pop", "post_pop"]


def test_faults_of_populations(refused: Refuse) -> None:
    rows = [LOCAL[0], ("", 0, "x", 1, 1)]
    assert "line 3: a value is missing" in refused("a.csv", table(rows=rows))
    assert "line 2: -3 is negative" in refused("a.csv", table(rows=[(-3, 0, 1, 1, 1)]))
    one = table(head="pre_pop, pre, post, weight", rows=[("exc", 0, 1, 2)])
    assert "line 1: pre_pop is the population of only one end" in refused("a.csv", one)
