"""A small valid file of each format, or several if its importer has several code paths.

A file consists of bytes alone, so that it can be damaged. Creating it needs the format's library
only when called.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

Make = Callable[[Path], bytes]


@dataclass(frozen=True)
class Sample:
    """A file of a format.

    make : returns its content; receives the folder of the file, for files that it refers to
    neurons, synapses : of the network that it describes
    """

    name: str
    make: Make
    neurons: int
    synapses: int


def _text(content: str) -> Make:
    return lambda folder: content.encode()


def _words(*numbers: int) -> Make:
    return lambda folder: struct.pack(f"<{len(numbers)}Q", *numbers)


def _parquet(named: bool, groups: bool = False) -> Make:
    def make(folder: Path) -> bytes:
        arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        ends = {"source": [0, 7, 3], "target": [7, 3, 9]}
        if named:
            ends = {end: [f"n{i}" for i in ids] for end, ids in ends.items()}  # type: ignore[misc]
        if groups:
            ends |= {"source_pop": ["a", "a", "b"], "target_pop": ["b", "b", "a"]}  # type: ignore[dict-item]
        buffer = io.BytesIO()
        parquet.write_table(arrow.table({**ends, "weight": [0.5, 2.0, 1.0]}), buffer)
        return buffer.getvalue()

    return make


def _arrays(**arrays: object) -> Make:
    def make(folder: Path) -> bytes:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    return make


def _matrix(layout: str, compressed: bool = True) -> Make:
    def make(folder: Path) -> bytes:
        ends = ([0, 1, 2, 3], [1, 2, 3, 0])
        matrix = scipy.sparse.coo_array(([1.0, 2.0, 0.5, 4.0], ends), shape=(4, 4))
        buffer = io.BytesIO()
        scipy.sparse.save_npz(buffer, matrix.asformat(layout), compressed=compressed)
        return buffer.getvalue()

    return make


def _nir(folder: Path) -> bytes:
    from tests.storage.formats.nir_graphs import (
        chain,
        conv,
        given,
        graph,
        lif,
        linear,
        nir_bytes,
        node,
    )

    inner = graph(
        {"i": given(8), "w": linear(np.eye(3, 8)), "n": lif((3,)), "o": node("Output")},
        [("i", "w"), ("w", "n"), ("n", "o")],
    )
    flat = node("Flatten", start_dim=0, end_dim=-1)
    return nir_bytes(chain(given(1, 3, 3), conv(np.ones((2, 1, 2, 2))), lif(), flat, inner))


def _onnx(folder: Path) -> bytes:
    from tests.storage.formats.onnx_models import model, node

    nodes = [
        node("Conv", "x w", "c", strides=[2, 2]),
        node("Relu", "c", "r"),
        node("Reshape", "r s", "f"),
        node("Gemm", "f g"),
    ]
    ones = {"w": np.ones((2, 1, 2, 2), np.float32), "g": np.ones((8, 2), np.float32)}
    made = model(nodes, {**ones, "s": np.array([1, 8])}, {"x": (1, 1, 4, 4)})
    content: bytes = made.SerializeToString()
    return content


def _sonata(folder: Path) -> bytes:
    from tests.storage.formats.circuits import Edges, write_edges_file

    rows = [(0, 1, 0, 0.5, None, 10), (1, 2, 0, 2.0, None, 10), (2, 0, 1, None, 3, 11)]
    write_edges_file(folder / "made", {"a_to_a": Edges("a", "a", list(rows))})
    content = (folder / "made").read_bytes()
    (folder / "made").unlink()
    return content


def _circuit(folder: Path) -> bytes:
    from tests.storage.formats.circuits import write_nodes

    if not (folder / "e.h5").exists():
        (folder / "e.h5").write_bytes(_sonata(folder))
        write_nodes(folder / "n.h5", {"a": 3})
        (folder / "types.csv").write_text("edge_type_id syn_weight\n10 0.25\n11 3\n")
    edges = [{"edges_file": "$DIR/e.h5", "edge_types_file": "$DIR/types.csv"}]
    networks = {"nodes": [{"nodes_file": "$DIR/n.h5", "node_types_file": None}], "edges": edges}
    return json.dumps({"manifest": {"$DIR": "."}, "networks": networks}).encode()


def _npy(turned: bool) -> Make:
    def make(folder: Path) -> bytes:
        matrix = np.array([[0, 2.5, 0], [0, 0, -1], [4, 0, 0]])
        buffer = io.BytesIO()
        np.save(buffer, np.asfortranarray(matrix) if turned else matrix)
        return buffer.getvalue()

    return make


def _matlab(sparse: bool, compressed: bool) -> Make:
    def make(folder: Path) -> bytes:
        matrix = scipy.sparse.csc_array(([1.0, -2.0, 0.5], ([0, 1, 2], [1, 2, 0])), shape=(3, 3))
        buffer: Any = io.BytesIO()
        content = {"A": matrix if sparse else matrix.toarray(), "note": "text"}
        scipy.io.savemat(buffer, content, do_compression=compressed)
        data: bytes = buffer.getvalue()
        return b"MATLAB 5.0 MAT-file".ljust(116) + data[116:]  # without the time

    return make


GML = """\
Creator "igraph"
graph
[
  directed 1
  # a comment
  node [ id 0 label "a &#233;" population "e" graphics [ x 1.5 y 2 ] ]
  node [ id 1 label "b ]" ]
  node [ id 7 label "c" population "i" ]
  edge [ source 0 target 1 weight 0.5 note "x" ]
  edge [ source 1 target 7 weight -2 ]
]
"""
GEXF = """\
<?xml version="1.0" encoding="UTF-8"?>
<gexf xmlns="http://gexf.net/1.3" xmlns:viz="http://gexf.net/1.3/viz" version="1.3">
  <graph defaultedgetype="directed">
    <attributes class="node"><attribute id="0" title="population" type="string">
      <default>e</default></attribute></attributes>
    <nodes>
      <node id="a" label="A"><viz:position x="1" y="-2.5" z="0"/></node>
      <node id="b" label="&#233;"><attvalues><attvalue for="0" value="i"/></attvalues></node>
    </nodes>
    <edges>
      <edge id="0" source="a" target="b" weight="0.5"/>
      <edge id="1" source="b" target="a" type="undirected"/>
    </edges>
  </graph>
