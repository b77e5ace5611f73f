"""SONATA circuits: populations, groups, types, configurations, faults, a real network."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.formats import import_network, recognise
from storage.formats.hdf5 import sonata
from storage.store.network import NetworkFile
from tests.storage.formats.circuits import (
    VERSION,
    Edges,
    expected,
    write_config,
    write_edges_file,
    write_nodes,
)
from tests.storage.formats.conftest import edges_of

h5py = pytest.importorskip("h5py", reason="the extra `sonata` is not installed")

COUNTS = {"a": 3, "b": 4}
EDGES = {
    "a_to_b": Edges("a", "b", [(0, 3, 0, 2.5, None, 1), (2, 0, 1, None, 3, 2)]),
    "b_to_b": Edges("b", "b", [(1, 2, 0, -0.5, 4, 1), (3, 3, 0, 1, 1, 1), (1, 2, 0, 1, 2, 1)]),
}


@pytest.mark.parametrize("block", [1, 2, 1 << 18])
def test_populations_are_contiguous(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sonata, "BLOCK", block)
    write_nodes(tmp_path / "nodes.h5", COUNTS)
    write_edges_file(tmp_path / "edges.h5", EDGES)
    meta = import_network(tmp_path / "edges.h5", tmp_path / "net.bin", traffic="weights")
    assert edges_of(tmp_path / "net.bin") == {(0, 6): 2.5, (2, 3): 3, (4, 5): 4}
    assert edges_of(tmp_path / "net.bin") == expected(COUNTS, EDGES)
    assert (meta.neurons, meta.synapses_read, meta.self_loops, meta.repeated) == (7, 5, 1, 1)
    assert meta.provenance["edge_populations"] == {"a_to_b": 2, "b_to_b": 3}
    assert meta.provenance["weights_negative"] == 1
    assert not meta.weights_are_rates
    with NetworkFile(tmp_path / "net.bin") as net:
        population = net.attribute("population")
    assert population.labels == ["a", "b"]
    assert population.stored.tolist() == [0] * 3 + [1] * 4


@pytest.mark.parametrize("block", [1, 2, 1 << 18])
def test_edges_without_a_weight_are_counted(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They weigh 1: neither their group nor their type, if known, has a factor."""
    monkeypatch.setattr(sonata, "BLOCK", block)
    rows = [(0, 1, 0, None, None, 7), (1, 2, 0, None, None, 8), (2, 0, 1, None, 3, 8)]
    write_edges_file(tmp_path / "edges.h5", {"p": Edges("p", "p", list(rows))})
    meta = import_network(tmp_path / "edges.h5", tmp_path / "net.bin", traffic="weights")
    assert edges_of(tmp_path / "net.bin") == {(0, 1): 1, (1, 2): 1, (2, 0): 3}
    assert meta.provenance["weights_missing"] == 2
    (tmp_path / "types.csv").write_text("edge_type_id syn_weight\n7 0.5\n9 2\n")
    (tmp_path / "circuit.json").write_text(
        '{"networks": {"edges": [{"edges_file": "edges.h5", "edge_types_file": "types.csv"}]}}'
    )
    meta = import_network(tmp_path / "circuit.json", tmp_path / "net.bin", traffic="weights")
    assert edges_of(tmp_path / "net.bin") == {(0, 1): 0.5, (1, 2): 1, (2, 0): 3}
    assert meta.provenance["weights_missing"] == 1


def test_population_sizes_without_nodes_file(tmp_path: Path) -> None:
    write_edges_file(tmp_path / "net.sonata", EDGES)
    import_network(tmp_path / "net.sonata", tmp_path / "net.bin", traffic="weights")
    assert edges_of(tmp_path / "net.bin") == expected({"a": 3, "b": 4}, EDGES)


def test_nodes_file_named_by_the_user(tmp_path: Path) -> None:
    write_nodes(tmp_path / "cells.h5", {"a": 5, "b": 9, "c": 1})
    write_edges_file(tmp_path / "edges.h5", EDGES)
    extra = {"nodes": tmp_path / "cells.h5"}
    meta = import_network(
        tmp_path / "edges.h5", tmp_path / "net.bin", extra=extra, traffic="weights"
    )
    assert edges_of(tmp_path / "net.bin") == expected({"a": 5, "b": 9}, EDGES)
    assert meta.neurons == 15


