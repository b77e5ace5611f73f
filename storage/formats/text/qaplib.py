"""QAPLIB instances on a grid (Burkard, Karisch, Rendl 1997): n, then two n x n matrices.

One matrix must be the Manhattan distances of a grid with row-major ids; the other one holds the
flows, which are the network. QAPLIB's values sum over ordered pairs: with symmetric flows, where
an edge counts once, the total hops are half the value.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.base import ImportJob
from storage.formats.text.reader import TextReader
from storage.formats.text.tokens import real_values
from storage.store.meta import NetworkMeta

MAX_SIZE = 20_000  # two matrices of this size are held in memory
Matrix = NDArray[np.int64] | NDArray[np.float64]


class Instance(NamedTuple):
    """rows, columns : of the grid; flow : ndarray, shape (n, n), n = rows * columns."""

    rows: int
    columns: int
    flow: Matrix


def manhattan(rows: int, columns: int) -> NDArray[np.int64]:
    """Return distances between grid positions, shape (rows * columns,) * 2, ids row-major."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    return np.abs(y[:, None] - y) + np.abs(x[:, None] - x)


def grid_of(distances: Matrix) -> tuple[int, int] | None:
    """Return (rows, columns) of the grid with these distances, or None if there is none."""
    n = len(distances)
    apart = np.flatnonzero(distances[0] != np.arange(n))  # a row of the grid ends there
    columns = int(apart[0]) if apart.size else n
    if columns and n % columns == 0 and np.array_equal(distances, manhattan(n // columns, columns)):
        return n // columns, columns
    return None


def read(path: Path) -> Instance:
    """Read an instance; raise `BadInputError` if it is incomplete or not a grid instance."""
    with TextReader(path) as reader:
        parts = []
        for tokens in reader.chunks():
            if tokens.mantissa.size and (tokens.mantissa < 0).any():
                token = int(np.flatnonzero(tokens.mantissa < 0)[0])
                raise BadInputError(
                    f"{reader.where(tokens.line_of(token))}: {tokens.mantissa[token]} is negative, "
                    "but traffic cannot be; use its magnitude"
                )
            parts.append(real_values(tokens.mantissa, tokens.exponent))
    values = np.concatenate([np.empty(0, np.int64), *parts])
    n = int(values[0]) if values.size and values[0] in range(MAX_SIZE + 1) else 0
    if not n:
        raise BadInputError(
            f"{path}: line 1: no size; the file must start with its size, 1 to {MAX_SIZE}"
        )
    if values.size != 1 + 2 * n * n:
        raise BadInputError(
            f"{path}: {values.size - 1} numbers after the size {n}; two {n} x {n} matrices have "
            f"{2 * n * n}; download the file again"
        )
    first, second = values[1:].reshape(2, n, n)
    for distances, flow in ((first, second), (second, first)):
        if (grid := grid_of(distances)) is not None:
            return Instance(*grid, flow)
    raise BadInputError(
        f"{path}: neither matrix holds the Manhattan distances of a grid; only grid instances "
        "can be placed on a mesh"
    )


def load(job: ImportJob) -> NetworkMeta:
    """Convert the flows to a network file, undirected if they are symmetric.

    The grid is in the provenance: ``"grid": [rows, columns]``.
    """
    rows, columns, flow = read(job.source)
    undirected = bool((flow == flow.T).all())
    origin, target = np.nonzero(np.triu(flow) if undirected else flow)
    with job.writer(len(flow), undirected=undirected) as writer:
        writer.add(origin, target, flow[origin, target])
        job.progress(1.0)
        provenance = {"format": "qaplib", "source": job.source.name, "grid": [rows, columns]}
        return writer.finish(provenance)
