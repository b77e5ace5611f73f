"""Networks from arrays, sparse matrices and networkx graphs, compared after reading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.formats import objects
from storage.formats.objects import NeuronProperties, write_edges, write_matrix, write_networkx
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 50)), max_size=60),
    st.booleans(),
)
def test_edges_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]], undirected: bool
) -> None:
    path = tmp_path_factory.mktemp("net") / "net.bin"
    source, target, weight = (np.array([r[k] for r in rows], np.int64) for k in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "CHUNK", 7)
        meta = write_edges(path, source, target, weight / 4, vertices=10, undirected=undirected)
    expected: dict[tuple[int, int], float] = {}
    for u, v, w in rows:
        pair = (min(u, v), max(u, v)) if undirected else (u, v)
        if u != v:
            expected[pair] = expected.get(pair, 0) + w / 4
    assert edges_of(path) == expected
    assert (meta.neurons, meta.synapses_read) == (10, len(rows))


def test_rates_are_the_default_weights(tmp_path: Path) -> None:
    path, ends = tmp_path / "net.bin", ([0, 0, 1, 0], [1, 2, 2, 1])
    rates = [2.5, 4, 0]
    write_edges(path, *ends, neurons=NeuronProperties(rates=rates, sizes=[1, 2, 3]))
    assert edges_of(path) == {(0, 1): 5.0, (0, 2): 2.5, (1, 2): 4.0}
    assert attributes_of(path) == {"rate": rates, "size": [1, 2, 3]}
    write_edges(path, *ends, neurons=NeuronProperties(rates=rates), undirected=True)
    assert edges_of(path) == {(0, 1): 13.0, (0, 2): 2.5, (1, 2): 4.0}
    write_edges(path, *ends, weight=[1, 2, 3, 4], neurons=NeuronProperties(rates=rates))
    assert edges_of(path) == {(0, 1): 5.0, (0, 2): 2.0, (1, 2): 3.0}
    write_edges(path, *ends)
    assert edges_of(path) == {(0, 1): 2.0, (0, 2): 1.0, (1, 2): 1.0}
    with NetworkFile(path) as net:
        assert net.vertices == 3


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dense"])
def test_matrix(layout: str, tmp_path: Path) -> None:
    dense = np.array([[0, 2, 0], [0, 5, 1.5], [4, 0, 0]])
    matrix = dense if layout == "dense" else scipy.sparse.csr_array(dense).asformat(layout)
    write_matrix(tmp_path / "net.bin", matrix)
    assert edges_of(tmp_path / "net.bin") == {(0, 1): 2, (1, 2): 1.5, (2, 0): 4}
    meta = write_matrix(tmp_path / "both.bin", matrix + matrix.T, undirected=True)
    assert edges_of(tmp_path / "both.bin") == {(0, 1): 2, (1, 2): 1.5, (0, 2): 4}
    assert (meta.undirected, meta.self_loops) == (True, 1)


class _Graph:
    """The part of networkx that is used, also if that is not installed."""

    def __init__(self, nodes: list[Any], edges: list[tuple[Any, Any, Any]], directed: bool) -> None:
        self.nodes, self._edges, self._directed = nodes, edges, directed

    def is_directed(self) -> bool:
        return self._directed

    def edges(self, data: Any = False, default: Any = None) -> list[tuple[Any, ...]]:
        if data is False:
            return [edge[:2] for edge in self._edges]
        return [(u, v, default if w is None else w) for u, v, w in self._edges]


@pytest.mark.parametrize("directed", [True, False])
def test_graph(directed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "CHUNK", 2)
    edges = [("b", "a", 2.5), ("a", "c", None), ("c", "b", 3)]
    graph = _Graph(["b", "a", "c"], edges, directed)
    path = tmp_path / "net.bin"
    write_networkx(path, graph)
    back = (2, 0) if directed else (0, 2)
    assert edges_of(path) == {(0, 1): 2.5, (1, 2): 1.0, back: 3.0}
    with NetworkFile(path) as net:
        assert net.attribute("id").labels == ["b", "a", "c"]
    write_networkx(path, graph, weight=None, neurons=NeuronProperties(rates=[1, 2, 3]))
    assert edges_of(path)[0, 1] == (1 if directed else 3)


@pytest.mark.parametrize(
    ("nodes", "ids"), [([0, 1, 2], None), ([7, 3, 0], [7, 3, 0]), ([2, 1, 0], [2, 1, 0])]
)
def test_whole_numbers_as_nodes(nodes: list[int], ids: list[int] | None, tmp_path: Path) -> None:
    write_networkx(tmp_path / "net.bin", _Graph(nodes, [(nodes[0], nodes[1], 1)], True))
    assert attributes_of(tmp_path / "net.bin").get("id") == ids


@pytest.mark.parametrize("kind", ["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"])
def test_networkx(kind: str, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    graph = getattr(networkx, kind)()
    graph.add_nodes_from(["x", "lonely"])
    graph.add_edge("x", "y", weight=2)
    graph.add_edge("y", "z")
    graph.add_edge("z", "x", weight=0.5)
    if graph.is_multigraph():
        graph.add_edge("x", "y", weight=4)
    meta = write_networkx(tmp_path / "net.bin", graph)
    last = (3, 0) if graph.is_directed() else (0, 3)
    double = 6 if graph.is_multigraph() else 2
    assert edges_of(tmp_path / "net.bin") == {(0, 2): double, (2, 3): 1, last: 0.5}
    assert (meta.neurons, meta.undirected) == (4, not graph.is_directed())


def call(write: Callable[..., Any], *args: Any, **options: Any) -> Callable[[Path], Any]:
    return lambda path: write(path, *args, **options)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (call(write_edges, [0], [1, 2]), "edges: 1 sources, 2 targets; give one of each"),
        (
            call(write_edges, [0], [1], [1, 2]),
            "edges: 1 sources, 1 targets, weights of shape (2,); g",
        ),
        (
            call(write_edges, [[0]], [[1]]),
            "edges: source is int64 of shape (1, 1); give a list of whole numbers",
        ),
        (
            call(write_edges, [0.5], [1]),
            "edges: source is float64 of shape (1,); give a list of whole numbers",
        ),
        (call(write_edges, [0, -2], [1, 1]), "edges: source of entry 1 (from 0): -2 is negative"),
        (call(write_edges, [0], [5], vertices=3), "edges: id 5 is outside 0..2"),
        (
            call(write_edges, [0], [5], vertices=3, neurons=NeuronProperties(rates=[1, 1, 1])),
            "edges: id 5 is outside 0..2",
        ),
        (call(write_edges, [], []), "edges: no neurons"),
        (call(write_edges, [0], [1], ["a"]), "edges: weight is <U1"),
        (
            call(write_edges, [0], [1], neurons=NeuronProperties(rates=[1])),
            "edges: 1 rates for 2 neurons",
        ),
        (
            call(write_edges, [0], [1], neurons=NeuronProperties(rates=[1, np.nan])),
            "edges: rate of entry 1 (from 0): nan",
        ),
        (
            call(write_edges, [0], [1], neurons=NeuronProperties(rates=[-1, 1])),
            "edges: rate of entry 0 (from 0): -1 is neg",
        ),
        (
            call(write_edges, [0], [1], neurons=NeuronProperties(names=["a"] * 3)),
            "edges: 3 names for 2 neurons",
        ),
        (
            call(write_edges, [0], [1], neurons=NeuronProperties(sizes=[1])),
            "edges: attribute 'size' has 1 values for 2",
        ),
        (call(write_matrix, np.ones((2, 3))), "matrix: the matrix is 2 x 3"),
        (call(write_matrix, np.ones(3)), "matrix: is float64, 3; give a square matrix"),
        (call(write_matrix, np.array([["a"]])), "matrix: is <U1, 1 x 1; give a square matrix"),
        (call(write_matrix, np.array([[0, 1], [2, 0]]), undirected=True), "is not symmetric"),
        (call(write_networkx, _Graph([], [], True)), "graph: no neurons"),
        (call(write_networkx, _Graph([0, 1], [(0, 1, "heavy")], True)), "graph: weight is <U5"),
        (call(write_networkx, _Graph([0, 1], [(0, 1, (1, 2))], True)), "must be one number"),
    ],
)
def test_faults(write: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        write(tmp_path / "net.bin")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
