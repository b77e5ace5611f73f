"""Networks in the objects of other packages: data frames, graphs of igraph, dense matrices.

The packages are not needed: stand-ins have the few methods that are used.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mapper

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
EFFORT: dict[str, Any] = {"threads": 1, "memory": "300MiB"}
TEXT = "pre,post,strength\na,b,1.5\nb,c,-2.0\nc,a,3.0\n"
COLUMNS = {"source": "pre", "target": "post", "weight": "strength"}


class Frame:
    """As of pandas."""

    columns = ("pre", "post", "strength")

    def __init__(self, text: str = TEXT) -> None:
        self.text = text

    def to_csv(self, path: Path, index: bool) -> None:
        assert not index
        path.write_text(self.text)


class PolarsFrame(Frame):
    def write_csv(self, path: Path) -> None:
        path.write_text(self.text)

    def to_csv(self, path: Path, index: bool) -> None:
        raise NotImplementedError


Frame.__module__ = "pandas.core.frame"
PolarsFrame.__module__ = "polars.dataframe.frame"


class Attributes(dict[str, Any]):
    def attributes(self) -> list[str]:
        return list(self)


def igraph(directed: bool, **names: Any) -> Any:
    return SimpleNamespace(
        get_edgelist=lambda: [(0, 1), (1, 2)], vcount=lambda: 4, is_directed=lambda: directed,
        vs=Attributes(names), es=Attributes(weight=[2.0, -3.0]),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [Frame, PolarsFrame])
def test_tables(kind: type[Frame], folder: Path) -> None:
    (folder / "table.csv").write_text(TEXT)
    given: dict[str, Any] = {"columns": COLUMNS, "weights_are": "synapse", **EFFORT}
    found = mapper.import_network(kind(), "frame.bin", **given)
    file = mapper.import_network("table.csv", "file.bin", **given)
    assert [one.tolist() for one in found.edges()] == [one.tolist() for one in file.edges()]
    assert found.attribute("id").tolist() == ["a", "b", "c"]
    assert found.notes == file.notes
    mapping = mapper.map_network(kind(), (2, 2), columns=COLUMNS, neurons_per_core=1, **EFFORT)
    assert mapping.nodes == ["a", "b", "c"]
    assert sorted(path.name for path in folder.iterdir()) == ["file.bin", "frame.bin", "table.csv"]


@pytest.mark.parametrize("directed", [True, False])
def test_graphs_of_igraph(directed: bool, folder: Path) -> None:
    found = mapper.import_network(
        igraph(directed, name=["w", "x", "y", "z"]), weights_are="synapse", **EFFORT
    )
    assert (found.neurons, found.meta.undirected) == (4, not directed)
    assert found.attribute("id").tolist() == ["w", "x", "y", "z"]
    pairs = {(0, 1): 2.0, (1, 2): -3.0}
    source, target, weight = (one.tolist() for one in found.edges())
    both = {} if directed else {(t, s): w for (s, t), w in pairs.items()}
    assert dict(zip(zip(source, target, strict=True), weight, strict=True)) == pairs | both
    assert "id" not in mapper.import_network(igraph(directed), **EFFORT).attributes


def test_dense_matrices(folder: Path) -> None:
    matrix = np.array([[0, 2, 0], [0, 0, -1], [4, 0, 0.0]])
    found = mapper.import_network(matrix, weights_are="synapse", **EFFORT)
    assert (found.to_scipy().toarray() == matrix).all()


@pytest.mark.parametrize(
    ("said", "network", "given"),
    [
        ("table: line 1: columns are x; name source and target", Frame("x\n1\n"), {}),
        ("none is 'q'", Frame(), {"columns": {"source": "q"}}),
        ("sizes are for a network", Frame(), {"sizes": [1, 2, 3]}),
        ("the matrix is 3 x 4; a network needs a square one", np.zeros((3, 4)), {}),
        ("columns are for a table", np.zeros((3, 3)), {"columns": COLUMNS}),
    ],
)
def test_refused(said: str, network: Any, given: dict[str, Any], folder: Path) -> None:
    with pytest.raises(mapper.MapperError) as caught:
        mapper.import_network(network, "net.bin", **given, **EFFORT)
    assert said in str(caught.value)
    assert not list(folder.iterdir())
