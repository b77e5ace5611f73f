"""Networks on disk compared with dictionaries; the bytes do not depend on the order of edges."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, CorruptError
from storage.graph import choose_block_size
from storage.store.archive import ArchiveReader, ArchiveWriter, pack
from storage.store.memory import MemoryGraph, load
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive
from tests.storage.strategies import NetCase, networks, random_edges

several = settings(max_examples=60)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@several
@given(networks())
def test_write_then_read(case: NetCase) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.bin"
        meta = case.write(path)
        with NetworkFile(path) as net:
            found = naive.flatten(net.blocks())
            assert net.meta == meta
            assert net.vertex_sizes().tolist() == [1] * case.neurons
            assert net.stored_bytes() < path.stat().st_size
    unit = meta.weight_unit
    assert found == naive.network(case.neurons, case.edges, undirected=case.undirected, unit=unit)
    loops = sum(source == target for source, target, _ in case.edges)
    pairs = {frozenset((s, t)) if case.undirected else (s, t) for s, t, _ in case.edges if s != t}
    weights = [weight for source, target, weight in case.edges if source != target]
    assert meta.synapses_read == len(case.edges)
    assert meta.self_loops == loops
    assert meta.synapses == len(pairs) == meta.connections // 2
    assert meta.repeated == len(case.edges) - loops - len(pairs)
    assert meta.total_weight == sum(naive.in_units(weight, unit) for weight in weights)
    assert meta.weights_clamped == sum(
        weight > 0 and round(weight / unit) == 0 for weight in weights
    )
    assert meta.total_size == case.neurons


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@several
@given(networks(), st.randoms(use_true_random=False), st.integers(1, 30))
def test_bytes_do_not_depend_on_edge_order(
    case: NetCase, shuffle: random.Random, capacity: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder) / "one", Path(folder) / "other"
        case.write(one)
        shuffle.shuffle(case.edges)
        case.capacity = capacity
        case.write(other, shuffle)
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("undirected", [False, True])
def test_small_memory_spills(undirected: bool, tmp_path: Path) -> None:
    edges = random_edges(200, 3000, 5)
    path = tmp_path / "net.bin"
    with NetworkWriter(path, 200, undirected=undirected, memory=1, block_size=9) as writer:
        for first in range(0, len(edges), 500):
            writer.add(*naive.columns(edges[first : first + 500]))
        assert writer._sorter.entries > 2 * 2900
        assert writer._sorter._file.size > 5000 * 3
        assert len(writer._sorter._store.runs) > 2
        writer.finish()
    with NetworkFile(path) as net:
        assert naive.flatten(net.blocks()) == naive.network(200, edges, undirected=undirected)
    assert list(tmp_path.iterdir()) == [path]


def test_attributes(tmp_path: Path) -> None:
    given_values = {
        "size": np.array([3, 0, 5]),
        "rate": np.array([0.5, 0.0, 2.25]),
        "id": np.array([2**62, 7, 9]),
        "x": np.array([-1.5, 0.0, 3.25]),
        "depth": np.array([-3, -2, 40]),
        "Größe": np.array([1, 2, 3], np.uint8),
    }
    with NetworkWriter(tmp_path / "net.bin", 3) as writer:
        for name, values in given_values.items():
            writer.set_attribute(name, values)
        writer.set_attribute("layer", np.array([1, 0, 1]), ["in", "out"])
        meta = writer.finish({"from": "a test"})
    assert meta.total_size == 8
    with NetworkFile(tmp_path / "net.bin") as net:
        assert net.meta.provenance == {"from": "a test", "traffic": {"source": "rates"}}
        assert net.vertex_sizes().tolist() == [3, 0, 5]
        for name, values in given_values.items():
            assert net.attribute(name).values.tolist() == values.tolist()
        layer = net.attribute("layer")
        assert (layer.stored.tolist(), layer.labels) == ([1, 0, 1], ["in", "out"])
        with pytest.raises(KeyError, match="nothing"):
            net.attribute("nothing")


def test_attribute_of_several_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.writer.ATTRIBUTE_BLOCK", 4)
    with NetworkWriter(tmp_path / "net.bin", 11) as writer:
        writer.set_attribute("x", np.arange(11) * 1000)
        writer.finish()
    with NetworkFile(tmp_path / "net.bin") as net:
        assert net.attribute("x").stored.tolist() == [1000 * v for v in range(11)]


def test_values_outside_labels(tmp_path: Path) -> None:
    with NetworkWriter(tmp_path / "net.bin", 2) as writer:
        with pytest.raises(
            BadInputError, match=r"attribute 'layer' has values outside its 2 labels"
        ):
            writer.set_attribute("layer", np.array([0, 2]), ["in", "out"])
        with pytest.raises(
            BadInputError, match=r"attribute 'layer' has values outside its 2 labels"
        ):
            writer.set_attribute("layer", np.array([0, -1]), ["in", "out"])
        writer.finish()


@pytest.mark.sample(26)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "else"}, "a zip archive, but not a mapper-network"),
        ({"version": 3}, "format version 3, but this program reads 1 and 2; update it"),
        ({"version": True}, "format version True, but this program reads 1 and 2; update it"),
        ({"version": 1.0}, r"format version 1.0, but this program reads 1 and 2; update it"),
        ({"version": [1] * 10**6}, r"format version \[1, 1, 1, 1, \.\.\.\], but this program r"),
        ({"neurons": -1}, "meta.json: neurons is -1"),
        ({"neurons": 2**31}, "neurons is 2147483648, not a whole number up to 2147483647"),
        ({"neurons": 50}, "member blocks/.* is missing"),
        ({"synapses": True}, "meta.json: synapses is True"),
        ({"block_size": 0}, "block_size is 0, not a whole number from 1"),
        ({"undirected": 0}, "meta.json: undirected is 0"),
        ({"weight_unit": 0}, "weight_unit is 0, not a number above 0"),
        ({"weight_unit": float("nan")}, r"meta.json is not valid JSON \(NaN is not valid JSON\)"),
        (
            {"weight_unit": float("inf")},
            r"meta.json is not valid JSON \(Infinity is not valid JSON\)",
        ),
        ({"total_weight": 10, "weight_unit": 1e304}, "the sum of weights exceeds 1e\\+304"),
        ({"connections": 2}, "2 connections, 0 synapses and 2 neurons are inconsistent"),
        (
            {"connections": 8, "synapses": 4},
            "8 connections, 4 synapses and 2 neurons are inconsistent",
        ),
        ({"largest_block_bytes": 1}, "member blocks/00000000 has 2 bytes, expected 2 to 1"),
        ({"total_weight": None}, "meta.json: total_weight is None, not a whole number"),
        ({"provenance": []}, r"provenance is \[\]"),
        ({"attributes": {"x": 5}}, "attribute 'x': it is 5, not an object"),
        ({"attributes": {"x": {"unit": 0}}}, "attribute 'x': unit is 0, not a number above 0"),
        ({"attributes": {"x": {"unit": "a"}}}, "attribute 'x': unit is 'a', not a number"),
        ({"attributes": {"x": {"unit": True}}}, "attribute 'x': unit is True, not a number"),
        ({"attributes": {"x": {"units": 1}}}, "attribute 'x': has an unknown key 'units'"),
        ({"attributes": {"size": {"unit": 0.5}}}, "attribute 'size': {'unit': 0.5} is invalid"),
        ({"attributes": {"size": {"offset": -1}}}, "attribute 'size': {'offset': -1} is invalid"),
        ({"attributes": {"rate": {"offset": -1}}}, "attribute 'rate': {'offset': -1} is invalid"),
        ({"attributes": {"x": {"labels": ["a"], "offset": -1}}}, "attribute 'x': {'labels'"),
        ({"attributes": {"x": {"offset": -(2**70)}}}, "attribute 'x': offset is -118"),
        (
            {"attributes": {"x": {"offset": 1.5}}},
            "attribute 'x': offset is 1.5, not a whole number",
        ),
        ({"attributes": {"x": {"labels": 7}}}, "attribute 'x': labels is 7, not a list or null"),
        ({"attributes": {"x": {"labels": [7]}}}, r"attribute 'x': labels\[0\] is 7, not a text"),
        ({"attributes": {"x": {}}}, "member attributes/x/00000000 is missing"),
    ],
)
def test_meta_is_checked(change: dict[str, object], message: str, tmp_path: Path) -> None:
    """Well-formed archives with wrong metadata."""
    path = tmp_path / "net.bin"
    with NetworkWriter(path, 2) as writer:
        writer.finish()
    with ArchiveReader(path) as archive:
        members = {name: archive.read(name) for name in archive.names()}
    members["meta.json"] = json.dumps(json.loads(members["meta.json"]) | change).encode()
    new = ArchiveWriter(path)
    for name, raw in members.items():
        new.add(pack(name, raw))
    new.commit()
    with pytest.raises(CorruptError, match=message) as caught, NetworkFile(path) as net:
        net.attribute("x")
    assert str(caught.value).startswith(str(path))


@several
@given(networks())
def test_memory_graph_and_load(case: NetCase) -> None:
    edges = [(s, t, int(w) % 1000) for s, t, w in case.edges]
    graph = MemoryGraph.from_edges(
        case.neurons,
        *naive.columns(edges),
        undirected=case.undirected,
        block_size=case.block_size,
    )
    expected = naive.network(case.neurons, edges, undirected=case.undirected)
    assert naive.flatten(graph.blocks()) == expected
    assert naive.records_of(graph.read_all()) == expected
    whole = load(graph, threads=case.threads)
    assert naive.outgoing(naive.flatten(whole.blocks())) == naive.merged_directions(expected)
    assert whole.undirected


def test_empty_memory_graph() -> None:
    graph = MemoryGraph.from_edges(0, np.array([]), np.array([]))
    assert (graph.vertices, graph.connections, graph.block_count) == (0, 0, 0)
    assert list(graph.blocks()) == []
    assert load(graph).vertices == 0


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**40))
def test_chosen_block_size(vertices: int, connections: int) -> None:
    size = choose_block_size(vertices, connections)
    assert 1 <= size <= max(1, min(vertices, 1 << 16))
    assert size == vertices or size.bit_count() == 1
    assert size == 1 or size * connections <= vertices * (1 << 18)
