"""Accepted networks: arrays, matrices, graphs and files."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mapper
from mapper.errors import MapperError, UsageError
from storage.store.network import NetworkFile
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run
from tests.mapper.helpers import synapses_of

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]


def test_arrays(folder: Path, edges: tuple[Any, ...]) -> None:
    mapping = mapper.map_network(edges, "4x4", **SMALL)
    assert (mapping.core.dtype, mapping.core.shape) == (np.int32, (50,))
    assert np.array_equal(mapping.y * 4 + mapping.x, mapping.core)
    assert mapping.x.max() < 4
    assert np.bincount(mapping.core).max() <= 4
    assert (mapping.nodes, mapping.interrupted) == (None, False)
    assert (mapping.chip.neurons, mapping.settings.preset) == (4, "default")
    assert mapping.to_json()["network"]["path"] is None


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.parametrize("form", ["arrays", "csr", "bsr", "networkx", "lists"])
def test_all_forms_give_the_same_network(
    form: str, folder: Path, edges: tuple[Any, ...], run: Run
) -> None:
    source, target, weight = edges
    expected: dict[tuple[int, int], float] = {}
    for s, t, w in zip(*(array.tolist() for array in edges), strict=True):
        if s != t:
            expected[s, t] = expected.get((s, t), 0) + w
    network: Any = edges
    if form in ("csr", "bsr"):
        network = scipy.sparse.coo_array((weight, (source, target)), (50, 50)).asformat(form)
    elif form == "networkx":
        nx = pytest.importorskip("networkx")
        network = nx.DiGraph()
        network.add_nodes_from(range(50))
        network.add_weighted_edges_from((s, t, w) for (s, t), w in expected.items())
    elif form == "lists":
        network = [array.tolist() for array in edges]
    mapping = mapper.map_network(network, "4x4", **SMALL)
    mapping.save("out")
    assert synapses_of(Path("out/network.bin")) == expected
    assert run("verify", "out").code == 0
    assert json.loads(Path("out/report.json").read_text())["network"]["path"] == str(
        Path("out/network.bin").resolve()
    )


def test_an_undirected_graph_and_its_nodes(folder: Path) -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_edge("b", "a", weight=2.5)
    graph.add_edge("a", "c")
    graph.add_edge("c", "c")
    mapping = mapper.map_network(graph, "2x2", **SMALL)
    assert mapping.nodes == ["b", "a", "c"]
    facts = mapping.to_json()["network"]
    assert (facts["undirected"], facts["synapses"], facts["weight_total"]) == (True, 2, 3.5)
    assert facts["self_loops"] == 1


def test_ids_of_a_file_with_gaps(folder: Path) -> None:
    Path("a.txt").write_text("3 500\n500 9\n")
    mapping = mapper.map_network("a.txt", "2x2", **SMALL)
    assert mapping.nodes is not None
    assert list(mapping.nodes) == [3, 9, 500]


def test_sizes_rates_and_more_neurons(folder: Path) -> None:
    network = (np.array([0, 1]), np.array([1, 2]))
    mapping = mapper.map_network(
        network, "4x4", neurons=6, sizes=[4, 4, 4, 2, 2, 1], rates=np.arange(6) / 4, **SMALL
    )
    used = np.bincount(mapping.core, [4, 4, 4, 2, 2, 1])
    assert used.max() == 4
    mapping.save("out")
    with NetworkFile(Path("out/network.bin")) as file:
        assert file.attribute("rate").values.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_columns_of_a_table(folder: Path) -> None:
    rows = [f"{a},a,{b},b,{a + b}\n" for a in range(4) for b in range(4)]
    (folder / "a.csv").write_text("x,of x,y,of y,n\n" + "".join(rows))
    columns = {
        "source": "x", "target": "y", "weight": "n",
        "source-population": "of x", "target-population": "of y",
    }  # fmt: skip
    mapping = mapper.map_network(folder / "a.csv", "2x2", columns=columns, **SMALL)
    network = mapping.to_json()["network"]
    assert (mapping.core.size, network["columns"]) == (8, columns)
    assert mapping.nodes is not None
    assert list(mapping.nodes) == [(name, i) for name in "ab" for i in range(4)]
    (folder / "b.csv").write_text("source,target\nn1,n2\nn2,n3\n")
    assert mapper.map_network(folder / "b.csv", "2x2", **SMALL).nodes == ["n1", "n2", "n3"]


def test_rates_for_a_file(folder: Path) -> None:
    path = folder / "net.csv"
    path.write_text("0,1,9\n1,2,9\n2,0,9\n3,4,9\n4,1,9\n0,3,9\n")
    rates = [4, 0, 2.5, 1, 7]
    mapping = mapper.map_network(path, "2x2", rates=rates, **SMALL)
    mapping.save("out")
    assert mapping.to_json()["network"]["imported_from"] == str(path.resolve())
    assert "<title>net.csv on 2x2" in Path("out/report.html").read_text(encoding="utf-8")
    assert synapses_of(Path("out/network.bin")) == {
        (0, 1): 4, (1, 2): 0, (2, 0): 2.5, (3, 4): 1, (4, 1): 7, (0, 3): 4,
    }  # fmt: skip
    with pytest.raises(MapperError, match="rates have shape 3; the network has 5 neurons"):
        mapper.map_network(path, "2x2", rates=[1, 2, 3])


def test_a_nir_graph(folder: Path) -> None:
    nir = pytest.importorskip("nir")
    ones = np.ones(4)
    nodes = {
        "input": nir.Input({"input": np.array([3])}),
        "dense": nir.Linear(weight=np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, -5]])),
        "lif": nir.LIF(tau=ones, r=ones, v_leak=ones, v_threshold=ones),
        "output": nir.Output({"output": np.array([4])}),
    }
    names = list(nodes)
    graph = nir.NIRGraph(nodes, list(pairwise(names)))
    mapping = mapper.map_network(graph, "2x2", **SMALL)
    assert mapping.core.shape == (7,)
    assert mapping.to_json()["network"]["traffic"]["source"] == "uniform"
    mapping.save("uniform")
    assert set(synapses_of(Path("uniform/network.bin")).values()) == {1}
    mapping = mapper.map_network(graph, "2x2", rates="weights", **SMALL)
    assert mapping.to_json()["network"]["traffic"]["source"] == "weights"
    mapping.save("out")
    assert synapses_of(Path("out/network.bin")) == {
        (0, 3): 1, (2, 3): 2, (1, 4): 3, (0, 5): 4, (2, 6): 5,
    }  # fmt: skip
    rated = mapper.map_network(graph, "2x2", rates=np.arange(7), **SMALL)
    assert rated.metrics["cut_weight"] <= 0 + 2 + 1 + 0 + 2
    with pytest.raises(UsageError, match="sizes are for"):
        mapper.map_network(graph, "2x2", sizes=ones)


def test_numpy_numbers_are_accepted(edges: tuple[Any, ...]) -> None:
    given = {"seed": np.int64(3), "starts": np.int32(1), "threads": np.int8(1), "memory": 3e8}
    mapping = mapper.map_network(edges, "4x4", neurons_per_core=np.int64(8), **given)
    settings = json.loads(json.dumps(mapping.to_json()))["settings"]
    assert (settings["seed"], settings["starts"], settings["memory_bytes"]) == (3, 1, 300_000_000)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_meaning_of_weights(folder: Path, edges: tuple[Any, ...]) -> None:
    """Synaptic weights keep their signs; the traffic comes from the rates."""
    source, target, weight = edges
    signed = np.where(np.arange(weight.size) % 3 == 0, -weight, weight)
    plain = mapper.map_network((source, target), "4x4", **SMALL).to_json()["network"]
    for given in ((source, target, signed), scipy.sparse.coo_array((signed, (source, target)))):
        mapping = mapper.map_network(given, "4x4", weights_are="synapse", **SMALL)
        found = mapping.to_json()["network"]
        assert (found["weights_are"], found["traffic"]["source"]) == ("synapse", "uniform")
        assert found["weight_total"] == plain["weight_total"]
    rates = np.arange(1.0, 51.0)
    mapping = mapper.map_network(
        (source, target, signed), "4x4", weights_are="synapse", rates=rates, **SMALL
    )
    loops = source == target
    assert mapping.to_json()["network"]["weight_total"] == rates[source[~loops]].sum()
    taken = mapper.map_network((source, target, signed), "4x4", **SMALL).to_json()["network"]
    assert (taken["weights_are"], taken["weight_total"]) == ("rate", weight[~loops].sum())
    with pytest.raises(UsageError, match='give "rate" or "synapse"'):
        mapper.map_network(edges, "4x4", weights_are="spikes", **SMALL)
    mapper.map_network(edges, "4x4", **SMALL).save("out")
    with pytest.raises(UsageError, match="not for a network file; leave it out"):
        mapper.map_network("out/network.bin", "4x4", weights_are="rate", **SMALL)
