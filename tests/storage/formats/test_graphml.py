"""GraphML: weights, directions, names, faults; compared with networkx if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage.formats import edgebuffer, import_network
from storage.formats.columns import ColumnNames
from storage.formats.text import graphml
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]

KEYS = """<key id="n" for="node" attr.name="weight"><default>heavy</default></key>
<key id="t" for="edge" attr.name="type" attr.type="string"/>
<key id="d1" for="edge" attr.name="Weight" attr.type="double"><default>4</default></key>
"""
NODES = '<node id="b"><data key="n">9</data></node><node id="a"/><node id="ü z"/><node id="lone"/>'
EDGES = """<edge source="b" target="a"><data key="t">x</data><data key="d1"> 2.5 </data></edge>
<edge id="e" source="a" target="ü z"/>
"""


def document(body: str, default: str = "directed", keys: str = KEYS) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'{keys}<graph id="G" edgedefault="{default}">\n{body}</graph>\n</graphml>\n'
    )


@pytest.mark.parametrize("piece", [3, 1 << 20])
@pytest.mark.parametrize("name", ["a.graphml", "a.xml.gz", "strange"])
def test_document(
    name: str, piece: int, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphml, "READ_BYTES", piece)
    monkeypatch.setattr(edgebuffer, "EDGES", 1)
    path = converted(name, document(NODES + EDGES))
    assert edges_of(path) == {(0, 1): 2.5, (1, 2): 4}
    with NetworkFile(path) as net:
        assert net.attribute("id").labels == ["b", "a", "ü z", "lone"]
        assert (net.vertices, net.undirected) == (4, False)


def test_edges_before_nodes_and_whole_ids(converted: Convert) -> None:
    body = '<edge source="7" target="3"/><node id="3"/><node id="12"/><node id="7"/>'
    path = converted("a.graphml", document(body, keys=""))
    assert edges_of(path) == {(0, 1): 1}
    assert attributes_of(path) == {"id": [7, 3, 12]}


def test_directions(converted: Convert) -> None:
    path = converted("a.graphml", document(NODES + EDGES, "undirected"))
    assert edges_of(path) == {(0, 1): 2.5, (1, 2): 4}
    with NetworkFile(path) as net:
        assert net.undirected
    body = NODES + EDGES.replace('target="a"', 'target="a" directed="false"')
    path = converted("a.graphml", document(body))
    assert edges_of(path) == {(0, 1): 2.5, (1, 0): 2.5, (1, 2): 4}


def test_weight_named_by_the_user(converted: Convert) -> None:
    keys = '<key id="k1" for="edge" attr.name="load"/>'
    body = '<node id="a"/><node id="b"/><edge source="a" target="b"><data key="k1">7</data></edge>'
    for name, weight in (("load", 7), ("k1", 7), ("-", 1), (None, 1)):
        path = converted(
            "a.graphml", document(body, keys=keys), extra={"columns": ColumnNames(weight=name)}
        )
        assert edges_of(path) == {(0, 1): weight}


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["Graph", "DiGraph"])
def test_files_of_networkx(kind: str, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = networkx.gnp_random_graph(20, 0.3, seed=2, directed=kind == "DiGraph")
    for k, (u, v) in enumerate(graph.edges):
        graph.edges[u, v]["weight"] = k / 4
    graph = networkx.relabel_nodes(graph, {v: f"n{v}" for v in graph})
    networkx.write_graphml(graph, tmp_path / "a.graphml")
    import_network(tmp_path / "a.graphml", tmp_path / "net.bin")
    index = {name: i for i, name in enumerate(graph.nodes)}
    expected = {}
    for u, v, w in graph.edges(data="weight"):
        pair = index[u], index[v]
        expected[pair if kind == "DiGraph" else (min(pair), max(pair))] = w
    assert edges_of(tmp_path / "net.bin") == expected


BOMB = '<!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<graphml>&b;</graphml>'
OUTSIDE = '<!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n<graphml>&a;</graphml>'
PAIR = '<node id="a"/><node id="b"/>\n'


def weighing(text: str) -> str:
    return document(f'{PAIR}<edge source="a" target="b"><data key="d1">{text}</data></edge>')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "line 1: declares an entity"),
        (OUTSIDE, "line 1: declares an entity"),
        ("<graphml></graphml>", ": contains no graph"),
        ("", ": is empty"),
        ("<?xml version='1.0' encoding='UF-8'?><graphml/>", "line 1: unknown encoding"),
        ("<svg></svg>", "line 1: the document is a <svg>, not <graphml>"),
        (document(NODES + EDGES)[:-12], "not valid XML (no element found); is the file complete?"),
        (document(NODES + EDGES)[:300], "not valid XML"),
        (document(PAIR, "both"), "line 6: edgedefault is 'both'"),
        (document(PAIR + "<node/>"), "line 8: a <node> has no id"),
        (document(PAIR + '<node id="a"/>'), "line 8: node 'a' is declared twice"),
        (document(PAIR + '<edge source="a"/>'), "line 8: a <edge> has no target"),
        (document(PAIR + '<edge source="a" target="c"/>'), "line 8: an edge refers to node 'c'"),
        (document(PAIR + "<hyperedge/>"), "line 8: hyperedges have no source"),
        (
            document(PAIR + '</graph><graph edgedefault="directed">'),
            "line 8: contains a second graph",
        ),
        (
            document(PAIR + '<edge source="a" target="b" directed="true"/>', "undirected"),
            "line 8: a directed edge in an undirected graph",
        ),
        (weighing("NaN"), "line 8: weight NaN is not a finite number"),
        (weighing("much"), "line 8: weight 'much' is not a number"),
        (document(PAIR, keys=KEYS.replace(">4<", ">four<")), "line 5: weight 'four' is not"),
        (document(""), ": no neurons"),
    ],
)
def test_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.graphml", text)


def test_faults_of_options(refused: Refuse) -> None:
    for names, message in (
        (ColumnNames(weight="load"), "no edge key is called 'load'"),
        (ColumnNames(source="a"), "has no columns for source and target"),
    ):
        assert message in refused("a.graphml", document(PAIR), extra={"columns": names})


SIZES = """<key id="s" for="node" attr.name="Size" attr.type="int"><default>3</default></key>
<key id="f" for="node" attr.name="size" attr.type="double"/>
"""


def test_sizes(converted: Convert) -> None:
    """Sizes come from the integer key, with its default; other keys describe drawings."""
    body = (
        '<edge source="b" target="c"/><node id="a"><data key="s"> 7 </data></node>'
        '<node id="b"><data key="f">2.5</data></node><node id="c"><data key="s">0</data></node>'
    )
    path = converted("a.graphml", document(body, keys=SIZES))
    assert attributes_of(path) == {"id": [0, 1, 2], "size": [3, 0, 7]}
    with NetworkFile(path) as net:
        assert net.attribute("id").labels == ["b", "c", "a"]


def test_drawings_have_no_sizes(converted: Convert) -> None:
    path = converted("a.graphml", document(NODES, keys=SIZES.partition("\n")[2]))
    assert list(attributes_of(path)) == ["id"]


@pytest.mark.parametrize("size", ["-1", "2.5", "", str(2**62)])
def test_faulty_sizes(size: str, refused: Refuse) -> None:
    body = f'\n<node id="a"><data key="s">{size}</data></node>'
    told = refused("a.graphml", document(body, keys=SIZES))
    assert f"size {size!r} is not a whole number from 0; repair it" in told
    assert "line 7" in told