</gexf>
"""
PAJEK = """\
% a comment
*Vertices 4
1 "a b" 0.5 0.25 0.0 ellipse
2 "c"
3 "d"
4 "e"
*Arcs
1 2 0.5 l "label"
2 3 -2
*Edges
3 4
*Arcslist
4 1 2
"""
NODES = (
    '{"directed": true, "multigraph": false, "graph": {}, "nodes": [{"population": "e", "id": "a"},'
    ' {"id": 5}, {"id": [1, 2], "size": 3}], "links": [{"weight": 0.5, "source": "a", "target": 5},'
    ' {"source": 5, "target": [1, 2], "key": 0}]}'
)

GRAPHML = """\
<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="k" for="edge" attr.name="weight" attr.type="double"><default>2</default></key>
  <graph id="g" edgedefault="directed">
    <node id="a"/><node id="b"/><node id="&#233;"/>
    <edge source="a" target="b"><data key="k">0.5</data></edge>
    <edge source="b" target="&#233;"/>
  </graph>
</graphml>
"""

SAMPLES: dict[str, tuple[Sample, ...]] = {
    "matrixmarket": (
        Sample(
            "a.mtx",
            _text(
                "%%MatrixMarket matrix coordinate real general\n% a comment\n"
                "4 4 4\n1 2 0.5\n2 3 1e2\n3 4 7\n4 1 12.25\n"
            ),
            4,
            4,
        ),
        Sample(
            "b.mtx",
            _text("%%MatrixMarket matrix array integer symmetric\n3 3\n0\n5\n0\n0\n12\n0\n"),
            3,
            2,
        ),
        Sample(
            "c.mtx",
            _text("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 1.5\n3 1 -2\n"),
            3,
            4,
        ),
        Sample(
            "d.mtx",
            _text("%%MatrixMarket matrix array real skew-symmetric\n3 3\n1.5\n-2\n0\n"),
            3,
            4,
        ),
    ),
    "parquet": (
        Sample("a.parquet", _parquet(named=False), 4, 3),
        Sample("b.parquet", _parquet(named=True), 4, 3),
        Sample("c.parquet", _parquet(named=False, groups=True), 5, 3),
    ),
    "nir": (Sample("a.nir", _nir, 9 + 8 + 3, 8 * 4 + 3),),
    "npz": (
        Sample("a.npz", _matrix("csr"), 4, 4),
        Sample("b.npz", _matrix("coo", compressed=False), 4, 4),
        Sample("c.npz", _matrix("dia"), 4, 4),
        Sample("d.npz", _arrays(source=[0, 1, 5], target=[1, 2, 0], weight=[1.0, 2, 3]), 6, 3),
        Sample("e.npz", _arrays(source=[0, 1], target=[1, 2], neurons=[9]), 9, 2),
        Sample("f.npz", _arrays(i=[0, 1], j=[1, 2], w=[-1.0, 0.5], delay=[1, 1]), 3, 2),
    ),
    "npy": (Sample("a.npy", _npy(False), 3, 3), Sample("b.npy", _npy(True), 3, 3)),
    "matlab": (
        Sample("a.mat", _matlab(sparse=True, compressed=True), 3, 3),
        Sample("b.mat", _matlab(sparse=False, compressed=False), 3, 3),
    ),
    "onnx": (Sample("a.onnx", _onnx, 16 + 8 + 2, 8 * 4 + 16),),
    "sonata": (
        Sample("a.h5", _sonata, 3, 3),
        Sample("circuit_config.json", _circuit, 3, 3),
    ),
    "graphml": (Sample("a.graphml", _text(GRAPHML), 3, 2),),
    "gexf": (Sample("a.gexf", _text(GEXF), 2, 2),),
    "gml": (Sample("a.gml", _text(GML), 3, 2),),
    "pajek": (
        Sample("a.net", _text(PAJEK), 4, 6),
        Sample("b.net", _text("*Vertices 3\r\n*Edgeslist\r\n1 2 3\r\n"), 3, 2),
        Sample("c.net", _text("*network x\n*vertices 2\n*matrix\n0 1.5\n-2 0\n"), 2, 2),
    ),
    "nodelink": (
        Sample("a.json", _text(NODES), 3, 2),
        Sample("b.json", _text('{"nodes": [{"name": "a"}, {"name": "b"}], "links": '
                               '[{"source": 0, "target": 1, "value": 2}]}'), 2, 1),
    ),
    "parhip": (
        Sample("a.bgf", _words(3, 3, 4, 56, 64, 80, 88, 1, 0, 2, 1), 3, 2),
        Sample(
            "b.bgf",
            _words(0, 3, 4, 56, 64, 80, 88, 1, 0, 2, 1, 5, 6, 7, 300, 300, 2, 2),
            3,
            2,
        ),
    ),
    "metis": (
        Sample("a.graph", _text("% a comment\n4 3\n2 3\n1\n1 4\n3\n"), 4, 3),
        Sample("b.graph", _text("3 2 111 2\n1 5 6 2 30\n2 7 8 1 30 3 12\n1 9 9 2 12\n"), 3, 2),
    ),
    "hmetis": (
        Sample("a.hgr", _text("3 4\n1 2 3\n% a comment\n3 4\n1 4\n"), 4, 4),
        Sample("b.hgr", _text("2 3 11\n5 1 2\n12 2 3\n1\n1\n20\n"), 3, 2),
    ),
    "adjlist": (Sample("a.adjlist", _text("#script\n0 1 2\n1 2\n2\n9\n"), 4, 3),),
    "mladj": (
        Sample("a.mladj", _text("# a comment\na 2\nb {'weight': 0.5}\nc {}\nb 0\nd 0\n"), 4, 2),
    ),
    "matrix": (
        Sample("a.csv", _text("0,1,0,2.5\n0,0,3,0\n-1,0,0,0\n0,0,0,0\n"), 4, 4),
        Sample("b.csv", _text(",a,b,c,d\na,0,1,0,2\nb,0,0,3,0\nc,1,0,0,0\nd,0,0,0,0\n"), 4, 4),
        Sample("c.txt", _text("# a comment\n0 1 0 0\n0 0 1 0\n0 0 0 1\n1e0 0 0 0.5\n"), 4, 4),
    ),
    "edgelist": (
        Sample("a.txt", _text("# a comment\n10 20 0.5\n20 35 1e3\n35 10 7\n"), 3, 3),
        Sample("b.csv", _text('source,target,weight,note\nn1,"n2",0.5,x\nn2,n3,12,y\n'), 3, 2),
        Sample("c.el", _text("1 2\n2 3\n3 100\n"), 4, 3),
        Sample("d.csv", _text("pre_pop,pre,post_pop,post,w\ne,0,e,1,2\ne,1,i,0,-3\n"), 3, 2),
        Sample("e.dat", _text("# source target weight delay\n1 2 -0.5 1.0\n2 3 4e0 1.5\n"), 3, 2),
        Sample("f.txt", _text("# columns = ['i', 'j', 'weight']\n0.0\t1e0\t.5\n1\t2\t3\n"), 3, 2),
        Sample("g.edgelist", _text("0 1 {}\n1 2 {'weight': 4}\n2 0 {'w': np.int64(3)}\n"), 3, 3),
    ),
    "qaplib": (
        Sample("a.dat", _text("4\n0 1 1 2\n1 0 2 1\n1 2 0 1\n2 1 1 0\n\n"
                              "0 5 0 1\n5 0 2.5 0\n0 2.5 0 30\n1 0 30 0\n"), 4, 4),
    ),
}  # fmt: skip
