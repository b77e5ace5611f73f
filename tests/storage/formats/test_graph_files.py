"""GML, GEXF, Pajek, node-link JSON and adjacency lists: values, names, directions and faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.formats import edgebuffer, recognise
from storage.formats.columns import ColumnNames
from storage.formats.graphs import adjlist, gexf, gml, mladj, nodelink, pajek
from storage.formats.losses import ASSUMED, WEIGHTS_MISSING, WEIGHTS_NEGATIVE
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of, labels_of, meta_of
from tests.storage.formats.samples import SAMPLES

Convert = Callable[..., Path]
Refuse = Callable[..., str]
MODULES = {"gml": gml, "gexf": gexf, "pajek": pajek, "adjlist": adjlist, "mladj": mladj,
           "nodelink": nodelink}  # fmt: skip


def names_of(path: Path) -> list[str] | None:
    with NetworkFile(path) as net:
        return net.attribute("id").labels


@pytest.mark.parametrize("piece", [7, 1 << 20])
@pytest.mark.parametrize("name", MODULES)
def test_pieces_of_any_size(
    name: str, piece: int, converted: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples give the same network if they are read a few bytes at a time."""
    monkeypatch.setattr(MODULES[name], "READ_BYTES", piece)
    monkeypatch.setattr(edgebuffer, "EDGES", 1)
    for sample in SAMPLES[name]:
        for ending in ("", ".gz"):
            path = converted(sample.name + ending, sample.make(tmp_path))
            meta = meta_of(path)
            assert (meta.neurons, meta.synapses) == (sample.neurons, sample.synapses)
            for file in tmp_path.iterdir():
                file.unlink()


GML = "graph [ directed 1 node [ id 4 {} ] node [ id 2 {} ] edge [ source 4 target 2 {} ] ]"


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ('label "a"', 'label "b"', ["a", "b"]),
        ('label "a"', 'label "a"', None),
        ('label "a"', "", None),
        ('name "x" label "a"', 'name "y" label "a"', ["x", "y"]),
        ('label "&#945;&amp;"', 'label "b]["', ["\u03b1&", "b]["]),
    ],
)
def test_gml_names(first: str, second: str, names: list[str] | None, converted: Convert) -> None:
    path = converted("a.gml", GML.format(first, second, "weight 2.5"))
    assert names_of(path) == names
    if names is None:
        assert attributes_of(path)["id"] == [4, 2]
    assert edges_of(path) == {(0, 1): 2.5}


def test_gml_data_of_nodes(converted: Convert) -> None:
    graphics = "graphics [ x 1.5 y -2 w 9 ]"
    path = converted(
        "a.gml", GML.format(f'population "e" size 3 {graphics}', f"{graphics} x 4", "value -2")
    )
    found = attributes_of(path)
    assert labels_of(path) == ["e", "none"]
    assert found["size"] == [3, 1]
    assert found["x"] == [1.5, 4]
    assert found["y"] == [-2, -2]
    meta = meta_of(path)
    assert (meta.provenance["columns"]["weight"], meta.provenance[WEIGHTS_NEGATIVE]) == ("value", 1)


def test_gml_weights(converted: Convert) -> None:
    for words, weight in (("weight 3 value 4", 3), ("load 5", 1), ("load 5 value 2", 2)):
        path = converted("a.gml", GML.format("", "", words))
        assert edges_of(path) == {(0, 1): weight}
    for name, weight in (("load", 5), ("-", 1)):
        extra = {"columns": ColumnNames(weight=name)}
        path = converted("a.gml", GML.format("", "", "load 5 value 2"), extra=extra)
        assert edges_of(path) == {(0, 1): weight}


def test_gml_of_old_drawings(converted: Convert) -> None:
    """Sizes that are not whole describe drawings; isolated and undirected nodes are kept."""
    text = "graph [ node [ id 1 size 2.5 ] node [ id 3 ] node [ id 9 ] edge [ source 3 target 1 ] ]"
    path = converted("a.gml", text)
    assert attributes_of(path) == {"id": [1, 3, 9]}
    meta = meta_of(path)
    assert (meta.undirected, meta.neurons, meta.synapses) == (True, 3, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph [ node [ id 1 ]", ": line 1: the file ends inside a list"),
        ("graph [\nnode [ label 1 ] ]", ": line 2: a node has no id"),
        ("graph [\nnode [ id 1 ] node [ id 1 ] ]", ": line 2: node '1' is declared twice"),
        ("graph [ edge [ source 1\ntarget 2 ] ]", ": line 2: an edge refers to node '1', which"),
        ("graph [ edge [ source 1 ] ]", ": line 1: a edge has no target"),
        ("graph [ ] graph [ ]", ": line 1: contains a second graph"),
        ("graph [ directed yes ]", ": line 1: directed is 'yes'; it must be 0 or 1"),
        ('graph [ label "x\n', ': line 1: a text has no closing "'),
        ("graph [ a ] ", ": line 1: key 'a' has no value"),
        ("graph [ [ ] ]", ": line 1: '[' is not a key"),
        ("Version 1\n", ": contains no graph"),
        ("graph [ " + "a [ " * 70, ": line 1: lists nested more than 64 deep"),
        (GML.format("", "", 'weight "big"'), ": line 1: an edge has no finite number for weight"),
        (GML.format("", "", "weight 1e999"), ": line 1: an edge has no finite number for weight"),
        (GML.format("size 9223372036854775807", "", ""), ": line 1: size 92233720368547758"),
    ],
)
def test_gml_faults(text: str, message: str, refused: Refuse) -> None:
    assert refused("a.gml", text).startswith(message)


