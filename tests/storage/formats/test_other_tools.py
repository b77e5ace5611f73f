"""Connections saved by other tools: networkx, NEST, PyNN, Brian 2, pandas and R."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.formats.columns import ColumnNames
from storage.formats.losses import WEIGHTS_MISSING, WEIGHTS_NEGATIVE
from storage.formats.text import edgedata
from storage.formats.text.edgedata import EdgeData, holds_data
from tests.storage.formats.conftest import attributes_of, edges_of, meta_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]

EDGES = {(0, 1): 0.5, (1, 2): 3.0, (2, 0): 120.0}
ENDS = np.array(list(EDGES)).T
WEIGHTS = np.array(list(EDGES.values()))


def used(path: Path) -> list[str]:
    """Return the columns that were used, then the ignored ones."""
    provenance = meta_of(path).provenance
    return [*map(str, provenance["columns"].values()), *provenance["columns_ignored"]]


@pytest.mark.parametrize("delimiter", [" ", ",", "\t"])
@pytest.mark.parametrize(
    ("data", "columns"),
    [(True, ["1", "2", "weight", "delay"]), (["weight"], ["1", "2", "3"]), (False, ["1", "2"])],
)
def test_networkx(data: Any, columns: list[str], delimiter: str, converted: Convert) -> None:
    nx = pytest.importorskip("networkx", reason="no networkx")
    graph = nx.DiGraph()
    for (a, b), w in EDGES.items():
        graph.add_edge(a, b, delay=1, weight=w)
    stream = io.BytesIO()
    nx.write_edgelist(graph, stream, data=data, delimiter=delimiter)
    path = converted("a.edgelist", stream.getvalue())
    assert edges_of(path) == (EDGES if data else dict.fromkeys(EDGES, 1.0))
    assert used(path) == columns


def test_networkx_weighted_edgelist(converted: Convert) -> None:
    nx = pytest.importorskip("networkx", reason="no networkx")
    graph = nx.from_edgelist(EDGES, create_using=nx.DiGraph)
    nx.set_edge_attributes(graph, {pair: {"weight": w} for pair, w in EDGES.items()})
    stream = io.BytesIO()
    nx.write_weighted_edgelist(graph, stream)
    assert edges_of(converted("a.txt", stream.getvalue())) == EDGES


@pytest.mark.parametrize("piece", [16, 1 << 20])
def test_data_of_edges(piece: int, converted: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edgedata, "READ_BYTES", piece)
    text = (
        "# made by hand\n30 7 {}\n\n7 100 {'weight': -2.5e0, 'type': '{exc} #1'}\n"
        "100 30 {'weight': np.float64(0.5)}\n  7  30  {'weight': 4} \n30 100 {'w': 3}\n"
    )
    path = converted("a.edgelist", text)
    assert edges_of(path) == {(1, 0): 1, (0, 2): 2.5, (2, 1): 0.5, (0, 1): 4, (1, 2): 3}
    assert attributes_of(path) == {"id": [7, 30, 100]}
    provenance = meta_of(path).provenance
    assert provenance["columns"] == {"source": 1, "target": 2, "weight": "w, weight"}
    assert provenance["columns_ignored"] == ["type"]
    assert (provenance[WEIGHTS_MISSING], provenance[WEIGHTS_NEGATIVE]) == (1, 1)
    only = converted("a.edgelist", text, extra={"columns": ColumnNames(weight="w")})
    assert edges_of(only) == {(1, 0): 1, (0, 2): 1, (2, 1): 1, (0, 1): 1, (1, 2): 3}
    none = converted("a.edgelist", text, extra={"columns": ColumnNames(weight="-")})
    assert set(edges_of(none).values()) == {1}
    assert used(none) == ["1", "2", "type", "w", "weight"]


def test_data_of_edges_between_names(converted: Convert) -> None:
    path = converted("a.txt", "AVAL AVAR {}\nAVAR I1 {}\n")
    assert edges_of(path) == {(0, 1): 1, (1, 2): 1}
    assert meta_of(path).attributes["id"].labels == ["AVAL", "AVAR", "I1"]
    assert WEIGHTS_MISSING not in meta_of(path).provenance


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 {}\n0 {}\n", "line 2: '0 {}' is not an edge with data like the first"),
        ("0 1 {}\n0 1 2\n", "line 2: '0 1 2' is not an edge with data"),
        ("0 1 {}\n0 1 {'a': b}\n", "line 2: {'a': b} is not a dictionary of numbers and text"),
        ("0 1 {1, 2}\n", "line 1: {1, 2} is not a dictionary"),
        ("0 1 {'weight': 'x'}\n", "line 1: {'weight': 'x'} has no finite number for weight"),
        ("0 1 {'weight': 1e999}\n", "has no finite number for weight"),
        ("0 1 {'weight': None}\n", "has no finite number for weight"),
        ("0 1 {'weight': " + "9" * 999 + "}\n", "has no finite number for weight"),
        ("0 1 {'a': " + "(" * 9999 + "}\n", "is not a dictionary of numbers and text"),
        ("0 1 {'weight': " + "1" * 60_000 + "x}\n", "is not a dictionary of numbers and text"),
        ("0 1 {'a': " + "-" * 60_000 + "1}\n", "is not a dictionary of numbers and text"),
        ("0,1,{}\n" + " " * 60_000 + "{}\n", "is not an edge with data like the first"),
        ("0 1 {" + "'a': 1, " * 10_000 + "}\n", "is not a dictionary of numbers and text"),
        ("0 1 {__import__('os').getcwd(): 1}\n", "is not a dictionary of numbers and text"),
    ],
)
def test_faults_of_data(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.edgelist", text)


def test_lines_with_data() -> None:
    for line in ("0 1 {}", "0,1,{'a': 1}", "a\tb\t{}", " 0 , 1 {} "):
        assert holds_data(line)
    for line in ("0 1 2", "{}", "0 {}", "0 1 2 {}", "0 1 {", "source target {x} y"):
        assert not holds_data(line)


def test_weights_of_edge_data() -> None:
    data = EdgeData(None)
    assert data.weights(["{}", "{'weight': .5}", "{'count': 3, 'weight': 4}"]).tolist() == [
        1, 0.5, 4
    ]  # fmt: skip
    assert data.facts(1, 2)["columns_ignored"] == ["count"]


def saved_text(array: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.savetxt(stream, array, **options)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["a.dat", "a.txt", "conns", "a.dat.gz"])
@pytest.mark.parametrize("delimiter", [" ", "\t", ","])
def test_nest(name: str, delimiter: str, converted: Convert) -> None:
    """GetConnections saved with numpy.savetxt: the names are in a comment."""
    table = np.column_stack((*ENDS + 1, WEIGHTS, np.full(3, 1.5)))
    header = delimiter.join(("source", "target", "weight", "delay"))
    path = converted(name, saved_text(table, header=header, delimiter=delimiter))
    assert edges_of(path) == EDGES
    assert attributes_of(path) == {"id": [1, 2, 3]}
    assert used(path) == ["source", "target", "weight", "delay"]


def test_nest_layers(converted: Convert, refused: Refuse, tmp_path: Path) -> None:
    """DumpLayerConnections writes source, target, weight, delay and positions, without names."""
    text = "1 2 0.5 1.5 -0.25 0\n2 3 3 1.5 0.5 0\n3 1 120 1.5 0 1\n"
    assert "6 columns without names; give 2 (source" in refused("a.txt", text)
    (tmp_path / "a.txt").unlink()
    wanted = ColumnNames(source="1", target="2", weight="3")
    assert edges_of(converted("a.txt", text, extra={"columns": wanted})) == EDGES


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["i", "j", "weight", "delay"], ["i", "j", "weight", "delay"]),
        (["i", "j", "delay", "weight"], ["i", "j", "weight", "delay"]),
        (["i", "j", *"weight"], ["i", "j", "weight"]),
    ],
)
def test_pynn(names: list[str], columns: list[str], converted: Convert) -> None:
    """A StandardTextFile: `# columns = [...]`, then numpy.savetxt separated by tabs."""
    values = {"i": ENDS[0], "j": ENDS[1], "weight": WEIGHTS, "delay": np.full(3, 0.1)}
    order = names if len(names) == 4 else ["i", "j", "weight"]
    table = np.column_stack([values[name] for name in order])
    content = f"# columns = {names}\n".encode() + saved_text(table, delimiter="\t")
    for name in ("a.txt", "a.conn"):
        path = converted(name, content)
        assert edges_of(path) == EDGES
        assert used(path) == columns
        (path.parent / name).unlink()


def test_pynn_archive(refused: Refuse) -> None:
    """A NumpyBinaryFile stores its column names as a pickle, which is not read."""
    stream = io.BytesIO()
    names = np.array([("columns", ["i", "j", "weight"])], dtype=object)
    np.savez(stream, data=np.zeros((3, 3)), metadata=names)
    assert "a PyNN file" in refused("a.npz", stream.getvalue())


@pytest.mark.parametrize(
    "names", [("i", "j", "w"), ("pre", "post", "weight"), ("source", "target", "w")]
)
@pytest.mark.parametrize("more", [{}, {"delay": np.ones(3)}, {"neurons": 5}])
def test_brian(names: tuple[str, ...], more: dict[str, Any], converted: Convert) -> None:
    """numpy.savez(path, i=synapses.i, j=synapses.j, w=synapses.w), and the same data as csv."""
    ends = ENDS.astype(np.int32)
    arrays = dict(zip(names, (*ends, -WEIGHTS), strict=True))
    stream = io.BytesIO()
    np.savez(stream, **arrays, **more)
    path = converted("a.npz", stream.getvalue())
    assert edges_of(path) == EDGES
    assert used(path) == [*names, *(["delay"] if "delay" in more else [])]
    assert meta_of(path).neurons == more.get("neurons", 3)
    assert meta_of(path).provenance[WEIGHTS_NEGATIVE] == 3
    (path.parent / "a.npz").unlink()
    lines = [",".join(names), *(f"{a},{b},{w}" for (a, b), w in EDGES.items())]
    path = converted("a.csv", "\n".join(lines))
    assert edges_of(path) == EDGES
    assert used(path) == list(names)


def test_arrays_by_other_names(converted: Convert, refused: Refuse, tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, a=ENDS[0], b=ENDS[1], strength=WEIGHTS)
    message = refused("a.npz", stream.getvalue())
    assert "holds a, b, strength; it must be a scipy.sparse matrix" in message
    (tmp_path / "a.npz").unlink()
    wanted = ColumnNames(source="a", target="b", weight="strength")
    assert edges_of(converted("a.npz", stream.getvalue(), extra={"columns": wanted})) == EDGES


def test_arrays_with_populations(converted: Convert, refused: Refuse, tmp_path: Path) -> None:
    stream = io.BytesIO()
    groups = {"pre_pop": np.zeros(3, int), "post_pop": np.ones(3, int)}
    np.savez(stream, pre=ENDS[0], post=ENDS[1], weight=WEIGHTS, **groups)
    assert "arrays pre_pop, post_pop: ids per population need a table" in refused(
        "a.npz", stream.getvalue()
    )
    (tmp_path / "a.npz").unlink()
    wanted = ColumnNames(source_population="-", target_population="-")
    assert edges_of(converted("a.npz", stream.getvalue(), extra={"columns": wanted})) == EDGES


@pytest.mark.parametrize("mark", ["\t", " "])
@pytest.mark.parametrize("kind", [[], ["kind"]])
def test_numbered_rows(mark: str, kind: list[str], converted: Convert) -> None:
    """pandas.DataFrame.to_csv(sep="\\t") and write.table of R: one name fewer than columns."""
    lines = [mark.join(["source", "target", "weight", *kind])]
    for row, ((a, b), w) in enumerate(EDGES.items()):
        lines.append(mark.join([str(row), str(a), str(b), str(w), *(["exc"] if kind else [])]))
    for head in (lines[0], mark + lines[0]):
        path = converted("a.tsv", "\n".join([head, *lines[1:]]))
        assert edges_of(path) == EDGES
        assert used(path) == ["source", "target", "weight", "", *kind]
        (path.parent / "a.tsv").unlink()
