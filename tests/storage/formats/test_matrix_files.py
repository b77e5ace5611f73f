"""Square matrices in text, npy and MATLAB files, and texts that are lists of edges instead."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from storage.errors import BadInputError, MemoryShortError
from storage.formats import import_network, recognise
from storage.formats.columns import ColumnNames
from storage.formats.losses import ASSUMED
from storage.formats.matrices import dense
from storage.formats.text import reader
from tests.storage.formats.conftest import attributes_of, edges_of, meta_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]
Matrix = np.ndarray[Any, Any]


def random_matrix(neurons: int, seed: int = 1) -> Matrix:
    rng = np.random.default_rng(seed)
    return rng.integers(-9, 30, (neurons, neurons)) * (rng.random((neurons, neurons)) < 0.4) / 4


def expected(matrix: Matrix) -> dict[tuple[int, int], float]:
    """Return the traffic of the synapses of a matrix."""
    ends = zip(*np.nonzero(matrix), strict=True)
    return {(int(i), int(j)): abs(float(matrix[i, j])) for i, j in ends if i != j}


def text_of(matrix: Matrix, mark: str = ",") -> str:
    return "".join(mark.join(map(str, row)) + "\n" for row in matrix.tolist())


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_numbers(
    mark: str, chunk: int, converted: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", chunk)
    matrix = random_matrix(7)
    path = converted("a.csv", "# rows are sources\n" + text_of(matrix, mark))
    assert edges_of(path) == expected(matrix)
    assert (meta_of(path).provenance["format"], meta_of(path).undirected) == ("matrix", False)
    assert "--format edgelist" in meta_of(path).provenance[ASSUMED]


@pytest.mark.parametrize(
    ("corner", "names", "labelled", "mark"),
    [
        ("", "abcde", True, ","),
        ("name", "abcde", True, ";"),
        ("", "34567", True, "\t"),
        (None, "abcde", True, " "),
        (None, "abcde", False, ","),
    ],
)
def test_names(
    corner: str | None, names: str, labelled: bool, mark: str, converted: Convert
) -> None:
    matrix = random_matrix(5)
    head = [*names] if corner is None else [corner, *names]
    rows = [
        [name] * labelled + list(map(str, row))
        for name, row in zip(names, matrix.tolist(), strict=True)
    ]
    text = "".join(mark.join(row) + "\n" for row in [head, *rows])
    path = converted("a.tsv", text)
    assert edges_of(path) == expected(matrix)
    ids = attributes_of(path)["id"]
    assert ids == ([3, 4, 5, 6, 7] if names[0] == "3" else [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("0,1,2\n1,0,2\n2,1,0\n", "edgelist"),  # three numbers per line are an edge
        ("0 1\n1 0\n", "edgelist"),
        ("0,1,2,3\n" * 3, "edgelist"),
        ("0,1,2,3\n" * 5, "edgelist"),
        ("source,target,weight,delay\n" + "0,1,2,3\n" * 4, "edgelist"),
        ("# source target weight delay\n" + "0 1 2 3\n" * 4, "edgelist"),
        ("a,b,c,d\n" + "x,1,2,3\n" * 4, "edgelist"),
        ("0 1 {'weight': 2, 'x': 3}\n" * 4, "edgelist"),
        ("0,1,2,3\n" * 4, "matrix"),
        ("a,b,c,d\n" + "0,1,2,3\n" * 4, "matrix"),
    ],
)
def test_a_matrix_is_square_and_has_four_columns(text: str, format: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert recognise(tmp_path / "a.csv").name == format
    assert recognise(tmp_path / "a.csv", table=True).name == "edgelist"
    assert recognise(tmp_path / "a.csv", "matrix").name == "matrix"


def test_named_columns_make_a_table(converted: Convert) -> None:
    """Four rows of four columns remain a list of edges if the user names columns."""
    extra = {"columns": ColumnNames("1", "2", "3")}
    path = converted("a.csv", "5,1,2.5,1\n1,2,1,1\n2,3,1,1\n3,5,1,1\n", extra=extra)
    assert attributes_of(path) == {"id": [1, 2, 3, 5]}
    assert edges_of(path)[3, 0] == 2.5


def test_small_matrices(converted: Convert, refused: Refuse) -> None:
    assert edges_of(converted("a.csv", "0,2\n3,0\n", format="matrix")) == {(0, 1): 2, (1, 0): 3}
    assert edges_of(converted("a.csv", "x\n0\n", format="matrix")) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n1,0\n1,1\n", ": 2 columns and more rows; a network needs a square matrix"),
        ("0,1,2\n1,0,1\n", ": 3 columns and 2 rows; a network needs a square matrix"),
        ("0,1\n1\n", ": line 2: 1 columns instead of 2"),
        ("0,1\nx,1\n", ": line 2: 'x' is not a number"),
        (",a,b\na,0,1\nc,1,0\n", ": line 3: row 2 is called 'c', column 2 'b'; use the same"),
        (",a,a\na,0,1\na,1,0\n", ": line 1: two columns are called 'a'"),
        (",a,b\na,0,x\nb,1,0\n", ": line 2: entry 'x' is not a number"),
        (",a,b\na,0,1\nb,1\n", ": line 3: 2 columns instead of 3"),
        ("0,1e999\n1,0\n", ": entry [0, 1] (from 0) is inf, which cannot be a weight"),
    ],
)
def test_faulty_text(text: str, message: str, refused: Refuse) -> None:
    assert refused("a.csv", text, format="matrix").startswith(message)


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", ">f8", "i2", "u1", "bool", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(kind: str, order: Any, converted: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "BLOCK", 12)
    matrix = random_matrix(6)
    matrix = (np.abs(matrix) if kind in ("u1", "u8", "bool") else matrix).astype(kind)
    stream = io.BytesIO()
    np.save(stream, np.asarray(matrix, order=order))
    assert edges_of(converted("a.npy", stream.getvalue())) == expected(matrix.astype(float))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 4)), ": the matrix is 3 x 4; a network needs a square one"),
        (np.zeros(4), ": the matrix is 4; a network needs a square one"),
        (np.zeros((0, 0)), ": the matrix has 0 rows; a network needs 1 to"),
        (np.zeros((2, 2), complex), ": the matrix holds complex128; give whole or real numbers"),
        (np.array([["a"]]), ": the matrix holds <U1; give whole or real numbers"),
        (np.array([[0, np.nan], [1, 0]]), ": entry [0, 1] (from 0) is nan, which cannot be a weig"),
        (
            np.array([[0, 2**63], [1, 0]], np.uint64),
            ": entry [0, 1] (from 0) is 9223372036854775",
        ),
        (np.array([[{}]]), ": the matrix holds object; give whole or real numbers"),
    ],
)
def test_faulty_npy(array: Matrix, message: str, refused: Refuse) -> None:
    stream = io.BytesIO()
    np.save(stream, array)
    assert refused("a.npy", stream.getvalue()).startswith(message)


def mat(compressed: bool = True, **content: Any) -> bytes:
    stream: Any = io.BytesIO()
    scipy.io.savemat(stream, content, do_compression=compressed)
    data: bytes = stream.getvalue()
    return data


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "u1"])
@pytest.mark.parametrize("sparse", [False, True])
def test_matlab(sparse: bool, kind: str, compressed: bool, converted: Convert) -> None:
    matrix = random_matrix(20)
    matrix = (np.abs(matrix) if kind == "u1" else matrix).astype(kind)
    stored = scipy.sparse.csc_array(matrix.astype("f8")) if sparse else matrix
    path = converted("a.mat", mat(compressed, text="x", A=stored, v=np.arange(4)))
    assert edges_of(path) == expected(matrix)
    assert meta_of(path).provenance["variable"] == "A"
    path = converted(
        "a.mat", mat(compressed, A=stored, B=np.eye(2)), extra={"columns": ColumnNames(weight="A")}
    )
    assert edges_of(path) == expected(matrix)


def test_logical_matrices(converted: Convert) -> None:
    matrix = random_matrix(5) > 0
    assert edges_of(converted("a.mat", mat(A=matrix))) == expected(matrix.astype(float))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (mat(A=np.eye(3), B=np.eye(4)), ": holds the matrices A, B; name one: --columns weight"),
        (mat(A=np.zeros((2, 3))), ": holds A; it must be a square matrix of numbers"),
        (mat(Problem={"A": np.eye(3)}), ": holds Problem; it must be a square matrix of numbers"),
        (mat(A=1j * np.eye(3)), ": holds A; it must be a square matrix of numbers"),
        (mat(), ": holds nothing; it must be a square matrix"),
        (b"MATLAB 7.3 MAT-file".ljust(200), ": is a MATLAB 7.3 file (HDF5); save it with"),
        (b"MATLAB 5.0 MAT-file", ": not a MATLAB file of version 5 to 7; save it with"),
        (mat(A=np.eye(3))[:150], ": not a valid MATLAB file: a variable is cut off"),
    ],
)
def test_faulty_matlab(data: bytes, message: str, refused: Refuse) -> None:
    assert refused("a.mat", data).startswith(message)


def test_unknown_variable(refused: Refuse) -> None:
    data = mat(A=np.eye(3), t="text")
    for name, message in (("B", ": holds A, t; none is 'B'"), ("t", ": 't' is complex, text, a")):
        extra = {"columns": ColumnNames(weight=name)}
        assert refused("a.mat", data, extra=extra).startswith(message)


def test_large_variables_are_not_inflated(tmp_path: Path) -> None:
    """The size that a variable declares is compared with the memory before it is read."""
    (tmp_path / "a.mat").write_bytes(mat(A=np.zeros((1500, 1500))))
    with pytest.raises(MemoryShortError, match="variable 'A' needs 72,000,"):
        import_network(tmp_path / "a.mat", tmp_path / "net.bin", memory=20 << 20)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mat"]


@pytest.mark.parametrize("name", ["a.pickle", "a.pkl.gz", "a"])
def test_pickles_are_refused(name: str, tmp_path: Path) -> None:
    import gzip
    import pickle

    data = pickle.dumps({"graph": [1, 2, 3]})
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(BadInputError, match="is a pickle, which may run any program") as caught:
        recognise(tmp_path / name)
    assert "Graph.write_graphml" in str(caught.value)


def test_a_damaged_header_of_an_array(tmp_path: Path) -> None:
    """Messages of numpy show objects of Python."""
    np.save(tmp_path / "a.npy", np.eye(3))
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(
        data.replace(b"'fortran_order': False", b"'fortran_order': Falsf")
    )
    with pytest.raises(BadInputError, match=r"not a valid npy file \(its header is damaged\)"):
        import_network(tmp_path / "a.npy", tmp_path / "net.bin")