def document(body: str, head: str = 'defaultedgetype="directed"', more: str = "") -> str:
    return (
        '<gexf xmlns="http://gexf.net/1.2" xmlns:viz="http://gexf.net/1.2/viz" version="1.2">'
        f"<graph {head}>{more}{body}</graph></gexf>"
    )


ENDS = '<nodes><node id="a" label="A"/><node id="b" label="B"/></nodes>'
ATTRIBUTES = (
    '<attributes class="edge"><attribute id="0" title="count" type="integer"/>'
    '<attribute id="1" title="note" type="string"/></attributes>'
    '<attributes class="node"><attribute id="0" title="size" type="integer">'
    "<default>2</default></attribute></attributes>"
)


def test_gexf_directions(converted: Convert) -> None:
    edges = (
        '<edges><edge source="a" target="b" weight="2"/>'
        '<edge source="b" target="a" type="{}" weight="3"/></edges>'
    )
    for kind, expected in (
        ("directed", {(0, 1): 2, (1, 0): 3}),
        ("undirected", {(0, 1): 5, (1, 0): 3}),
        ("mutual", {(0, 1): 5, (1, 0): 3}),
    ):
        assert edges_of(converted("a.gexf", document(ENDS + edges.format(kind)))) == expected
    path = converted("a.gexf", document(ENDS + edges.format("undirected"), ""))
    assert (meta_of(path).undirected, edges_of(path)) == (True, {(0, 1): 5})
    assert names_of(path) == ["a", "b"]
    with NetworkFile(path) as net:
        assert net.attribute("label").labels == ["A", "B"]


def test_gexf_attributes(converted: Convert) -> None:
    edge = (
        '<edge source="a" target="b"><attvalues><attvalue for="0" value="7"/>'
        '<attvalue for="1" value="x"/></attvalues></edge>'
    )
    nodes = (
        '<nodes><node id="a"><viz:size value="9.5"/><nodes><node id="b">'
        '<attvalues><attvalue id="0" value="5"/></attvalues></node></nodes></node></nodes>'
    )
    path = converted("a.gexf", document(nodes + f"<edges>{edge}</edges>", more=ATTRIBUTES))
    assert edges_of(path) == {(0, 1): 7}
    assert names_of(path) == ["a", "b"]
    assert attributes_of(path)["size"] == [2, 5]
    provenance = meta_of(path).provenance
    assert (provenance["columns"]["weight"], provenance["columns_ignored"]) == ("count", ["note"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<gexf><graph>", ": line 1: not valid XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><gexf/>', ": line 1: declares an entity; remove it"),
        ("<gexf></gexf>", ": line 1: contains no graph"),
        (document("", 'defaultedgetype="up"'), ": line 1: defaultedgetype is 'up'"),
        (document("<nodes><node/></nodes>"), ": line 1: a <node> has no id"),
        (document('<edges><edge source="a"/></edges>'), ": line 1: a <edge> has no target"),
        (document('<edge source="a" target="b"/>'), ": line 1: an edge refers to node 'a', which"),
        (document(ENDS + ENDS), ": line 1: node 'a' is declared twice"),
        (document(ENDS) .replace("</gexf>", "<graph/></gexf>"), ": line 1: contains a second"),
        (document('<edge source="a" target="b" weight="x"/>'), ": line 1: weight 'x' is not a fin"),
        (document('<edge source="a" target="b" type="x"/>'), ": line 1: the type of an edge is"),
        (
            document('<edge source="a" target="b" type="directed"/>', ""),
            ": line 1: a directed edge in an undirected graph",
        ),
    ],
)  # fmt: skip
def test_gexf_faults(text: str, message: str, refused: Refuse) -> None:
    assert refused("a.gexf", text).startswith(message)


PAJEK = '*Vertices 3\n1 "a b" 0.1 0.2\n2 c 0.5 0.1\n3 "é" 0 0\n'


