"""Neuron attributes in npz archives: attributes, undirected edges, faults."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]
ENDS = {"source": np.array([0, 1]), "target": np.array([1, 2])}
SYMMETRIC = np.array([[0, 2.5, 0], [2.5, 0, 1], [0, 1, 9]])


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def matrix_npz(matrix: Any, layout: str, **more: Any) -> bytes:
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, scipy.sparse.coo_array(matrix).asformat(layout))
    with np.load(io.BytesIO(stream.getvalue())) as held:
        return npz(**held, **more)


def test_attributes(converted: Convert) -> None:
    arrays = {
        "neuron/size": np.array([1, 0, 7], np.uint8),
        "neuron/x": np.array([-0.5, 0, 2]),
        "neuron/id": np.array([0, 2, 1]),
        "neuron/id/labels": np.array(["a", "b", "c"]),
        "size": np.array([5]),  # unrelated array
    }
    path = converted("a.npz", npz(**ENDS, **arrays))
    assert edges_of(path) == {(0, 1): 1, (1, 2): 1}
    expected = {"size": [1, 0, 7], "x": [-0.5, 0, 2], "id": [0, 2, 1]}
    assert attributes_of(path) == expected
    with NetworkFile(path) as net:
        assert net.attribute("id").labels == ["a", "b", "c"]


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
def test_undirected_matrices(layout: str, converted: Convert) -> None:
    path = converted("a.npz", matrix_npz(SYMMETRIC, layout, undirected=np.array(True)))
    with NetworkFile(path) as net:
        assert (net.undirected, net.meta.self_loops) == (True, 1)
    assert edges_of(path) == {(0, 1): 2.5, (1, 2): 1}
    path = converted("a.npz", matrix_npz(SYMMETRIC, layout, undirected=np.array(False)))
    assert len(edges_of(path)) == 4


def test_undirected_lists_hold_each_edge_once(converted: Convert) -> None:
    path = converted("a.npz", npz(**ENDS, undirected=np.array(True), neurons=np.array(4)))
    assert edges_of(path) == {(0, 1): 1, (1, 2): 1}
    with NetworkFile(path) as net:
        assert (net.undirected, net.vertices) == (True, 4)


@pytest.mark.parametrize("change", [(0, 1, 3.0), (2, 0, 1.0)])
def test_a_matrix_that_is_not_symmetric(change: tuple[int, int, float], refused: Refuse) -> None:
    matrix = SYMMETRIC.copy()
    matrix[change[:2]] = change[2]
    told = refused("a.npz", matrix_npz(matrix, "csr", undirected=np.array(True)))
    assert "is marked undirected, but its matrix is not symmetric" in told


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("neuron/x", ["a", "b", "c"], "neuron/x is <U1, 1-dimensional; give numbers"),
        ("neuron/x", [[1, 2, 3]], "neuron/x is int64, 2-dimensional; give numbers"),
        ("neuron/x", [1, 2], "attribute 'x' has 2 values for 3 neurons"),
        ("neuron/x", [1, np.nan, 2], "attribute 'x' nan is not finite"),
        ("neuron/size", [1, -2, 3], "attribute 'size' has a negative value"),
        ("neuron/size", [0.5, 2, 3], "sizes must be whole numbers"),
        ("neuron/x", np.array([1, 2, 2**63], np.uint64), "9223372036854775808 exceeds 2"),
    ],
)
def test_faults(name: str, values: Any, message: str, refused: Refuse) -> None:
    assert message in refused("a.npz", npz(**ENDS, **{name: np.array(values)}))


def test_faulty_labels(refused: Refuse) -> None:
    for labels, message in (
        (np.array([1, 2, 3]), "neuron/p/labels is int64; give a list of text"),
        (np.array(["a", "b"]), "attribute 'p' has values outside its 2 labels"),
    ):
        arrays = {"neuron/p": np.array([0, 1, 2]), "neuron/p/labels": labels}
        assert message in refused("a.npz", npz(**ENDS, **arrays))