@pytest.mark.parametrize("form", ["circuit", "simulation"])
def test_configuration(form: str, tmp_path: Path) -> None:
    """Variables, types of edges, populations in the order of the files."""
    folder = tmp_path / "network"
    folder.mkdir()
    write_nodes(folder / "b.h5", {"b": 4})
    write_nodes(folder / "a.h5", {"a": 3})
    types = {1: (2.0, 7), 2: (-0.25, None)}
    table = 'edge_type_id nsyns syn_weight note\n2 NULL -0.25 "a b"\n1 7 2.0 x\n'
    (folder / "types.csv").write_text(table)
    edges = {"e": Edges("a", "b", [(0, 3, 0, None, None, 1), (1, 3, 0, None, None, 2),
                                   (2, 3, 0, None, None, 9), (2, 1, 1, 5, None, 1)])}  # fmt: skip
    write_edges_file(folder / "e.h5", edges)
    write_config(
        tmp_path / "circuit.json",
        nodes=[{"nodes_file": "$NET/b.h5", "node_types_file": "NULL"},
               {"nodes_file": "$NET/a.h5", "node_types_file": None}],
        edges=[{"edges_file": "$NET/e.h5", "edge_types_file": "${NET}/types.csv"}],
    )  # fmt: skip
    source = tmp_path / "circuit.json"
    if form == "simulation":
        source = tmp_path / "simulation.json"
        source.write_text(json.dumps({"network": "$configdir/circuit.json", "run": {}}))
    assert recognise(source).name == "sonata"
    import_network(source, tmp_path / "net.bin", traffic="weights")
    found = edges_of(tmp_path / "net.bin")
    assert found == expected({"b": 4, "a": 3}, edges, types)
    assert found == {(4, 3): 14, (5, 3): 0.25, (6, 3): 1, (6, 1): 35}


ROW = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2), st.integers(-9, 9))


@pytest.mark.heavy
@settings(max_examples=30)
@given(st.lists(ROW, min_size=1, max_size=40), st.sets(st.integers(0, 2)), st.booleans())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, int, int, int]],
    weighted: set[int],
    grouped: bool,
) -> None:
    """Groups in any order, some with weights; also files without edge_group_id."""
    folder = tmp_path_factory.mktemp("sonata")
    rows: list[Any] = [
        (s, t, g * grouped, w / 4 if g * grouped in weighted else None, None, 1)
        for s, t, g, w in drawn
    ]
    edges = {"e": Edges("p", "p", rows)}
    write_nodes(folder / "nodes.h5", {"p": 5})
    write_edges_file(folder / "edges.h5", edges, grouped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sonata, "BLOCK", 7)
        import_network(folder / "edges.h5", folder / "net.bin", threads=1, traffic="weights")
    assert edges_of(folder / "net.bin") == expected({"p": 5}, edges)


def test_three_hundred_neurons(data_dir: Path, tmp_path: Path) -> None:
    """Fan-in, fan-out and weights compared with the arrays of the file."""
    source = data_dir / "sonata" / "300_pointneurons_internal_edges.h5"
    meta = import_network(source, tmp_path / "net.bin", traffic="weights")
    with h5py.File(source) as file:
        edges = file["edges/internal_to_internal"]
        ends = [edges[f"{end}_node_id"][:].astype(int) for end in ("source", "target")]
        weights = np.abs(edges["0/syn_weight"][:][edges["edge_group_index"][:]])
    assert (meta.neurons, meta.synapses_read) == (300, 27588)
    other = ends[0] != ends[1]
    assert (meta.self_loops, meta.repeated) == (27588 - other.sum(), 0)
    found = edges_of(tmp_path / "net.bin")
    fan_in, fan_out = np.zeros((2, 300), int)
    for source_id, target_id in found:
        fan_in[target_id] += 1
        fan_out[source_id] += 1
    assert fan_in.tolist() == np.bincount(ends[1][other], minlength=300).tolist()
    assert fan_out.tolist() == np.bincount(ends[0][other], minlength=300).tolist()
    pairs = zip(ends[0][other].tolist(), ends[1][other].tolist(), strict=True)
    assert found == pytest.approx(dict(zip(pairs, weights[other].tolist(), strict=True)))


def alter(change: Callable[[Any], None], nodes: bool = False) -> Callable[[Path], None]:
    """Return a function that alters the edges or the nodes file."""

    def spoil(folder: Path) -> None:
        with h5py.File(folder / ("nodes.h5" if nodes else "edges.h5"), "r+") as file:
            change(file)

    return spoil