@pytest.mark.parametrize(
    ("sections", "undirected", "expected"),
    [
        ("*Arcs\n1 2 2.5\n3 1\n", False, {(0, 1): 2.5, (2, 0): 1}),
        ("*Edges\n1 2 2.5\n3 1\n", True, {(0, 1): 2.5, (0, 2): 1}),
        ("*Arcs\n*Edges\n1 2 2.5\n", True, {(0, 1): 2.5}),
        ("*arcs\n1 2\n*EDGES\n2 3 4\n", False, {(0, 1): 1, (1, 2): 4, (2, 1): 4}),
        ('*Arcs :1 "x"\n1 2 1\n*Arcs :2 "y"\n1 2 4 c Red\n', False, {(0, 1): 5}),
        ("*Arcs\n1 2 c Blue\n", False, {(0, 1): 1}),
        ("*Arcslist\n1 2 3\n*Edgeslist\n2 3\n", False,
         {(0, 1): 1, (0, 2): 1, (1, 2): 1, (2, 1): 1}),
        ("*Matrix\n0 2 0\n0 0 -1\n.5 0 0\n", False, {(0, 1): 2, (1, 2): 1, (2, 0): 0.5}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("piece", [5, 1 << 20])
def test_pajek(
    sections: str, undirected: bool, expected: Any, piece: int, converted: Convert,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(pajek, "READ_BYTES", piece)
    path = converted("a.net", "% comment\n" + PAJEK + sections)
    assert (meta_of(path).undirected, edges_of(path)) == (undirected, expected)
    assert names_of(path) == ["a b", "c", "é"]
    assert attributes_of(path)["x"] == [0.1, 0.5, 0]


def test_pajek_without_labels(converted: Convert) -> None:
    path = converted("a.net", "*Vertices 4\n2 b\n*Edges\n1 4\n")
    assert attributes_of(path) == {"id": [1, 2, 3, 4]}
    path = converted("a.net", '*network "x"\n*vertices 2\n1 "7" 0 0\n2 "5" 0 0\n*arcs\n1 2\n')
    assert attributes_of(path) == {"id": [7, 5]}
    path = converted("a.net", "*Vertices 5\n", weights_are="synapse")
    assert (meta_of(path).neurons, meta_of(path).synapses) == (5, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*Vertices x\n", ": line 1: 'x' is not the number of vertices"),
        ("*Vertices 0\n", ": line 1: 0 vertices; a network needs 1"),
        ("*Vertices 2\n*Arcs\n1 3\n", ": line 3: '3' is not a vertex; there are 2"),
        ("*Vertices 2\n*Arcs\n1\n", ": line 3: '1' is not `source target"),
        ("*Vertices 2\n*Arcs\n1 2 nan\n", ": line 3: weight 'nan' is not a finite number"),
        ("*Vertices 2\n2 a\n1 b\n", ": line 3: vertex 1 after 2 of 2; sort the vertices"),
        ("*Vertices 2\n3 a\n", ": line 2: vertex 3 after 0 of 2; sort the vertices"),
        ("*Vertices 2\n*Vertices 2\n", ": line 2: a second list of vertices"),
        ("*Vertices 2\n*Matrix\n1 2 3\n", ": line 3: 3 numbers in row 1 for 2 vertices"),
        ("*Vertices 2\n*Matrix\n1 2\n1 2\n1 2\n", ": line 5: 2 numbers in row 3 for 2 vertices"),
        ("*Vertices 2\n*Colours\n", ": line 2: section *colours is unknown"),
        ("*Network x\n*Arcs\n1 2\n", ": *Vertices must be before arcs and edges"),
        ("*Network x\n", ": no section *Vertices; is this a Pajek network?"),
        ("*Vertices 2000000000\n*Arcs\n1 2\n", ": a list of vertices needs 16,000,000,000 bytes"),
    ],
)
def test_pajek_faults(text: str, message: str, tmp_path: Path) -> None:
    from storage.errors import StorageError
    from storage.formats import import_network

    (tmp_path / "a.net").write_text(text)
    with pytest.raises(StorageError) as caught:
        import_network(tmp_path / "a.net", tmp_path / "net.bin")
    assert str(caught.value).removeprefix(str(tmp_path / "a.net")).startswith(message)


@pytest.mark.parametrize(
    ("nodes", "links", "names", "expected"),
    [
        ([{"id": "a"}, {"id": "b"}], [("a", "b", {"weight": 2})], ["a", "b"], {(0, 1): 2}),
        ([{"id": 5}, {"id": 2}], [(2, 5, {"value": 3})], [5, 2], {(1, 0): 3}),
        ([{"name": "a"}, {"name": "b"}], [(1, 0, {})], ["a", "b"], {(1, 0): 1}),
        ([{"name": "a"}, {"name": "b"}], [("b", "a", {})], ["a", "b"], {(1, 0): 1}),
        ([{}, {}], [(0, 1, {"w": -1})], [0, 1], {(0, 1): 1}),
        ([{"id": [1, 2]}, {"id": 2.0}], [([1, 2], 2, {})], ["(1, 2)", "2"], {(0, 1): 1}),
    ],
)
def test_node_link(nodes: Any, links: Any, names: Any, expected: Any, converted: Convert) -> None:
    rows = [{"source": source, "target": target, **data} for source, target, data in links]
    for key in ("links", "edges"):
        text = json.dumps({"directed": True, "graph": {}, "nodes": nodes, key: rows})
        path = converted("a.json", text)
        assert edges_of(path) == expected
        assert (names_of(path) or attributes_of(path)["id"]) == names
        assert ASSUMED not in meta_of(path).provenance
    path = converted("a.json", json.dumps({"nodes": nodes, "links": rows}))
    assert meta_of(path).undirected
    assert "undirected" in meta_of(path).provenance[ASSUMED]


def test_multigraphs_add_up(converted: Convert) -> None:
    rows = [{"source": 0, "target": 1, "weight": w, "key": k} for k, w in enumerate((1, 2.5))]
    rows.append({"source": 1, "target": 0})
    path = converted("a.json", json.dumps({"directed": True, "nodes": [{}, {}], "links": rows}))
    meta = meta_of(path)
    assert (meta.synapses, meta.repeated, meta.provenance[WEIGHTS_MISSING]) == (2, 1, 1)
    assert edges_of(path) == {(0, 1): 3.5, (1, 0): 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nodes": [', ": not valid JSON: "),
        ('{"nodes": [], "links": 3}', ": not node-link JSON: it must be an object with the lists"),
        ('{"nodes": [3], "links": []}', ": node 0 (from 0) is 3; it must be an object"),
        ('{"nodes": [{"id": 1}, {}], "links": []}', ": node 1 (from 0) has no id"),
        ('{"nodes": [{"id": {}}], "links": []}', ": node 0 (from 0): {} cannot identify a node"),
        ('{"nodes": [{"id": 1}, {"id": "1"}], "links": []}', ": node 1 (from 0): node '1' is decl"),
        ('{"nodes": [{"id": 1}], "links": [{"source": 1}]}', ": link 0 (from 0) has no source or"),
        (
            '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}',
            ": link 0 (from 0): an edge refers to node '2', which the file does not declare",
        ),
        (
            '{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 1, "weight": "x"}]}',
            ": link 0 (from 0): an edge has no finite number for weight; repair it",
        ),
        ('{"directed": 1, "nodes": [], "links": []}', ": directed is 1; use true or false"),
        ('{"nodes": [], "links": []}', ": no neurons"),
    ],
)
def test_node_link_faults(text: str, message: str, refused: Refuse) -> None:
    assert refused("a.json", text).startswith(message)


def test_adjacency_lists(converted: Convert) -> None:
    path = converted("a.adjlist", "# x\n3 1 2 # y\n1\n7 3\n")
    assert edges_of(path) == {(2, 0): 1, (2, 1): 1, (3, 2): 1}
    assert attributes_of(path) == {"id": [1, 2, 3, 7]}
    path = converted("a.adjlist", "b a\nc\n")
    assert (names_of(path), edges_of(path)) == (["b", "a", "c"], {(0, 1): 1})
    assert "directions" in meta_of(path).provenance[ASSUMED]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 2\nb {}\n", ": 1 neighbours of 'a' are missing"),
        ("a b\n", ": line 1: 'a b' is not a node and the number of its neighbours"),
        ("a 1\nb {'weight': 'x'}\n", ": line 2: {'weight': 'x'} has no finite number for weight"),
        ("a 1\nb c\n", ": line 2: 'b c' is not a neighbour of a; repair it"),
    ],
)
def test_multi_line_faults(text: str, message: str, refused: Refuse) -> None:
    assert refused("a.mladj", text).startswith(message)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a", "# c\ngraph\n[\n]\n", "gml"),
        ("a", "<?xml?><gexf>", "gexf"),
        ("a.txt", "% c\n*Network x\n", "pajek"),
        ("a", ' {"graph": {"nodes": [1]}, "edges": [', "nodelink"),
        ("a.json", '{"networks": {"nodes": [{}], "edges": [{}]}}', "sonata"),
        ("a.json", '{"graph": {"nodes": []}}', "sonata"),
        ("a.gml", "nothing", "gml"),
        ("a.net", "nothing", "pajek"),
    ],
)
def test_detection(name: str, text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert recognise(tmp_path / name).name == expected
