"""Matrix Market, npz, Parquet and QAPLIB files compared with numpy and scipy."""

from __future__ import annotations

import importlib.util
import io
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from storage.errors import BadInputError
from storage.formats import import_network
from storage.formats.columnar import npystream, scipynpz
from storage.formats.columns import ColumnNames
from storage.formats.text import reader as text_module
from storage.formats.text.matrixmarket import Header, _array_ends
from storage.formats.text.qaplib import grid_of, manhattan
from storage.formats.text.qaplib import read as read_instance
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import Edges, attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]
Matrix = np.ndarray[Any, Any]


def random_matrix(n: int = 7, seed: int = 1) -> Matrix:
    rng = np.random.default_rng(seed)
    return rng.integers(1, 30, (n, n)) * (rng.random((n, n)) < 0.4) / 4


def expected(matrix: Matrix) -> Edges:
    return {
        (i, j): float(matrix[i, j])
        for i, j in product(range(len(matrix)), repeat=2)
        if i != j and matrix[i, j]
    }


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def sparse_npz(matrix: Any) -> bytes:
    stream = io.BytesIO()
    scipy.sparse.save_npz(stream, matrix)
    return stream.getvalue()


def matrix_market(matrix: Any, **options: Any) -> str:
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, matrix, **options)
    return stream.getvalue().decode()


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz", "a.strange"])
def test_matrix_market(
    chunk: int, name: str, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    matrix = random_matrix()
    for source in (matrix, scipy.sparse.coo_array(matrix)):
        path = converted(name, matrix_market(source, symmetry="general"))
        assert edges_of(path) == expected(matrix)
    half = matrix + matrix.T
    for source in (half, scipy.sparse.coo_array(half)):
        path = converted(name, matrix_market(source, symmetry="symmetric"))
        assert edges_of(path) == expected(np.triu(half))
        with NetworkFile(path) as net:
            assert net.undirected


def test_pattern(converted: Convert) -> None:
    text = "%%MatrixMarket matrix coordinate pattern general\n% note\n\n3 3 2\n1 3\n2 2\n"
    path = converted("a.mtx", text)
    assert edges_of(path) == {(0, 2): 1}
    with NetworkFile(path) as net:
        assert (net.vertices, net.meta.self_loops) == (3, 1)


BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 3 1\n", "line 1: the banner must be"),
        ("", ": is empty"),
        (BANNER.replace("real", "complex"), "line 1: complex entries cannot be weights"),
        (
            BANNER.replace("general", "skew-symmetric").replace("real", "pattern"),
            "line 1: a skew-symmetric matrix has signs",
        ),
        (
            BANNER.replace("general", "skew-symmetric") + "3 3 1\n2 2 0\n",
            "line 3: entry on the diagonal of a skew-symmetric matrix",
        ),
        (BANNER.replace("general", "hermitian"), "line 1: symmetry 'hermitian' is not supported"),
        (BANNER.replace("coordinate", "list"), "line 1: layout 'list' is unknown"),
        (BANNER + "3 3\n", "line 2: the size line is '3 3'"),
        (BANNER, "the size line is ''"),
        (BANNER + "3 4 1\n", "line 2: the matrix is 3 x 4"),
        (BANNER + "0 0 0\n", "line 2: no neurons"),
        (BANNER + "3 3 2\n1 2 1\n", "line 3: the file ends after 1 entries"),
        (BANNER + "3 3 1\n1 2 1\n2 3 4\n", "line 4: more entries than the 1 in"),
        (BANNER + "3 3 1\n1 4 1\n", "line 3: 4 is outside 1..3"),
        (BANNER + "3 3 1\n0 1 1\n", "line 3: 0 is outside 1..3"),
        (BANNER + "3 3 1\n1 2 nan\n", "line 3: nan is not a finite number"),
        (BANNER + "3 3 1\n1 2\n", "line 3: 2 columns instead of 3"),
        (
            BANNER.replace("general", "symmetric") + "3 3 1\n1 2 1\n",
            "line 3: entry above the diagonal",
        ),
        (
            BANNER.replace("coordinate", "array").replace("real", "pattern"),
            "line 1: an array has no pattern form",
        ),
    ],
)
def test_matrix_market_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.mtx", text)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8, np.uint8])
def test_scipy_matrices(layout: str, kind: type, converted: Convert) -> None:
    dense = (random_matrix(8) * 4).astype(kind)
    matrix = scipy.sparse.csr_matrix(dense).asformat(layout)
    assert edges_of(converted("a.npz", sparse_npz(matrix))) == expected(dense)


