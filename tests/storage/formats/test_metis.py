"""METIS files: every fmt code, every fault, real graphs, and round trips."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from storage.formats import export_network, import_network
from storage.formats.text import reader as text_module
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import Edges, attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]


def naive(path: Path) -> tuple[int, int, Edges, dict[str, list[int]]]:
    """Read a correct file in the obvious way: n, m, edges u < v, vertex numbers."""
    lines = [line for line in path.read_text().split("\n") if not line.lstrip().startswith("%")]
    head = lines[0].split()
    n, m = int(head[0]), int(head[1])
    sized, vertex, edge = (d == "1" for d in (head[2] if len(head) > 2 else "0").zfill(3))
    ncon = (int(head[3]) if len(head) > 3 else 1) if vertex else 0
    names = ["rate"] * sized + ["size", *(f"weight{k}" for k in range(2, ncon + 1))][:ncon]
    own: dict[str, list[int]] = {name: [] for name in names}
    edges: Edges = {}
    for v, line in enumerate(lines[1 : n + 1]):
        words = [int(word) for word in line.split()]
        for name in names:
            own[name].append(words.pop(0))
        neighbours = words[::2] if edge else words
        weights = words[1::2] if edge else [1] * len(words)
        for other, weight in zip(neighbours, weights, strict=True):
            if v < other - 1:
                edges[v, other - 1] = weight
    return n, m, edges, own


def random_text(sized: int, ncon: int, weighted: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    weights = np.triu(rng.integers(1, 9, (n, n)) * (rng.random((n, n)) < 0.4), 1)
    weights += weights.T
    edges = np.count_nonzero(weights) // 2
    lines = [f"% a comment\n{n} {edges} {sized}{int(ncon > 0)}{weighted} {ncon or 1}"]
    for v in range(n):
        words = rng.integers(1, 50, sized + ncon).tolist()
        for other in np.flatnonzero(weights[v]).tolist():
            words += [other + 1, int(weights[v, other])] if weighted else [other + 1]
        lines.append(" ".join(map(str, words)))
        if rng.random() < 0.2:
            lines.append("  % another comment")
    return "\n".join(lines) + "\n" * int(rng.integers(1, 4))


@pytest.mark.sample(10)
@pytest.mark.parametrize(("sized", "ncon", "weighted"), list(product((0, 1), (0, 1, 3), (0, 1))))
@pytest.mark.parametrize("chunk", [11, 1 << 20])
def test_round_trip_of_every_fmt(
    sized: int,
    ncon: int,
    weighted: int,
    chunk: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    for seed in range(4):
        source, net = tmp_path / "a.graph", tmp_path / "a.bin"
        source.write_text(random_text(sized, ncon, weighted, seed))
        meta = import_network(source, net)
        n, m, edges, own = naive(source)
        assert (meta.neurons, meta.synapses, meta.undirected) == (n, m, True)
        assert edges_of(net) == edges
        assert attributes_of(net) == own
        with NetworkFile(net) as opened:
            export_network(opened, tmp_path / "b.graph")
        assert naive(tmp_path / "b.graph") == (n, m, edges, own)
        import_network(tmp_path / "b.graph", tmp_path / "b.bin")
        assert edges_of(tmp_path / "b.bin") == edges
        assert attributes_of(tmp_path / "b.bin") == own


def test_isolated_vertices(converted: Convert) -> None:
    assert edges_of(converted("a.graph", "4 1\n\n4\n\n2")) == {(1, 3): 1}


def test_last_empty_line_lost(converted: Convert) -> None:
    path = converted("a.graph", "3 1\n2\n1\n")
    with NetworkFile(path) as net:
        assert net.vertices == 3


def test_self_loops_are_counted(converted: Convert) -> None:
    with NetworkFile(converted("a.graph", "2 1\n1 2\n1\n")) as net:
        assert (net.meta.self_loops, net.meta.synapses) == (1, 1)


def test_split_weights_are_added(converted: Convert) -> None:
    assert edges_of(converted("a.graph", "2 2 1\n2 1 2 3\n1 2 1 2\n")) == {(0, 1): 4}


def test_gzipped_and_named(converted: Convert) -> None:
    assert edges_of(converted("a.data.gz", "2 1\n2\n1\n", format="metis")) == {(0, 1): 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty"),
        ("% nothing\n", "no header line"),
        ("0 0\n", "line 1: no neurons"),
        ("3\n", "line 1: the header is '3'"),
        ("a b\n", "line 1: the header is 'a b'"),
        ("2 1 2\n", "line 1: fmt is '2'"),
        ("2 1 0111\n", "line 1: fmt is '0111'"),
        ("2 1 10 0\n", "line 1: ncon is 0"),
        ("9999999999 1\n", "line 1: 9999999999 vertices; at most"),
        ("2 1\n2\n3\n", "line 3: neighbour 3 is outside 1..2"),
        ("2 1\n0\n1\n", "line 2: neighbour 0 is outside 1..2"),
        ("% c\n2 1\n% c\n2\n-1\n", "line 5: -1 is negative"),
        ("2 1\n2\nnan\n", "line 3: nan is not a finite number"),
        ("2 1\n2\none\n", "line 3: 'one' is not a number"),
        ("2 1 1\n2 1.5\n1 1.5\n", "line 2: 1.5 is not a whole number"),
        ("2 1 1\n2 5\n1\n", "line 3: neighbour 1 has no weight"),
        ("2 1 10\n5 2\n\n", "line 3: the weights of the vertex are missing"),
        ("2 1\n2\n1\n\n\n1\n", "line 6: more lines than the 2 vertices"),
        ("4 1\n2\n1\n", "line 3: the file ends after 2 vertices, its header declares 4"),
        ("2 1 10\n1 2\n", "line 2: the file ends after 1 vertices, its header declares 2"),
        ("3 1\n2\n1 3\n2\n", "line 1: the header declares 1 edges, but the lines list 2"),
        ("3 2\n2\n1 3\n\n", "line 3: vertex 2 lists 3, but 3 does not list 2"),
        ("3 2\n2\n1\n2\n", "line 4: vertex 3 lists 2, but 2 does not list 3"),
        ("3 2 1\n2 7\n% c\n1 7 3 4\n2 5\n", "line 4: edge 2 3 weighs 4 here and 5 at its other"),
    ],
)
def test_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.graph", text)


def test_truncated_gzip(refused: Refuse, tmp_path: Path) -> None:
    import gzip

    packed = gzip.compress(b"2 1\n2\n1\n" * 50)[:-12]
    other = tmp_path / "a.graph"  # .graph: the helper does not compress it again
    assert "the gzip data is truncated or damaged" in refused(other.name, packed)


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.jit
@pytest.mark.parametrize(
    "name", ["4elt", "fe_body", "example_weighted", "celegans_metabolic", "test.m"]
)
def test_real_graphs(name: str, data_dir: Path, tmp_path: Path) -> None:
    source = data_dir / "graphs" / f"{name}{'graph' if name.endswith('.m') else '.graph'}"
    meta = import_network(source, tmp_path / "net.bin")
    n, m, edges, own = naive(source)
    assert (meta.neurons, meta.synapses, meta.total_weight) == (n, m, sum(edges.values()))
    assert edges_of(tmp_path / "net.bin") == edges
    assert attributes_of(tmp_path / "net.bin") == own
    with NetworkFile(tmp_path / "net.bin") as net:
        export_network(net, tmp_path / "back.graph")
    assert naive(tmp_path / "back.graph") == (n, m, edges, own)
