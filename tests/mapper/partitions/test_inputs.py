"""Graphs of other kinds as input of `mapper.partition`: matrices, networkx, tensors, tables."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

import mapper
from mapper.cli.partition import order_note
from mapper.errors import UsageError
from mapper.partitions.tensors import as_edges

pytestmark = pytest.mark.jit

N = 24
EDGES = np.array([[v, (v + step) % N] for v in range(N) for step in (1, 2)]).T
GIVEN = {"threads": 1, "memory": "256MiB", "seed": 1}


class Tensor:
    """What this package uses of a PyTorch tensor that requires a gradient, on another device."""

    def __init__(self, values: NDArray[np.int64], place: str = "gpu") -> None:
        self._values, self._place = values, place
        self.shape = values.shape

    def detach(self) -> Tensor:
        return Tensor(self._values, "detached")

    def cpu(self) -> Tensor:
        assert self._place == "detached"
        return Tensor(self._values, "cpu")

    def numpy(self) -> NDArray[np.int64]:
        assert self._place == "cpu"
        return self._values

    def __array__(self) -> NDArray[np.int64]:
        raise TypeError("can't convert a tensor on another device")


def test_all_kinds_give_the_same_partition(folder: Path) -> None:
    usual = mapper.partition((EDGES[0], EDGES[1]), 3, **GIVEN)
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(N))
    graph.add_edges_from(EDGES.T.tolist())
    matrix = scipy.sparse.coo_array((np.ones(2 * N), (EDGES[0], EDGES[1])), shape=(N, N))
    Path("edges.csv").write_text("\n".join(f"{u},{v}" for u, v in EDGES.T.tolist()) + "\n")
    weights = np.ones(2 * N, np.int64)
    kinds = [
        EDGES, Tensor(EDGES), (Tensor(EDGES), Tensor(weights)), (EDGES, None), graph, matrix,
        matrix.tocsr(), "edges.csv", (Tensor(EDGES[0]), Tensor(EDGES[1]), Tensor(weights)),
    ]  # fmt: skip
    for kind in kinds:
        found = mapper.partition(kind, 3, **GIVEN)
        assert (found.part == usual.part).all(), kind
        assert found.cut == usual.cut


def test_weights_of_both_directions_add(folder: Path) -> None:
    both = np.hstack([EDGES, EDGES[::-1]])
    one, two = (mapper.partition(edges, 3, **GIVEN) for edges in (EDGES, both))
    assert two.cut == 2 * one.cut
    assert (one.part == two.part).all()


def test_weights_of_vertices_may_be_tensors(folder: Path) -> None:
    sizes = np.arange(1, N + 1)
    found = mapper.partition(EDGES, 2, sizes=Tensor(sizes), **GIVEN)
    assert found.weights.tolist() == [int(sizes[found.part == k].sum()) for k in (0, 1)]


def test_isolated_vertices_need_their_number(folder: Path) -> None:
    assert mapper.partition(EDGES, 2, vertices=N + 6, **GIVEN).part.size == N + 6


def test_names_of_vertices_are_kept(folder: Path) -> None:
    graph = networkx.relabel_nodes(networkx.cycle_graph(8), {v: f"v{v}" for v in range(8)})
    assert mapper.partition(graph, 2, **GIVEN).nodes == [f"v{v}" for v in range(8)]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (np.array([3, 5, 8]), "increasing ids"),
        (np.array([3, 3, 8]), "the vertices in `mapper import`"),
        (["b", "a"], "the vertices in `mapper import`"),
    ],
)
def test_the_order_of_named_vertices_is_reported(names: object, order: str) -> None:
    assert order_note(names).endswith(f"in the order of {order}")
    assert order_note(None) == order_note(np.arange(3)) == ""


def test_an_array_of_another_shape_is_refused() -> None:
    with pytest.raises(UsageError, match=r"shape \(3, 4\); give edges as shape \(2, edges\)"):
        as_edges(np.zeros((3, 4)))


def test_progress_is_reported(folder: Path) -> None:
    seen: list[str] = []
    mapper.partition(EDGES, 3, progress=lambda stage, _: seen.append(stage), **GIVEN)
    assert {"coarsen", "V-cycles", "score"} <= set(seen)


def test_the_result_is_described(folder: Path) -> None:
    found = mapper.partition(EDGES, 3, **GIVEN)
    assert repr(found) == (
        f"<GraphPartition: 24 vertices in 3 parts, cut {found.cut}, imbalance "
        f"{found.imbalance:.4f}>"
    )
    assert found.parts == 3