def put(name: str, values: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        kept = dict(file[name].attrs) if name in file else {}
        if name in file:
            del file[name]
        file[name] = values
        file[name].attrs.update(kept)

    return change


def drop(name: str) -> Callable[[Any], None]:
    return lambda file: file.__delitem__(name)


def set_version(key: str, value: Any) -> Callable[[Any], None]:
    return lambda file: file.attrs.__setitem__(key, value)


def cut(folder: Path) -> None:
    content = (folder / "edges.h5").read_bytes()
    (folder / "edges.h5").write_bytes(content[: len(content) // 2])


AB = "edges/a_to_b"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "edges.h5: not a valid HDF5 file"),
        (alter(set_version("version", [2, 0])), "edges.h5: SONATA version 2.0 is not supported"),
        (alter(set_version("magic", 7)), "edges.h5: attribute magic is 7"),
        (alter(drop("edges")), "edges.h5: no group /edges"),
        (alter(put("edges", [1])), "edges.h5: no group /edges"),
        (alter(drop(f"{AB}/target_node_id")), "no data set /edges/a_to_b/target_node_id"),
        (alter(put(f"{AB}/target_node_id", [1])), "target_node_id has 1 values instead of 2"),
        (alter(put(f"{AB}/source_node_id", [0.5, 1])), "source_node_id holds float64 of shape"),
        (
            alter(put(f"{AB}/source_node_id", [0, 3])),
            "edges.h5: /edges/a_to_b/source_node_id, row 1 (from 0): 3 is outside 0..2 of "
            "population 'a'",
        ),
        (alter(put(f"{AB}/target_node_id", [-1, 0])), "row 0 (from 0): -1 is outside 0..3"),
        (alter(put(f"{AB}/edge_group_id", [0, 5])), "row 1 (from 0): no group 5 exists"),
        (alter(drop(f"{AB}/edge_group_id")), "no data set /edges/a_to_b/edge_group_id"),
        (alter(drop(f"{AB}/edge_group_index")), "no data set /edges/a_to_b/edge_group_index"),
        (alter(put(f"{AB}/edge_group_index", [1, 0])), "index, row 0 (from 0): 1 is outside 0..0"),
        (alter(put(f"{AB}/0/syn_weight", [np.nan])), "0/syn_weight, row 0 (from 0): nan is not"),
        (alter(put(f"{AB}/0/syn_weight", ["x"])), "0/syn_weight holds object"),
        (
            alter(lambda file: file[f"{AB}/source_node_id"].attrs.pop("node_population")),
            "/edges/a_to_b/source_node_id has no attribute node_population",
        ),
        (
            alter(lambda file: file[f"{AB}/source_node_id"].attrs.update(node_population="z")),
            "refers to population 'z', which no nodes file has ('a', 'b')",
        ),
        (alter(drop("nodes"), nodes=True), "nodes.h5: no group /nodes"),
        (alter(drop("nodes/a/node_type_id"), nodes=True), "no data set /nodes/a/node_type_id"),
        (
            alter(put("nodes/b/node_id", [0, 2, 1, 3]), nodes=True),
            "nodes.h5: /nodes/b/node_id, row 1 (from 0): 2; ids must be 0..3 in order",
        ),
        (alter(set_version("version", [9, 1]), nodes=True), "nodes.h5: SONATA version 9.1"),
    ],
)
def test_faults(spoil: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    write_nodes(tmp_path / "nodes.h5", COUNTS)
    write_edges_file(tmp_path / "edges.h5", EDGES)
    spoil(tmp_path)
    with pytest.raises(BadInputError) as caught:
        import_network(tmp_path / "edges.h5", tmp_path / "net.bin", traffic="weights")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.h5", "nodes.h5"]


def test_nodes_file_instead_of_edges(tmp_path: Path) -> None:
    write_nodes(tmp_path / "n.h5", COUNTS)
    with pytest.raises(BadInputError, match="holds nodes but no edges"):
        import_network(tmp_path / "n.h5", tmp_path / "net.bin", traffic="weights")
    with pytest.raises(BadInputError, match=r"cells.h5: cannot read: No such file"):
        import_network(
            tmp_path / "n.h5", tmp_path / "net.bin", extra={"nodes": tmp_path / "cells.h5"}
        )


EMPTY: dict[str, Any] = {"nodes": [], "edges": []}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ": neither HDF5 nor valid JSON"),
        ("[1]", ": the configuration must be a JSON object"),
        ("{}", ": no `networks`; give a SONATA circuit configuration"),
        ('{"network": "./none.json"}', "none.json does not exist"),
        (json.dumps({"networks": EMPTY}), ": networks lists no files"),
        (json.dumps({"networks": {"nodes": 3}}), ": networks.nodes must be a list"),
        (json.dumps({"networks": {"nodes": [3]}}), ": networks.nodes[0] must be a JSON object"),
        (json.dumps({"networks": {"edges": [{"edges_file": 3}]}}), "edges_file is 3; it must be a"),
        (json.dumps({"networks": {"edges": [{"edges_file": "x.h5"}]}}), "x.h5 does not exist"),
        (
            json.dumps({"networks": {"edges": [{"edges_file": "$A/x.h5"}]}}),
            "networks.edges[0].edges_file: the manifest has no $A",
        ),
        (
            json.dumps({"manifest": {"$A": "$B", "$B": "$A"},
                        "networks": {"edges": [{"edges_file": "$A/x.h5"}]}}),
            "refer to each other in a cycle",
        ),
    ],
)  # fmt: skip
def test_faulty_configurations(text: str, message: str, refused: Callable[..., str]) -> None:
    assert message in refused("circuit.json", text)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "types.csv: line 1: no column edge_type_id"),
        ("type w\n1 2\n", "types.csv: line 1: no column edge_type_id"),
        ("edge_type_id syn_weight\n1\n", "types.csv: edge type 1: 1 of 2 columns"),
        ("edge_type_id syn_weight\n1 heavy\n", "types.csv: edge type 1: could not convert"),
        ("edge_type_id syn_weight\n1 inf\n", "types.csv: a syn_weight is not finite"),
    ],
)
def test_faulty_types(table: str, message: str, tmp_path: Path) -> None:
    write_edges_file(tmp_path / "edges.h5", EDGES)
    (tmp_path / "types.csv").write_text(table)
    entry = {"edges_file": "$BASE/edges.h5", "edge_types_file": "$BASE/types.csv"}
    write_config(tmp_path / "circuit.json", edges=[entry])
    with pytest.raises(BadInputError) as caught:
        import_network(tmp_path / "circuit.json", tmp_path / "net.bin", traffic="weights")
    assert message in str(caught.value)
    assert not (tmp_path / "net.bin").exists()


