"""Other tools read exported files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from storage.formats import export_network
from storage.store.network import NetworkFile
from tests.storage.formats.nets import Net


def networkx_of(path: Path) -> dict[Any, float]:
    graph = pytest.importorskip("networkx").read_graphml(path)
    return {(u, v): w for u, v, w in graph.edges(data="weight")}


def scipy_of(path: Path) -> dict[Any, float]:
    read: Callable[[Path], Any] = import_module("scipy.sparse").load_npz
    if path.suffix == ".mtx":
        read = import_module("scipy.io").mmread
    matrix = read(path).tocoo()
    ends = zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)
    pairs = zip(((str(u), str(v)) for u, v in ends), matrix.data.tolist(), strict=True)
    return dict(pairs)


def arrow_of(path: Path) -> dict[Any, float]:
    table = pytest.importorskip("pyarrow.parquet").read_table(path).to_pydict()
    ends = zip(table["source"], table["target"], strict=True)
    return {(str(u), str(v)): w for (u, v), w in zip(ends, table["weight"], strict=True)}


@pytest.mark.filterwarnings("ignore:The default value for `spmatrix`:DeprecationWarning")
@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(
    ("name", "read"),
    [("a.graphml", networkx_of), ("a.npz", scipy_of), ("a.mtx", scipy_of), ("a.parquet", arrow_of)],
)
def test_other_tools_read_it(
    name: str, read: Callable[[Path], dict[Any, float]], undirected: bool, tmp_path: Path
) -> None:
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    edges = {(0, 1): 5, (1, 4): 3, (2, 3): 1000}
    network = Net(6, edges, undirected, 0.001, [1, 2, 3, 4, 5, 6]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net:
        export_network(net, tmp_path / name)
    expected = {(str(u), str(v)): w / 1000 for (u, v), w in edges.items()}
    if undirected and read is scipy_of:
        expected |= {(v, u): w for (u, v), w in expected.items()}
    assert read(tmp_path / name) == expected
