"""MATLAB files: entry (i, j) of a square matrix is the synapse from neuron i to neuron j.

Each stored entry of a sparse matrix is a synapse; zeros of a dense one are not. If a file has
several square matrices, the user names one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import open_input
from storage.formats.base import ImportJob
from storage.formats.columnar.scipynpz import checked
from storage.formats.columns import ColumnNames, listed
from storage.formats.losses import Magnitudes
from storage.formats.matrices.dense import BLOCK, DenseRows, require_numbers, require_square
from storage.formats.matrices.matfile import SPARSE, MatFile, Variable
from storage.formats.weightkeys import wanted_weight
from storage.store.meta import NetworkMeta
from storage.store.writer import NetworkWriter


def choose_matrix(job: ImportJob, variables: list[Variable], wanted: str | None) -> Variable:
    """Return the variable to read: the one with the wanted name, or the only square matrix."""
    names = listed([one.name for one in variables]) or "nothing"
    if wanted is not None:
        for one in variables:
            if one.name == wanted:
                return _numeric(job, one)
        raise BadInputError(f"{job.source}: holds {names}; none is {wanted!r}")
    square = [
        one
        for one in variables
        if one.is_number and len(one.shape) == 2 and one.shape[0] == one.shape[1] > 1
    ]
    if len(square) == 1:
        return square[0]
    if square:
        raise BadInputError(
            f"{job.source}: holds the matrices {listed([one.name for one in square])}; name one: "
            "--columns weight=NAME"
        )
    raise BadInputError(
        f"{job.source}: holds {names}; it must be a square matrix of numbers, outside structs"
    )


def _numeric(job: ImportJob, one: Variable) -> Variable:
    if not one.is_number:
        raise BadInputError(
            f"{job.source}: {one.name!r} is complex, text, a struct or a cell array; save a matrix "
            "of real numbers"
        )
    return one


def load(job: ImportJob, columns: ColumnNames | None = None) -> NetworkMeta:
    """Convert a matrix to a directed network file.

    columns : its weight names the variable; source and target cannot be chosen
    """
    wanted = wanted_weight(job, "matlab", columns)
    with open_input(job.source) as raw:
        file = MatFile(job.source, raw)
        variable = choose_matrix(job, list(file.variables()), wanted)
        what = f"variable {variable.name[:40]!r}"
        neurons = require_square(job.source, variable.shape, what)
        parts = file.content(variable, job.memory)
    magnitudes = Magnitudes(job.keeps_weights)
    with job.writer(neurons) as writer:
        if variable.kind == SPARSE:
            _add_sparse(job, writer, magnitudes, parts)
        else:
            _add_dense(job, writer, magnitudes, parts[0])
        job.progress(1.0)
        facts = {"format": "matlab", "source": job.source.name, "variable": variable.name}
        return writer.finish(facts | magnitudes.facts)


def _add_dense(
    job: ImportJob, writer: NetworkWriter, magnitudes: Magnitudes, values: NDArray[Any]
) -> None:
    require_numbers(job.source, values.dtype)
    neurons = writer.neurons
    if values.size != neurons**2:
        raise BadInputError(
            f"{job.source}: {values.size} values for {neurons} x {neurons}; save it again"
        )
    rows, step = DenseRows(job.source, writer, magnitudes, turned=True), max(1, BLOCK // neurons)
    matrix = values.reshape(neurons, neurons)
    for first in range(0, neurons, step):
        rows.add(matrix[first : first + step])
        job.progress(min(1.0, (first + step) / neurons))


def _add_sparse(
    job: ImportJob, writer: NetworkWriter, magnitudes: Magnitudes, parts: list[NDArray[Any]]
) -> None:
    row, starts, values = parts
    neurons = writer.neurons
    starts = starts.astype(np.int64)
    rising = starts.size == neurons + 1 and starts[0] == 0 and bool((np.diff(starts) >= 0).all())
    count = int(starts[-1]) if rising else -1
    if count < 0 or count > min(row.size, values.size):
        raise BadInputError(f"{job.source}: the columns of the matrix are damaged; save it again")
    require_numbers(job.source, values.dtype)
    for first in range(0, count, BLOCK):
        last = min(first + BLOCK, count)
        target = np.searchsorted(starts, np.arange(first, last), side="right") - 1
        weight = checked(values[first:last], job.source, "entry", first, signed=True)
        source = checked(row[first:last], job.source, "row", first)
        writer.add(source, target, magnitudes.of(weight))
        job.progress(last / count)