def test_altered_bytes(tmp_path: Path) -> None:
    """Any changed bytes lead to a network or to a one-line error."""
    write_edges_file(tmp_path / "a.h5", EDGES)
    content = (tmp_path / "a.h5").read_bytes()
    rng = np.random.default_rng(5)
    refusals = 0
    for _ in range(60):
        altered = bytearray(content)
        for place in rng.integers(len(content), size=20):
            altered[place] = rng.integers(256)
        (tmp_path / "a.h5").write_bytes(altered)
        try:
            import_network(tmp_path / "a.h5", tmp_path / "net.bin", "sonata", threads=1)
        except BadInputError as error:
            refusals += 1
            assert "\n" not in str(error)
            assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
        (tmp_path / "net.bin").unlink(missing_ok=True)
    assert refusals


def test_without_h5py(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "pip install 'neuromapper[sonata]'" in refused("a.h5", b"\x89HDF\r\n\x1a\n")


def test_version_of_the_tests_files() -> None:
    assert VERSION["magic"] == sonata.MAGIC


def test_sizes_and_ids_of_exported_files(tmp_path: Path) -> None:
    """Sizes of populations that have them; ids only with a single population."""
    write_nodes(tmp_path / "nodes.h5", COUNTS)
    write_edges_file(tmp_path / "edges.h5", EDGES)
    with h5py.File(tmp_path / "nodes.h5", "r+") as file:
        own = file.create_group("nodes/b/0")
        own["mapper_size"] = np.array([5, 6, 7, 8])
        own["mapper_id"] = np.array([9, 8, 7, 6])
    import_network(tmp_path / "edges.h5", tmp_path / "net.bin", traffic="weights")
    with NetworkFile(tmp_path / "net.bin") as net:
        assert net.vertex_sizes().tolist() == [1, 1, 1, 5, 6, 7, 8]
        assert "id" not in net.meta.attributes
    with h5py.File(tmp_path / "nodes.h5", "r+") as file:
        del file["nodes/b/0/mapper_size"]
        file["nodes/b/0/mapper_size"] = np.array([5, 6])
    with pytest.raises(BadInputError, match="mapper_size has 2 values instead of 4"):
        import_network(tmp_path / "edges.h5", tmp_path / "net.bin", traffic="weights")


def test_nodes_file_next_to_any_edges_file(tmp_path: Path) -> None:
    write_nodes(tmp_path / "net_nodes.h5", {"a": 5, "b": 9})
    write_edges_file(tmp_path / "net.h5", EDGES)
    assert (
        import_network(tmp_path / "net.h5", tmp_path / "net.bin", traffic="weights").neurons == 14
    )
