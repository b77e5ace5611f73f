"""Tables of a mapping as arrays and data frames, and its picture in notebooks."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import mapper
from tests.mapper.api.conftest import SMALL

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]


@pytest.fixture
def mapping(folder: Any, edges: Any) -> mapper.NetworkMapping:
    return mapper.map_network(edges, (5, 4), **SMALL)


def test_cores(mapping: mapper.NetworkMapping, edges: Any) -> None:
    cores = mapping.columns("cores")
    assert {column.shape for column in cores.values()} == {(20,)}
    assert cores["neurons"].tolist() == np.bincount(mapping.core, minlength=20).tolist()
    source, target, weight = edges
    kept = source != target
    ends = mapping.core[source[kept]], mapping.core[target[kept]]
    outgoing, incoming, within = np.zeros((3, 20))
    apart = ends[0] != ends[1]
    np.add.at(outgoing, ends[0][apart], weight[kept][apart])
    np.add.at(incoming, ends[1][apart], weight[kept][apart])
    np.add.at(within, ends[0][~apart], weight[kept][~apart])
    for name, right in (("outgoing", outgoing), ("incoming", incoming), ("within", within)):
        np.testing.assert_allclose(cores[name], right)
    assert (cores["y"] * 5 + cores["x"] == cores["core"]).all()


def test_links(mapping: mapper.NetworkMapping, edges: Any) -> None:
    """Loads by walking each synapse, x first."""
    links = mapping.columns("links")
    assert links["x"].size == 2 * (4 * 4 + 5 * 3)
    right: dict[tuple[int, int, str], float] = {}
    for source, target, weight in zip(*(array.tolist() for array in edges), strict=True):
        x, y = int(mapping.x[source]), int(mapping.y[source])
        to_x, to_y = int(mapping.x[target]), int(mapping.y[target])
        while (x, y) != (to_x, to_y):
            if x != to_x:
                name, dx, dy = ("east", 1, 0) if x < to_x else ("west", -1, 0)
            else:
                name, dx, dy = ("south", 0, 1) if y < to_y else ("north", 0, -1)
            right[x, y, name] = right.get((x, y, name), 0) + weight
            x, y = x + dx, y + dy
    names = ("x", "y", "direction", "unicast")
    rows = zip(*(links[name].tolist() for name in names), strict=True)
    found = {(x, y, name): load for x, y, name, load in rows if load}
    assert found == pytest.approx(right)


def test_neurons_and_stages(mapping: mapper.NetworkMapping) -> None:
    neurons = mapping.columns("neurons")
    assert (neurons["core"] == mapping.core).all()
    assert "name" not in neurons
    stages = mapping.columns("stages")
    assert list(stages["name"])[-2:] == ["score", "baselines"]
    with pytest.raises(mapper.UsageError, match="table 'x' is not known; give cores"):
        mapping.columns("x")


def test_names_of_a_graph() -> None:
    nx = pytest.importorskip("networkx")
    mapping = mapper.map_network(nx.grid_2d_graph(3, 3), (3, 3), **SMALL)
    assert mapping.columns("neurons")["name"].tolist() == list(nx.grid_2d_graph(3, 3).nodes)


def test_data_frames(mapping: mapper.NetworkMapping) -> None:
    pandas = pytest.importorskip("pandas")
    frame = mapping.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["neurons"].sum() == 50


def test_the_picture(mapping: mapper.NetworkMapping) -> None:
    """A square for each used core, in its place."""
    text = mapping._repr_html_()
    picture = ElementTree.fromstring(text[text.index("<svg") :])
    filled = "".join(
        path.get("d", "") for path in picture.iter("path") if path.get("fill", "none") != "none"
    )
    found = {(int(x) // 10, int(y) // 10) for x, y in re.findall(r"M(\d+) (\d+)h7v7", filled)}
    assert found == set(zip(mapping.x.tolist(), mapping.y.tolist(), strict=True))
    assert "style>" not in text and "script" not in text
