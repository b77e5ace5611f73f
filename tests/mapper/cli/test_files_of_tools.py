"""One network in the files of many tools: imported and run, with equal counts, signs, populations.

Files of networkx, NumPy and SciPy are written by them; the others are texts as the tools write
them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import mapper
from tests.mapper.conftest import Run

EDGES = (("A", "B", 0.5), ("B", "C", -2.0), ("C", "A", 3.0), ("C", "D", 1.0))
NODES = {"A": "exc", "B": "exc", "C": "exc", "D": "inh", "E": "inh"}  # E has no synapses
NUMBERS = {name: number for number, name in enumerate(NODES)}
MATRIX = np.zeros((5, 5))
for _source, _target, _weight in EDGES:
    MATRIX[NUMBERS[_source], NUMBERS[_target]] = _weight


class Expected(NamedTuple):
    """Counts of the network in a file."""

    neurons: int = 5
    synapses: int = 4
    negative: int = 1
    undirected: bool = False
    populations: dict[str, int] | None = None


WHOLE = Expected()
NAMED = Expected(populations={"exc": 3, "inh": 2})
LISTED = Expected(neurons=4)
UNSIGNED = Expected(negative=0)
RING = Expected(4, 3, 0, True)
FILES: dict[str, tuple[Callable[[Path], Any], Expected]] = {}


def text(name: str, content: str, expected: Expected) -> None:
    FILES[name] = (lambda path: path.write_text(content), expected)


def networkx_graph(directed: bool) -> Any:
    nx = pytest.importorskip("networkx")
    if not directed:
        graph = nx.Graph()
        graph.add_weighted_edges_from([(1, 2, 0.5), (2, 3, 2), (3, 1, 4.0)])
        graph.add_node(9)
        return graph
    graph = nx.DiGraph()
    for name, population in NODES.items():
        graph.add_node(name, population=population)
    graph.add_weighted_edges_from(EDGES)
    return graph


def networkx(name: str, function: str, expected: Expected) -> None:
    def write(path: Path) -> None:
        graph = networkx_graph(not expected.undirected)
        getattr(pytest.importorskip("networkx"), function)(graph, path)

    FILES[name] = (write, expected)


def node_link(name: str, key: str, expected: Expected) -> None:
    def write(path: Path) -> None:
        graph = networkx_graph(not expected.undirected)
        data = pytest.importorskip("networkx").node_link_data(graph, edges=key)
        path.write_text(json.dumps(data))

    FILES[name] = (write, expected)


def binary(name: str, write: Callable[[Any], Any], expected: Expected) -> None:
    def save(path: Path) -> None:
        stream = io.BytesIO()
        write(stream)
        path.write_bytes(stream.getvalue())

    FILES[name] = (save, expected)


networkx("networkx.gml", "write_gml", NAMED)
networkx("networkx-ring.gml", "write_gml", RING)
networkx("networkx.gexf", "write_gexf", NAMED)
networkx("networkx-ring.gexf", "write_gexf", RING)
networkx("networkx.net", "write_pajek", WHOLE)
networkx("networkx-ring.net", "write_pajek", RING)
networkx("networkx.adjlist", "write_adjlist", UNSIGNED)
networkx("networkx.mladj", "write_multiline_adjlist", WHOLE)
networkx("networkx.graphml", "write_graphml", WHOLE)
networkx("networkx.edgelist", "write_edgelist", LISTED)
node_link("networkx-links.json", "links", NAMED)
node_link("networkx-ring.json", "edges", RING)
binary("numpy.npy", lambda file: np.save(file, MATRIX), WHOLE)
binary("numpy-fortran.npy", lambda file: np.save(file, np.asfortranarray(MATRIX)), WHOLE)
binary("numpy.csv", lambda file: np.savetxt(file, MATRIX, delimiter=","), WHOLE)
binary("numpy.txt", lambda file: np.savetxt(file, MATRIX, header="rows are sources"), WHOLE)
binary("scipy.npz", lambda file: scipy.sparse.save_npz(file, scipy.sparse.csr_array(MATRIX)), WHOLE)
binary("scipy.mtx", lambda file: scipy.io.mmwrite(file, scipy.sparse.coo_array(MATRIX)), WHOLE)
SKEW = np.array([[0, 1.5, -2], [-1.5, 0, 0], [2, 0, 0]])
binary(
    "scipy-skew.mtx",
    lambda file: scipy.io.mmwrite(file, SKEW, symmetry="skew-symmetric"),
    Expected(3, 4, 2),
)
binary(
    "scipy-unsigned.mtx",
    lambda file: scipy.io.mmwrite(file, scipy.sparse.coo_array(np.abs(MATRIX).astype("u2"))),
    Expected(synapses=3, negative=0),
)
binary("octave.mat", lambda file: scipy.io.savemat(file, {"W": MATRIX, "dt": 0.1}), WHOLE)
binary(
    "matlab.mat",
    lambda file: scipy.io.savemat(
        file, {"W": scipy.sparse.csc_array(MATRIX)}, do_compression=True
    ),
    WHOLE,
)  # fmt: skip
text(
    "pandas.csv",
    ",A,B,C,D,E\nA,0.0,0.5,0.0,0.0,0.0\nB,0.0,0.0,-2.0,0.0,0.0\nC,3.0,0.0,0.0,1.0,0.0\n"
    "D,0.0,0.0,0.0,0.0,0.0\nE,0.0,0.0,0.0,0.0,0.0\n",
    WHOLE,
)
text(
    "pandas-edges.csv",
    ",source,target,weight\n0,A,B,0.5\n1,B,C,-2.0\n2,C,A,3.0\n3,C,D,1.0\n",
    LISTED,
)
text(
    "r.csv",
    '"","from","to","weight"\n"1","A","B",0.5\n"2","B","C",-2\n"3","C","A",3\n"4","C","D",1\n',
    LISTED,
)
text(
    "igraph.gml",
    'Creator "igraph version 1.0.0 Mon Nov 30 11:58:10 2026"\nVersion 1\ngraph\n[\n  directed 1\n'
    + "".join(
        f'  node\n  [\n    id {NUMBERS[name]}\n    name "{name}"\n    population "{kind}"\n  ]\n'
        for name, kind in NODES.items()
    )
    + "".join(
        f"  edge\n  [\n    source {NUMBERS[a]}\n    target {NUMBERS[b]}\n    weight {w:g}\n  ]\n"
        for a, b, w in EDGES
    )
    + "]\n",
    NAMED,
)
text(
    "igraph.net",
    "*Vertices 5\n"
    + "".join(f'{number + 1} "{name}"\n' for name, number in NUMBERS.items())
    + "*Arcs\n1 2 0.5\n2 3 -2\n3 1 3\n3 4 1\n",
    WHOLE,
)  # fmt: skip
text("igraph-ring.net", "*Vertices 4\n*Edges\n1 2 1\n2 3 2\n3 1 5\n", RING)
text(
    "gephi.gexf",
    "<?xml version='1.0' encoding='UTF-8'?>\n"
    '<gexf xmlns="http://gexf.net/1.3" version="1.3" xmlns:viz="http://gexf.net/1.3/viz">\n'
    "  <meta lastmodifieddate=\"2026-11-30\"><creator>Gephi 0.10</creator></meta>\n"
    '  <graph defaultedgetype="directed" mode="static">\n'
    '    <attributes class="node" mode="static">\n'
    '      <attribute id="population" title="population" type="string"/>\n    </attributes>\n'
    "    <nodes>\n"
    + "".join(
        f'      <node id="{name}" label="{name}">\n        <attvalues>\n'
        f'          <attvalue for="population" value="{kind}"/>\n        </attvalues>\n'
        '        <viz:size value="10.0"/><viz:position x="-3.5" y="250.25"/>\n'
        '        <viz:color r="0" g="0" b="0"/>\n      </node>\n'
        for name, kind in NODES.items()
    )
    + "    </nodes>\n    <edges>\n"
    + "".join(
        f'      <edge id="{i}" source="{a}" target="{b}" weight="{w}"/>\n'
        for i, (a, b, w) in enumerate(EDGES)
    )
    + "    </edges>\n  </graph>\n</gexf>\n",
    NAMED,
)  # fmt: skip
text(
    "gephi.csv",
    "Source,Target,Type,Id,Label,timeset,Weight\nA,B,Directed,0,,,0.5\nB,C,Directed,1,,,-2.0\n"
    "C,A,Directed,2,,,3.0\nC,D,Directed,3,,,1.0\n",
    LISTED,
)
text(
    "d3.json",
    json.dumps(
        {
            "nodes": [{"name": name, "population": kind} for name, kind in NODES.items()],
            "links": [
                {"source": NUMBERS[a], "target": NUMBERS[b], "value": w} for a, b, w in EDGES
            ],
            "directed": True,
        }
    ),
    NAMED,
)  # fmt: skip
text(
    "nest.txt",
    "# source target weight delay\n1 2 0.5 1\n2 3 -2 1.5\n3 1 3 1\n3 4 1 1\n",
    LISTED,
)
text(
    "pynn.txt",
    "# columns = ['i', 'j', 'weight']\n0.0\t1.0\t0.5\n1.0\t2.0\t-2.0\n2.0\t0.0\t3.0\n"
    "2.0\t3.0\t1.0\n",
    LISTED,
)
binary(
    "brian2.npz",
    lambda file: np.savez(file, i=[0, 1, 2, 2], j=[1, 2, 0, 3], w=[0.5, -2, 3, 1]),
    LISTED,
)
text("metis.graph", "4 3 1\n2 1 3 5\n1 1 3 2\n2 2 1 5\n\n", RING)


def test_there_are_many_files() -> None:
    assert len(FILES) >= 30


@pytest.mark.parametrize("name", FILES)
def test_import(name: str, folder: Path, run: Run) -> None:
    write, expected = FILES[name]
    write(folder / name)
    found = run("import", name, "net.bin", "--weights-are", "synapse", "--json").json()
    network = mapper.import_network(folder / name, weights_are="synapse")
    assert network.path.read_bytes() == (folder / "net.bin").read_bytes()
    assert (network.populations or None) == expected.populations
    synaptic = found["synaptic"]
    assert (found["neurons"], found["synapses"], synaptic["negative"], found["undirected"]) == (
        expected.neurons,
        expected.synapses,
        expected.negative,
        expected.undirected,
    )
    if expected in (WHOLE, NAMED, LISTED):
        assert (synaptic["least"], synaptic["largest"]) == (-2, 3)
    about = run("info", "net.bin", "--json").json()
    assert about.get("populations") == expected.populations


@pytest.mark.heavy
@pytest.mark.sample(6)
@pytest.mark.parametrize("name", FILES)
def test_run(name: str, folder: Path, run: Run) -> None:
    write, expected = FILES[name]
    write(folder / name)
    chip = ("--chip", "2x2", "--neurons-per-core", "2", "--preset", "fast")
    found = run("run", name, *chip, "-o", "out", "--json").json()
    assert found["network"]["neurons"] == expected.neurons
    assert found["network"]["synapses"] == expected.synapses
    assert run("verify", "out", "-q").code == 0
    mapping = mapper.map_network(folder / name, (2, 2), neurons_per_core=2, preset="fast")
    assert mapping.metrics == found["metrics"]
    assert mapping.core.tolist() == mapper.load("out").core.tolist()
    assert run("report", "out", "-o", "theirs.html").code == 0
    page = Path("theirs.html").read_text()
    assert mapper.report("out", path="mine.html").read_text() == page
    head = page.partition("</h1>")[2]
    counts = [int(value) for value in re.findall(r'<data value="(\d+)">', head)[:2]]
    assert counts == [expected.neurons, expected.synapses]
    of_object = mapper.report(mapping, path="object.html").read_text().partition("</h1>")[2]
    assert [int(value) for value in re.findall(r'<data value="(\d+)">', of_object)[:2]] == counts
