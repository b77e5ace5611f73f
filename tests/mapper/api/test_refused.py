"""Rejected input and the type of the error."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mapper
from mapper.errors import DoesNotFitError, MapperError, UsageError
from tests.mapper.conftest import tree
from tests.mapper.helpers import random_network

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]


ONE = np.array([0])
BAD: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ("nowhere.bin", {}, MapperError, r"nowhere\.bin"),
    (".", {}, UsageError, "is a folder"),
    (7, {}, UsageError, "network is 7; give a path"),
    ((ONE,), {}, UsageError, "give a path"),
    ((ONE, [0, 1]), {}, UsageError, "1 sources, 2 targets; give one of each per synapse"),
    ((ONE, [0.5]), {}, UsageError, "target is float64"),
    ((ONE, [[0]]), {}, UsageError, r"target is int64 of shape \(1, 1\)"),
    ((ONE, ["a"]), {}, UsageError, "give a list of whole numbers"),
    ((ONE, ONE, ["a"]), {}, UsageError, "weight is <U1"),
    (
        (ONE, -ONE - 1),
        {},
        UsageError,
        r"target of entry 0 \(from 0\): -1 is negative; ids start from 0",
    ),
    ((ONE, ONE + 1), {"columns": {"source": "a"}}, UsageError, "columns are for a table"),
    ("a.csv", {"columns": {"colour": "a"}}, UsageError, "columns: 'colour': 'a'; give names by"),
    ("a.csv", {"columns": "source=a"}, UsageError, "columns is 'source=a'; give names by role"),
    ((ONE, ONE + 5), {"neurons": 3}, MapperError, r"id 5 is outside 0\.\.2"),
    ((ONE, ONE + 1, [np.nan]), {}, MapperError, "weight"),
    (([], []), {}, UsageError, "no neurons; a network needs at least one"),
    ((ONE, ONE + 1), {"sizes": [1]}, MapperError, "1 values for 2 neurons"),
    ((ONE, ONE + 1), {"sizes": [1, 2.5]}, MapperError, "whole numbers"),
    (scipy.sparse.coo_array((2, 3)), {}, UsageError, "2 x 3; a network needs a square one"),
    (scipy.sparse.coo_array(np.eye(3) * 1j), {}, UsageError, "weight is complex128"),
    (scipy.sparse.eye_array(3), {"neurons": 3}, UsageError, "neurons is for"),
    ((ONE, ONE + 1), {"chip": "loihii"}, MapperError, "chip 'loihii' is unknown"),
    ((ONE, ONE + 1), {"chip": 3}, UsageError, "chip is 3; give"),
    ((ONE, ONE + 1), {"chip": "none.toml"}, MapperError, "none.toml does not exist"),
    ((ONE, ONE + 1), {"preset": "best"}, UsageError, "preset 'best' is not known"),
    ((ONE, ONE + 1), {"colour": 1}, UsageError, "there is no setting 'colour'$"),
    (
        (ONE, ONE + 1),
        {"hop_pases": 1},
        UsageError,
        "no setting 'hop_pases'; did you mean hop_passes",
    ),
    ((ONE, ONE + 1), {"seed": "a"}, UsageError, "seed is 'a'; give a whole number$"),
    ((ONE, ONE + 1), {"seed": 1.5}, UsageError, "seed is 1.5; give a whole number$"),
    ((ONE, ONE + 1), {"seed": None}, UsageError, "seed is None; give a whole number$"),
    ((ONE, ONE + 1), {"starts": True}, UsageError, "starts is True; give a whole number, 1 to"),
    ((ONE, ONE + 1), {"degree": "9"}, UsageError, "degree is '9'; give a whole number, 8 to"),
    (
        (ONE, ONE + 1),
        {"stop_shrink": "a"},
        UsageError,
        "stop_shrink is 'a'; give a number, 0.001 to 1",
    ),
    ((ONE, ONE + 1), {"threads": "2"}, UsageError, "threads is '2'; give a whole number"),
    ((ONE, ONE + 1), {"threads": 0}, UsageError, "threads is 0; give a whole number of 1 or more"),
    ((ONE, ONE + 1), {"memory": [1]}, UsageError, r"memory is \[1\]; give bytes, or a text"),
    ((ONE, ONE + 1), {"constraints": 3}, UsageError, "give the path of a TOML file"),
    ((ONE, ONE + 1), {"constraints": {"pin": 3}}, UsageError, "'pin' is 3; give a list of dict"),
    ((ONE, ONE + 1), {"constraints": {"pin": [{"core": object}]}}, UsageError, "is not a number"),
    ((ONE, ONE + 1), {"constraints": {"pin": [{"core": 1}]}}, MapperError, "constraints: pin 1"),
    ((ONE, ONE + 1), {"split_neurons": "yes"}, UsageError, "split_neurons is 'yes'; give True"),
    ((ONE, ONE + 1), {"neurons": "3"}, UsageError, "neurons is '3'; give a whole number"),
    ((ONE, ONE + 1), {"progress": 3}, UsageError, "progress is 3; give a function"),
    ((ONE, ONE + 1), {"workdir": 3}, UsageError, "workdir is 3; give the path"),
    ((ONE, ONE + 1), {"objective": "speed"}, UsageError, "objective is 'speed'"),
    ((ONE, ONE + 1), {"memory": "much"}, UsageError, "memory: 'much' is not a size"),
    ((ONE, ONE + 1), {"neurons_per_core": 0}, MapperError, "neurons is 0"),
    ((ONE, ONE + 1), {"constraints": "none.toml"}, MapperError, "none.toml: cannot read"),
    ((ONE, ONE + 1), {"workdir": "nowhere"}, MapperError, "nowhere"),
    ((ONE, ONE + 1), {"sizes": [9000, 1]}, DoesNotFitError, "needs 9,000 neurons"),
]


@pytest.mark.parametrize(("network", "options", "kind", "message"), BAD)
def test_errors(
    network: Any, options: dict[str, Any], kind: type[Exception], message: str, folder: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(kind, match=message) as caught:
        mapper.map_network(network, **({"chip": "4x4"} | options))
    assert "\n" not in str(caught.value)
    assert tree(folder) == {}
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_file_defines_its_own_sizes(folder: Path) -> None:
    path = random_network(folder / "net.bin", 5, 9)
    with pytest.raises(UsageError, match="sizes are for a network without a file"):
        mapper.map_network(path, "4x4", sizes=[1] * 5)


def test_a_graph_without_edges(folder: Path) -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(UsageError, match="graph: no neurons"):
        mapper.map_network(nx.Graph(), "4x4")
    graph = nx.Graph()
    graph.add_edge(0, 1, weight="heavy")
    with pytest.raises(UsageError, match="graph: weight is <U5"):
        mapper.map_network(graph, "4x4")
