"""Text tables with names as ids or other text columns; columns named by the user."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, MemoryShortError
from storage.formats import import_network
from storage.formats.columns import ColumnNames, choose_columns
from storage.formats.names import NameTable
from storage.formats.text import namedtable
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]


def labels_of(path: Path) -> list[str] | None:
    with NetworkFile(path) as net:
        return net.attribute("id").labels


@pytest.mark.parametrize("piece", [8, 1 << 20])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "Source,Target,Weight,Type\nI1L , I2L   ,2,chemical\nI2L,AVAR,0.5,x\n"),
        ("a.csv", '"pre";"post";"type";"syn_count"\n"I1L";"I2L";"a b";2\n"I2L";"AVAR";;0.5'),
        ("a.tsv", "type\tto\tfrom\tNumber\r\nx\tI2L\tI1L\t2\r\n\r\ny\tAVAR\tI2L\t0.5\r\n"),
        (
            "a.txt.gz",
            "# C. elegans\npre post type synapses\nI1L\tI2L\tx\t2\n# no\nI2L AVAR y 5e-1\n",
        ),
    ],
)
def test_names(
    name: str, text: str, piece: int, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namedtable, "SPLIT_BYTES", piece)
    path = converted(name, text)
    assert edges_of(path) == {(0, 1): 2, (1, 2): 0.5}
    assert labels_of(path) == ["I1L", "I2L", "AVAR"]


def test_integer_ids_next_to_text_are_compacted_in_order(converted: Convert) -> None:
    path = converted("a.csv", "source,target,kind,weight\n30,7,exc,2\n7,100,inh,3\n")
    assert edges_of(path) == {(1, 0): 2, (0, 2): 3}
    assert attributes_of(path) == {"id": [7, 30, 100]}
    assert labels_of(converted("a.csv", "source,target\n30,7a\n007,7\n")) == [
        "30",
        "7a",
        "007",
        "7",
    ]


NAME = st.text("abcdeéß,;\"' 0189", min_size=1, max_size=4).map(str.strip).filter(bool)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=60)
@given(st.lists(st.tuples(NAME, NAME, st.integers(0, 99)), min_size=1, max_size=30), st.booleans())
def test_round_trip_of_any_names(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]], small: bool
) -> None:
    """Files of the csv module."""
    folder = tmp_path_factory.mktemp("names")
    stream = io.StringIO()
    csv.writer(stream).writerows([("source", "target", "w"), ("#\"'", "x", 1), *rows])
    (folder / "a.csv").write_text("source,target,w\nx,y,1\n" + stream.getvalue().split("\n", 2)[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(namedtable, "SPLIT_BYTES", 16 if small else 1 << 20)
        import_network(folder / "a.csv", folder / "net.bin", threads=1)
    names = list(dict.fromkeys(["x", "y", *(end for row in rows for end in row[:2])]))
    expected: dict[tuple[int, int], float] = {(0, 1): 1}
    for source, target, weight in rows:
        if source != target:
            pair = names.index(source), names.index(target)
            expected[pair] = expected.get(pair, 0) + weight
    assert labels_of(folder / "net.bin") == names
    assert edges_of(folder / "net.bin") == expected


HEAD = "source,target,weight,type\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "a,b,1,x\na,b,1\n", "line 3: 3 columns instead of 4"),
        (HEAD + "a,b,1,x\n\n# note\na,,1,x\n", "line 5: a value is missing"),
        (HEAD + "a,b,1,x\na,b,heavy,x\n", "line 3: weight 'heavy' is not a number"),
        (HEAD + "a,b,1,x\na,b,,x\n", "line 3: weight '' is not a number"),
        (HEAD + "a,b,nan,x\n", "line 2: weight nan is not a finite number"),
        (HEAD + 'a,b,1,"x\ny"\n', "line 2 or after: a quoted value continues on the next line"),
        ("a,b,x\nb,c,y\n", "line 1: text ids need a header line that names"),
        ("kind,name,class,group\nb,c,y,d\n", "columns are kind, name, class, group; which are"),
    ],
)
def test_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.csv", text)


@pytest.mark.parametrize("text", ["a,b,c,d\n5,x,3,9\n", "a,b,c,d\n5,1,3,9\n"])
def test_columns_named_by_the_user(text: str, converted: Convert) -> None:
    names = ColumnNames(source="D", target="a", weight="c")
    assert edges_of(converted("a.csv", text, extra={"columns": names})) == {(1, 0): 3}
    names = ColumnNames(source="d", target="a", weight="-")
    assert edges_of(converted("a.csv", text, extra={"columns": names})) == {(1, 0): 1}


@pytest.mark.parametrize(
    ("name", "text", "names", "message"),
    [
        ("a.csv", "a,b,c\n1,2,3\n", ColumnNames(source="x"), "columns are a, b, c; none is 'x'"),
        (
            "a.csv",
            "a,b,c\n1,2,3\n",
            ColumnNames(source="c"),
            "name the other one: --columns target=",
        ),
        ("a.csv", "a,b,c\n1,2,3\n", ColumnNames("a", "a"), "name source and target"),
        ("a.csv", "a,b,c\n1,2,3\n", ColumnNames("a", "b", "b"), "name source and target"),
        ("a.csv", "1,2,3\n", ColumnNames(weight="w"), "line 1: columns have no names"),
        (
            "a.graph",
            "2 1\n2\n1\n",
            ColumnNames("a"),
            "metis files do not take the option `columns`",
        ),
    ],
)
def test_wrong_names(
    name: str, text: str, names: ColumnNames, message: str, refused: Refuse
) -> None:
    assert message in refused(name, text, extra={"columns": names})


def test_usual_names_complete_a_given_one() -> None:
    names = ["weight", "post", "mine", "other"]
    assert choose_columns(names, "", ColumnNames(source="mine")).places == [2, 1, 0]
    with pytest.raises(BadInputError, match="none is 'theirs'"):
        choose_columns(names, "", ColumnNames(source="mine", weight="theirs"))


def test_name_table() -> None:
    table = NameTable(Path("a.csv"), 1 << 20)
    source, target = table.pairs(["b", "a"], ["c", "b"])
    assert (source.tolist(), target.tolist()) == ([0, 2], [1, 0])
    assert (table.number("d"), table.number("a"), len(table)) == (3, 2, 4)
    assert table.names() == ["b", "c", "a", "d"]
    assert "d" in table
    assert "e" not in table


@pytest.mark.heavy
def test_names_larger_than_memory_are_refused(tmp_path: Path) -> None:
    """The message states a sufficient size, extrapolated from the names read so far."""
    source = tmp_path / "a.csv"
    rows = "".join(f"neuron-{i:06d},neuron-{i + 1:06d}\n" for i in range(40_000))
    source.write_text("source,target\n" + rows)
    with pytest.raises(MemoryShortError) as error:
        import_network(source, tmp_path / "net.bin", memory=4 << 20)
    message = str(error.value)
    assert message.startswith(f"{source}: ")
    assert "different names in" in message
    assert list(tmp_path.iterdir()) == [source]
    enough = int(message.split()[-2].replace(",", "")) << 20
    assert import_network(source, tmp_path / "net.bin", memory=enough // 2).neurons == 40_001


def test_names_count_their_letters() -> None:
    short, long = NameTable(Path("a"), 1000), NameTable(Path("a"), 1000)
    short.pairs(["a", "b"], ["b", "a"])
    long.pairs(["a" * 99, "b" * 99], ["b" * 99, "a" * 99])
    assert long.bytes - short.bytes == 4 * 2 * 98
    assert short.left == 500
    assert long.left == 125  # always left for sorting
    short.require_memory(0.5)
    with pytest.raises(MemoryShortError):
        long.require_memory(0.5)


def test_worm(tmp_path: Path) -> None:
    """The connectome of C. elegans in the package `cect`, if installed."""
    found = importlib.util.find_spec("cect")
    if found is None or found.origin is None:
        pytest.skip("no connectome of C. elegans: pip install cect")
    source = Path(found.origin).parent / "data" / "herm_full_edgelist.csv"
    meta = import_network(source, tmp_path / "net.bin")
    with source.open() as file:
        rows = [[field.strip() for field in row] for row in csv.reader(file)][1:]
    pairs = {(row[0], row[1]) for row in rows if row[0] != row[1]}
    assert (meta.neurons, meta.synapses_read) == (448, 7379)
    assert (meta.synapses, meta.repeated) == (len(pairs), 7379 - len(pairs) - meta.self_loops)
    assert meta.total_weight == sum(int(row[2]) for row in rows if row[0] != row[1])
    assert labels_of(tmp_path / "net.bin") == list(dict.fromkeys(e for r in rows for e in r[:2]))
