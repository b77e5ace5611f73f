"""NumPy archives: a matrix of `scipy.sparse.save_npz`, or arrays that list the edges.

Row = source, column = target. Of a matrix the stored entries count, explicit zeros as well, save
for the block formats `bsr` and `dia`, whose zeros are padding. Lists are `source`, `target`,
optionally `weight` and `neurons` (else the largest id + 1).
"""

from __future__ import annotations

import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import DEFAULT_MEMORY, Progress
from storage.meta import NetworkMeta
from storage.writer import NetworkWriter

CHUNK = 1 << 19
_DAMAGE = (  # all that numpy, scipy and zipfile were seen to raise on altered files
    ValueError,
    KeyError,
    TypeError,
    EOFError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


class Entries(ABC):
    """The edges of a file, all in memory as the format has them.

    size : number of entries
    """

    def __init__(self, path: Path, neurons: int, size: int, weight: NDArray[Any] | None) -> None:
        self.path, self.neurons, self.size = path, neurons, size
        self._weight = weight

    @abstractmethod
    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Sources and targets of entries first .. last-1."""

    def chunks(self) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]]:
        for first in range(0, self.size, CHUNK):
            last = min(first + CHUNK, self.size)
            source, target = self.ends(first, last)
            weight = None
            if self._weight is not None:
                weight = _checked(self._weight[first:last], self.path, "weight", first)
            yield source, target, weight


class _Lists(Entries):
    def __init__(self, path: Path, arrays: dict[str, NDArray[Any]]) -> None:
        source, target, weight = arrays["source"], arrays["target"], arrays.get("weight")
        given = [array for array in (source, target, weight) if array is not None]
        if len({array.shape for array in given}) != 1 or source.ndim != 1:
            raise BadInputError(f"{path}: source, target, weight must be lists of one length")
        for name, array in (("source", source), ("target", target)):
            if not np.issubdtype(array.dtype, np.integer):
                raise BadInputError(f"{path}: {name} is {array.dtype}; ids are whole numbers")
            _checked(array, path, name, 0)
        neurons = arrays.get("neurons")
        if neurons is not None and (neurons.size != 1 or neurons.dtype.kind not in "iu"):
            raise BadInputError(f"{path}: neurons must be one whole number")
        largest = max((int(a.max()) for a in (source, target) if a.size), default=-1)
        count = largest + 1 if neurons is None else int(neurons.item())
        super().__init__(path, count, source.size, weight)
        self._source, self._target = source, target

    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self._source[first:last], self._target[first:last]


class _Matrix(Entries):
    def __init__(self, path: Path, matrix: Any) -> None:
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            size = " x ".join(map(str, matrix.shape))
            raise BadInputError(f"{path}: the matrix is {size}; a network needs a square one")
        if matrix.format in ("bsr", "dia"):
            matrix = matrix.tocoo()
            matrix.eliminate_zeros()
        elif matrix.format not in ("csr", "csc"):
            matrix = matrix.tocoo()
        super().__init__(path, matrix.shape[0], matrix.nnz, matrix.data)
        self._matrix = matrix

    def ends(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
        matrix = self._matrix
        if matrix.format == "coo":
            return matrix.row[first:last], matrix.col[first:last]
        major = np.searchsorted(matrix.indptr, np.arange(first, last), side="right") - 1
        minor = matrix.indices[first:last]
        return (major, minor) if matrix.format == "csr" else (minor, major)


def _checked(values: NDArray[Any], path: Path, name: str, first: int) -> NDArray[Any]:
    """Values as int64 or float64; raises `BadInputError` naming the entry that can't be one."""
    kind = values.dtype.kind
    if kind not in "biuf":
        raise BadInputError(f"{path}: {name} is {values.dtype}; give whole or real numbers")
    if kind == "f":
        wrong, fault = ~np.isfinite(values), "is not finite; repair it"
    elif kind == "u":
        wrong, fault = values > np.uint64(2**63 - 1), "is beyond 2^63 - 1; scale it down"
    else:
        wrong, fault = np.zeros(values.shape, np.bool_), ""
    if not wrong.any():
        wrong, fault = values < 0, "is negative; use its magnitude"
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{path}: {name} of entry {first + at} (from 0): {values[at]} {fault}")
    return values.astype(np.float64 if kind == "f" else np.int64, copy=False)


def _archive(file: BinaryIO) -> Any:
    archive = np.load(file, allow_pickle=False)
    if isinstance(archive, np.ndarray):
        raise ValueError("a single array")
    return archive


def read(path: Path) -> Entries:
    """Open either kind; raises `BadInputError` if the archive is neither, or damaged."""
    try:
        # opened here: numpy leaves the file open when the archive is damaged
        with path.open("rb") as file, _archive(file) as archive:
            names = set(archive.files)
            if {"source", "target"} <= names:
                wanted = names & {"source", "target", "weight", "neurons"}
                return _Lists(path, {name: archive[name] for name in wanted})
            sparse = {"format", "shape"} <= names
        if sparse:
            with path.open("rb") as file:
                matrix: Any = scipy.sparse.load_npz(file)
            if matrix.format in ("csr", "csc"):
                matrix.check_format(full_check=True)
            return _Matrix(path, matrix)
    except BadInputError:
        raise
    except OSError as error:
        raise BadInputError(f"{path}: cannot read: {error.strerror or error}") from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: not a sound npz file ({reason}); save it again") from error
    held = " ".join(", ".join(sorted(names)).split()) or "nothing"
    raise BadInputError(
        f"{path}: holds {held}; it must be a scipy.sparse matrix, "
        "or arrays source, target[, weight]"
    )


def load(
    source: Path,
    destination: Path,
    *,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NetworkMeta:
    """Convert an npz file to a directed network file; raises `BadInputError`."""
    entries = read(source)
    if entries.neurons <= 0:
        raise BadInputError(f"{source}: no neurons; a network needs at least one")
    with NetworkWriter(
        destination,
        entries.neurons,
        memory=memory,
        threads=threads,
        provenance={"format": "npz", "source": source.name},
    ) as writer:
        done = 0
        for chunk in entries.chunks():
            writer.add(*chunk)
            done += chunk[0].size
            if progress is not None:
                progress(done / entries.size)
        return writer.finish()
