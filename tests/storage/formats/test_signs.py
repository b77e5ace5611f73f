"""Negative weights: each format that may hold them uses and counts the absolute value."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from storage.errors import BadInputError
from storage.formats import import_network
from storage.formats.losses import WEIGHTS_NEGATIVE, Magnitudes
from storage.formats.objects import write_edges, write_matrix, write_networkx
from tests.storage.formats.conftest import edges_of, meta_of

SOURCE, TARGET = [0, 1, 2, 2], [1, 2, 0, 0]
WEIGHT = [-0.5, 3.0, -2.0, 4.0]
MAGNITUDES = {(0, 1): 0.5, (1, 2): 3.0, (2, 0): 6.0}
NEGATIVE = 2
Array = np.ndarray[Any, np.dtype[Any]]


def lines(mark: str, names: bool = False) -> bytes:
    ends = [(f"n{i}" if names else str(i)) for i in range(3)]
    rows = zip(SOURCE, TARGET, WEIGHT, strict=True)
    text = [mark.join((ends[a], ends[b], str(w))) for a, b, w in rows]
    return "\n".join([mark.join(("source", "target", "weight")), *text]).encode()


def npz(matrix: str | None) -> bytes:
    stream = io.BytesIO()
    if matrix is None:
        np.savez(stream, source=SOURCE, target=TARGET, weight=WEIGHT)
    else:
        entries = scipy.sparse.coo_array((WEIGHT, (SOURCE, TARGET)), shape=(3, 3))
        scipy.sparse.save_npz(stream, entries if matrix == "coo" else entries.asformat(matrix))
    return stream.getvalue()


def parquet() -> bytes:
    arrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    stream = io.BytesIO()
    table = arrow.table({"source": SOURCE, "target": TARGET, "weight": WEIGHT})
    pytest.importorskip("pyarrow.parquet").write_table(table, stream)
    return stream.getvalue()


def market() -> bytes:
    rows = zip(SOURCE, TARGET, WEIGHT, strict=True)
    text = "".join(f"{a + 1} {b + 1} {w}\n" for a, b, w in rows)
    return f"%%MatrixMarket matrix coordinate real general\n3 3 4\n{text}".encode()


def graphml() -> bytes:
    edges = "".join(
        f'<edge source="{a}" target="{b}"><data key="w">{w}</data></edge>'
        for a, b, w in zip(SOURCE, TARGET, WEIGHT, strict=True)
    )
    nodes = "".join(f'<node id="{i}"/>' for i in range(3))
    key = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    return f'<graphml>{key}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>'.encode()


FILES: dict[str, Callable[[], bytes]] = {
    "a.csv": lambda: lines(","),
    "names.csv": lambda: lines(",", names=True),
    "a.txt": lambda: lines(" "),
    "a.mtx": market,
    "coo.npz": lambda: npz("coo"),
    "lists.npz": lambda: npz(None),
    "a.parquet": parquet,
    "a.graphml": graphml,
}


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    meta = import_network(tmp_path / name, tmp_path / "net.bin")
    assert edges_of(tmp_path / "net.bin") == MAGNITUDES
    assert meta.provenance[WEIGHTS_NEGATIVE] == NEGATIVE


@pytest.mark.parametrize("layout", ["csr", "csc", "dia"])
def test_matrices(layout: str, tmp_path: Path) -> None:
    """These formats add duplicate entries before the import: -2 + 4 is one weight."""
    (tmp_path / "a.npz").write_bytes(npz(layout))
    meta = import_network(tmp_path / "a.npz", tmp_path / "net.bin")
    assert edges_of(tmp_path / "net.bin") == {(0, 1): 0.5, (1, 2): 3.0, (2, 0): 2.0}
    assert meta.provenance[WEIGHTS_NEGATIVE] == 1


def test_a_symmetric_matrix(tmp_path: Path) -> None:
    """Its signs are compared before they are dropped; each edge is counted once."""
    matrix = np.array([[0, -2, 0], [-2, 0, 5], [0, 5, 0]])
    np.savez(tmp_path / "a.npz", **_parts(matrix), undirected=True)
    scipy.io.mmwrite(tmp_path / "a.mtx", scipy.sparse.coo_array(matrix), symmetry="symmetric")
    for name in ("a.npz", "a.mtx"):
        meta = import_network(tmp_path / name, tmp_path / "net.bin")
        assert meta.undirected
        assert edges_of(tmp_path / "net.bin") == {(0, 1): 2, (1, 2): 5}
        assert meta.provenance[WEIGHTS_NEGATIVE] == 1
    np.savez(tmp_path / "a.npz", **_parts(np.array([[0, -2], [2, 0]])), undirected=True)
    with pytest.raises(BadInputError, match="its matrix is not symmetric"):
        import_network(tmp_path / "a.npz", tmp_path / "net.bin")


def _parts(matrix: Array) -> dict[str, Any]:
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, scipy.sparse.coo_array(matrix))
    stream.seek(0)
    with np.load(stream) as archive:
        return dict(archive)


def test_objects(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    dense = np.array([[0, -0.5, 0], [0, 0, 3], [-6, 0, 0]])
    write_edges(path, SOURCE, TARGET, WEIGHT)
    assert (edges_of(path), meta_of(path).provenance[WEIGHTS_NEGATIVE]) == (MAGNITUDES, NEGATIVE)
    for matrix in (dense, scipy.sparse.csr_array(dense), scipy.sparse.csc_array(dense)):
        write_matrix(path, matrix)
        assert edges_of(path) == MAGNITUDES
        assert meta_of(path).provenance[WEIGHTS_NEGATIVE] == NEGATIVE
    nx = pytest.importorskip("networkx", reason="no networkx")
    write_networkx(path, nx.from_numpy_array(dense, create_using=nx.DiGraph))
    assert (edges_of(path), meta_of(path).provenance[WEIGHTS_NEGATIVE]) == (MAGNITUDES, NEGATIVE)


def test_no_count_without_negative_weights(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1,0.5\n1,2,-0\n")
    meta = import_network(tmp_path / "a.csv", tmp_path / "net.bin")
    assert WEIGHTS_NEGATIVE not in meta.provenance


def test_magnitudes() -> None:
    magnitudes, whole = Magnitudes(), np.array([1, 0, 7])
    assert magnitudes.of(None) is None
    assert magnitudes.of(whole) is whole
    assert magnitudes.facts == {}
    assert magnitudes.of(-whole).tolist() == [1, 0, 7]
    assert magnitudes.of(np.array([-0.0, -1.5])).tolist() == [0, 1.5]
    assert magnitudes.facts == {WEIGHTS_NEGATIVE: 3}