def test_bool_matrix(converted: Convert) -> None:
    dense = random_matrix() > 0
    assert edges_of(converted("a.npz", sparse_npz(scipy.sparse.csr_array(dense)))) == expected(
        dense
    )


def test_arrays(converted: Convert) -> None:
    ends = {"source": np.array([0, 4], np.uint16), "target": np.array([2, 1])}
    assert edges_of(converted("a.npz", npz(**ends))) == {(0, 2): 1, (4, 1): 1}
    path = converted("a.npz", npz(**ends, weight=np.array([0.5, 2]), neurons=9))
    assert edges_of(path) == {(0, 2): 0.5, (4, 1): 2}
    with NetworkFile(path) as net:
        assert net.vertices == 9


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lists"])
def test_npz_in_pieces(
    layout: str, compressed: bool, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays are read a few values and a few bytes at a time."""
    monkeypatch.setattr(scipynpz, "CHUNK", 5)
    monkeypatch.setattr(npystream, "READ_BYTES", 3)
    monkeypatch.setattr(scipynpz, "read_held", None)
    dense = random_matrix(20) * (np.arange(20) % 3 > 0)
    matrix: Any = scipy.sparse.coo_matrix(dense)
    stream = io.BytesIO()
    if layout == "lists":
        save = np.savez_compressed if compressed else np.savez
        ends = {"source": matrix.row, "target": matrix.col.astype(np.uint8)}
        save(stream, **ends, weight=matrix.data)
    else:
        scipy.sparse.save_npz(stream, matrix.asformat(layout), compressed=compressed)
    assert edges_of(converted("a.npz", stream.getvalue())) == expected(dense)


def test_npz_damage_in_the_middle(refused: Refuse) -> None:
    """The checksum of an array is checked after its last piece."""
    ids = np.arange(2000)
    content = bytearray(npz(source=ids, target=ids + 1, weight=np.ones(2000)))
    place = content.index(np.ones(9).tobytes()) + 10000
    content[place] ^= 1
    assert "not a valid npz file (a checksum does not match)" in refused("a.npz", bytes(content))


def test_npz_index_outside(refused: Refuse) -> None:
    matrix = scipy.sparse.csr_array(np.eye(3))
    matrix.indices[1] = 3
    assert "not a valid npz file" in refused("a.npz", sparse_npz(matrix))
    matrix.indices[1] = -1
    assert "-1 is negative" in refused("a.npz", sparse_npz(matrix))
    matrix.indices[1], matrix.indptr[1] = 1, 3
    assert "not a valid npz file" in refused("a.npz", sparse_npz(matrix))


LIST = np.array([0, 1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npz(source=LIST, target=LIST[:1]), "must be lists of equal length"),
        (npz(source=LIST, target=LIST * 0.5), "target is float64; ids must be whole numbers"),
        (npz(source=LIST, target=-LIST), "target of entry 1 (from 0): -1 is negative"),
        (npz(source=LIST, target=LIST, weight=np.array([1, np.nan])), "entry 1 (from 0): nan is"),
        (npz(source=LIST, target=LIST, weight=LIST * 1j), "weight is complex128"),
        (npz(source=LIST, target=LIST, neurons=1), "id 1 is outside 0..0"),
        (npz(source=LIST, target=LIST, neurons=LIST), "neurons must be one whole number"),
        (npz(source=LIST[:0], target=LIST[:0]), "no neurons"),
        (npz(source=np.array([{}, 1]), target=LIST), "not a valid npz file"),
        (npz(other=LIST), "holds other; it must be"),
        (npz(source=np.array([2**63], np.uint64), target=LIST[:1]), "exceeds 2^63 - 1"),
        (sparse_npz(scipy.sparse.csr_array(np.ones((2, 3)))), "the matrix is 2 x 3"),
        (b"PK\3\4", "not a valid npz file"),
        (b"PK\3\4 nonsense", "not a valid npz file"),
        (sparse_npz(scipy.sparse.csr_array(np.eye(50)))[:300], "not a valid npz file"),
    ],
)
def test_npz_faults(content: bytes, message: str, refused: Refuse) -> None:
    assert message in refused("a.npz", content)


def parquet(**columns: Any) -> bytes:
    arrow = pytest.importorskip("pyarrow")
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), stream)
    return stream.getvalue()


def test_parquet(converted: Convert) -> None:
    path = converted("a.parquet", parquet(w=[2, 5], source=[10, 30], target=[30, 20]))
    assert edges_of(path) == {(0, 2): 2, (2, 1): 5}
    assert attributes_of(path) == {"id": [10, 20, 30]}


def test_parquet_of_names(converted: Convert) -> None:
    table = {"type": ["x", "y", "x"], "Pre": ["b", "a", "c"], "POST": ["a", "c", "b"]}
    path = converted("a.parquet", parquet(**table, syn_count=[2, 3, 4]))
    assert edges_of(path) == {(0, 1): 2, (1, 2): 3, (2, 0): 4}
    with NetworkFile(path) as net:
        assert net.attribute("id").labels == ["b", "a", "c"]
    path = converted("a.parquet", parquet(a=["20", "3"], b=[3, 100]))
    assert edges_of(path) == {(1, 0): 1, (0, 2): 1}
    assert attributes_of(path) == {"id": [3, 20, 100]}
    names = ColumnNames(source="y", target="x", weight="-")
    path = converted("a.parquet", parquet(x=[1], y=[5], z=["no"]), extra={"columns": names})
    assert edges_of(path) == {(1, 0): 1}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1, None], "b": [1, 2]}, "column a, row 1 (from 0): a value is missing"),
        ({"a": [1, 2], "b": [1, -2]}, "column b, row 1 (from 0): -2 is negative"),
        ({"a": [0.5], "b": [1]}, "column a holds double"),
        ({"a": [1], "b": [2], "w": [float("nan")]}, "column w, row 0 (from 0): nan is not"),
        ({"a": [1]}, "columns are a; name source and target"),
        ({"source": [], "target": []}, ": no neurons"),
    ],
)
def test_parquet_faults(columns: dict[str, list[Any]], message: str, refused: Refuse) -> None:
    assert message in refused("a.parquet", parquet(**columns))


def test_damaged_parquet(refused: Refuse) -> None:
    assert "not a valid Parquet file" in refused("a.parquet", parquet(a=[1], b=[2])[:-9])


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_altered_binaries(tmp_path: Path) -> None:
    """Any changed byte leads to a network or to a one-line error."""
    contents = [sparse_npz(scipy.sparse.csr_array(random_matrix())), npz(source=LIST, target=LIST)]
    about = {"neuron/size": np.arange(2), "neuron/p/labels": np.array(["a", "b"]),
             "neuron/p": np.arange(2), "undirected": np.array(True)}  # fmt: skip
    contents.append(npz(source=LIST, target=LIST[::-1], **about))
    if importlib.util.find_spec("pyarrow"):
        contents.append(parquet(source=[1, 2, 3], target=[3, 1, 2], weight=[0.5, 1, 2]))
    rng = np.random.default_rng(11)
    source, destination = tmp_path / "a.bin", tmp_path / "net.bin"
    for content in contents:
        name = "parquet" if content.startswith(b"PAR1") else "npz"
        for _ in range(150):
            changed = bytearray(content)
            for place in rng.integers(0, len(content), 3):
                changed[place] = rng.integers(256)
            source.write_bytes(changed)
            try:
                import_network(source, destination, name, threads=1)
            except BadInputError as error:
                assert "\n" not in str(error)
                assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
            destination.unlink(missing_ok=True)


def test_without_pyarrow(refused: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'neuromapper[formats]'" in refused("a.parquet", b"PAR1")


def test_grids_are_found() -> None:
    for rows, columns in product(range(1, 6), repeat=2):
        found = grid_of(manhattan(rows, columns))
        assert found == ((rows, columns) if columns > 1 else (1, rows))
    assert grid_of(np.ones((4, 4), np.int64)) is None


def qaplib(*matrices: Matrix) -> str:
    rows = [" ".join(map(str, row)) for matrix in matrices for row in matrix.tolist()]
    return "\n".join([str(len(matrices[0])), "", *rows])


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_qaplib(swap: bool, symmetric: bool, converted: Convert) -> None:
    flow = random_matrix(6)
    flow = flow + flow.T if symmetric else flow
    matrices = [manhattan(2, 3), flow]
    path = converted("a.dat", qaplib(*matrices[:: -1 if swap else 1]))
    assert edges_of(path) == expected(np.triu(flow) if symmetric else flow)
    with NetworkFile(path) as net:
        assert net.undirected == symmetric
        assert net.meta.provenance["grid"] == [2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty"),
        ("0\n", "line 1: no size"),
        ("2\n0 1\n1 0\n0 1\n", "6 numbers after the size 2; two 2 x 2 matrices have 8"),
        ("2\n0 2\n2 0\n0 3\n3 0\n", "neither matrix holds the Manhattan distances"),
        ("2\n0 1\n1 0\n0 3\n-3 0\n", "line 5: -3 is negative"),
        ("2\n0 1\n1 0\n0 nan\n3 0\n", "line 4: nan is not a finite number"),
    ],
)
def test_qaplib_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.dat", text)


def test_nug12(data_dir: Path, tmp_path: Path) -> None:
    """The best known permutation gives the best known value: 578."""
    folder = data_dir / "placement"
    numbers = [int(word) for word in (folder / "nug12.dat").read_text().split()]
    flow = np.array(numbers[145:]).reshape(12, 12)
    meta = import_network(folder / "nug12.dat", tmp_path / "net.bin")
    assert (meta.neurons, meta.undirected, meta.total_weight) == (12, True, flow.sum() // 2)
    solution = [int(word) for word in (folder / "nug12.sln").read_text().split()]
    place = np.array(solution[2:]) - 1
    value = flow_value(edges_of(tmp_path / "net.bin"), manhattan(3, 4), np.argsort(place))
    other = flow_value(edges_of(tmp_path / "net.bin"), manhattan(3, 4), place)
    assert solution[1] == 578
    assert 578 in (value, other)


def flow_value(edges: Edges, distances: Matrix, place: Matrix) -> float:
    return 2 * sum(w * float(distances[place[u], place[v]]) for (u, v), w in edges.items())


def test_all_instances(data_dir: Path) -> None:
    grids = {"nug30": (5, 6), "sko49": (7, 7), "wil50": (5, 10), "tho40": (5, 8)}
    for name, grid in grids.items():
        assert read_instance(data_dir / "placement" / f"{name}.dat")[:2] == grid


def test_symmetric_arrays_in_pieces() -> None:
    """Rows and columns of any piece of a triangle, also of one that is larger than memory."""
    header = Header(True, False, True, False, 7, 28)
    wanted = [(row, column) for column in range(7) for row in range(column, 7)]
    for first in range(28):
        for last in range(first + 1, 29):
            rows, columns = _array_ends(header, first, last)
            assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == wanted[first:last]
    neurons = 2**31 - 1
    huge = Header(True, False, True, False, neurons, neurons * (neurons + 1) // 2)
    rows, columns = _array_ends(huge, neurons - 1, neurons + 2)
    assert rows.tolist() == [neurons - 1, 1, 2]
    assert columns.tolist() == [0, 1, 1]


@pytest.mark.parametrize("layout", ["coordinate", "array"])
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_skew_symmetric(layout: str, size: int, converted: Convert) -> None:
    """As scipy reads it: both triangles, with opposite signs."""
    rng = np.random.default_rng(size)
    lower = np.tril(rng.integers(-4, 5, (size, size)), -1).astype(float)
    stream = io.BytesIO()
    matrix = lower - lower.T
    scipy.io.mmwrite(
        stream,
        matrix if layout == "array" else scipy.sparse.coo_array(matrix),
        symmetry="skew-symmetric",
    )
    assert f" {layout} ".encode() in stream.getvalue()
    path = converted("a.mtx", stream.getvalue(), weights_are="synapse")
    with NetworkFile(path) as net:
        found = np.zeros((size, size))
        for index in range(net.block_count):
            some = net.read_synapses(index)
            found[some.source, some.target] = some.weight
        assert not net.undirected
    assert np.array_equal(found, matrix)


def test_unsigned_integers(converted: Convert) -> None:
    text = "%%MatrixMarket matrix coordinate unsigned-integer general\n2 2 1\n1 2 4000000000\n"
    assert edges_of(converted("a.mtx", text)) == {(0, 1): 4e9}
