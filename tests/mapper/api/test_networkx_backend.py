"""The back end of networkx: halves of equal size, with a cut not above the cut of networkx."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mapper.api import networkx_backend
from mapper.api.networkx_backend import BISECTION, BackendInterface

nx = pytest.importorskip("networkx", reason="needs networkx")

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("folder")]
ROOT = Path(__file__).resolve().parents[3]
PROJECT = ROOT / "packages" / "networkx" / "pyproject.toml"


def halves(
    graph: Any, weight: str | None = "weight", seed: int | None = None
) -> tuple[set[Any], set[Any]]:
    """Convert and divide a graph, as networkx does."""
    attributes = {} if weight is None else {weight: 1}
    converted = BackendInterface.convert_from_nx(graph, edge_attrs=attributes)
    draws = None if seed is None else random.Random(seed)
    return BackendInterface.kernighan_lin_bisection(converted, None, 10, weight, draws)


def weighted() -> Any:
    graph = nx.gnm_random_graph(41, 120, seed=1)
    draws = random.Random(1)
    for _, _, data in graph.edges(data=True):
        data["weight"] = draws.randint(1, 9)
    return graph


GRAPHS: dict[str, Callable[[], Any]] = {
    "grid": lambda: nx.grid_2d_graph(8, 9),
    "names": lambda: nx.relabel_nodes(nx.cycle_graph(30), str),
    "weighted": weighted,
    "several edges": lambda: nx.MultiGraph([*nx.path_graph(12).edges, (5, 6), (5, 6), (3, 3)]),
    "without edges": lambda: nx.empty_graph(7),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_halves(name: str) -> None:
    graph = GRAPHS[name]()
    one, other = halves(graph)
    assert one | other == set(graph) and not one & other
    assert abs(len(one) - len(other)) <= 1
    theirs = nx.community.kernighan_lin_bisection(graph, seed=1)
    cut, most = (nx.cut_size(graph, *pair, weight="weight") for pair in ((one, other), theirs))
    assert cut <= most
    assert halves(graph, seed=3) == halves(graph, seed=3)


def test_weights_by_name() -> None:
    graph = nx.path_graph(6)
    nx.set_edge_attributes(graph, dict.fromkeys(graph.edges, 9), "cost")
    graph.edges[3, 4]["cost"] = 1
    graph.add_edge(0, 5, cost=1)
    one, other = halves(graph, weight="cost")
    assert nx.cut_size(graph, one, other, weight="cost") == 10
    assert nx.cut_size(graph, *halves(graph, weight=None)) == 2
    assert sorted(map(len, halves(nx.empty_graph(1)))) == [0, 1]


def test_other_calls_stay_with_networkx() -> None:
    graph = nx.grid_2d_graph(4, 4)
    refused = {
        "start from a partition": {"partition": [set(), set(graph)]},
        "name of an attribute": {"weight": lambda u, v, data: 1},
    }
    for reason, options in refused.items():
        found = BackendInterface.can_run(BISECTION, (graph,), options)
        assert isinstance(found, str) and reason in found
        with pytest.raises(NotImplementedError):
            BackendInterface.kernighan_lin_bisection(
                BackendInterface.convert_from_nx(graph), **options
            )
    assert BackendInterface.can_run(BISECTION, (graph, None, 10, "cost"), {}) is True
    assert isinstance(BackendInterface.can_run("louvain_communities", (graph,), {}), str)
    graph.add_edge((0, 0), (3, 3), weight=-1)
    with pytest.raises(NotImplementedError, match="no negative weights"):
        halves(graph)
    graph.add_edge((0, 0), (3, 3), weight="much")
    with pytest.raises(NotImplementedError, match="weight has values that are not numbers"):
        halves(graph)


def test_small_graphs_are_faster_in_networkx() -> None:
    least = networkx_backend.LEAST_NODES
    assert BackendInterface.should_run(BISECTION, (nx.empty_graph(least),), {}) is True
    small = BackendInterface.should_run(BISECTION, (), {"G": nx.empty_graph(least - 1)})
    assert isinstance(small, str) and "faster in networkx" in small


def test_graphs_are_converted_back() -> None:
    for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph):
        graph = kind([("a", "b"), ("b", "c"), ("c", "a")])
        graph.add_edge("a", "d", weight=2.0)
        arrays = BackendInterface.convert_from_nx(graph, edge_attrs={"weight": 1.0})
        assert (arrays.is_directed(), arrays.is_multigraph()) == (
            graph.is_directed(), graph.is_multigraph(),
        )  # fmt: skip
        back = BackendInterface.convert_to_nx(arrays)
        assert type(back) is kind
        assert list(back) == list(graph)
        assert sorted(back.edges(data="weight")) == sorted(graph.edges(data="weight", default=1.0))
    assert BackendInterface.convert_to_nx(({1}, {2})) == ({1}, {2})


SCRIPT = """
import networkx as nx
from mapper.api import networkx_backend

assert "mapper" in nx.utils.backends.backends
grid = nx.grid_2d_graph(6, 6)
ours = nx.community.kernighan_lin_bisection(grid, backend="mapper", seed=1)
assert nx.cut_size(grid, *ours) == 6 and list(map(len, ours)) == [18, 18]
for wrong in ({"partition": ours}, {"weight": lambda u, v, data: 1}):
    try:
        nx.community.kernighan_lin_bisection(grid, backend="mapper", **wrong)
    except NotImplementedError as error:
        assert "mapper" in str(error)
    else:
        raise AssertionError
try:
    nx.community.kernighan_lin_bisection(nx.DiGraph([(0, 1)]), backend="mapper")
except nx.NetworkXNotImplemented:
    pass
calls = []
interface = networkx_backend.BackendInterface
divide = interface.kernighan_lin_bisection
interface.kernighan_lin_bisection = lambda *given: calls.append(1) or divide(*given)
networkx_backend.LEAST_NODES = 20
with nx.config(backend_priority=["mapper"]):
    nx.community.kernighan_lin_bisection(nx.path_graph(19))
    assert calls == []
    nx.community.kernighan_lin_bisection(nx.path_graph(20))
    assert calls == [1]
    nx.community.kernighan_lin_bisection(nx.path_graph(20), [set(range(9)), set(range(9, 20))])
    assert calls == [1] and nx.number_connected_components(grid) == 1
"""


@pytest.mark.heavy
def test_networkx_dispatches_to_the_installed_package(folder: Path) -> None:
    """With the entry points of the package, as pip writes them."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    about = Path("site", "neuromapper_networkx-0.1.0.dist-info")
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = os.pathsep.join([str(folder / "site"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
