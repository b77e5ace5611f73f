"""NumPy arrays (`numpy.save`): entry [i, j] of a square matrix is the synapse from i to j.

Entries of 0 are not synapses. The file is read in blocks of rows.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from storage.budget import require_room
from storage.errors import BadInputError, reason_of
from storage.files import open_input, read_error
from storage.formats.base import ImportJob
from storage.formats.losses import Magnitudes
from storage.formats.matrices.dense import BLOCK, DenseRows, require_numbers, require_square
from storage.npz import DAMAGE, array_header
from storage.store.meta import NetworkMeta

ROW_BYTES = 40  # bytes per entry of a block of rows


def read_shape(path: Path, file: BinaryIO) -> tuple[int, bool, np.dtype[Any]]:
    """Return the neurons, whether columns are stored first, and the type of an open file."""
    size = os.fstat(file.fileno()).st_size
    try:
        shape, turned, dtype = array_header(file, size, "the array")
    except DAMAGE as error:
        reason = reason_of(error)
        if "<" in reason:  # objects of Python in messages of numpy
            reason = "its header is damaged"
        raise BadInputError(f"{path}: not a valid npy file ({reason}); save it again") from error
    require_numbers(path, dtype)
    return require_square(path, shape), turned, dtype


def load(job: ImportJob) -> NetworkMeta:
    """Convert a dense matrix to a directed network file."""
    path = job.source
    with open_input(path) as file:
        neurons, turned, dtype = read_shape(path, file)
        count = max(1, BLOCK // neurons)
        require_room(f"{path}: a row of the matrix", ROW_BYTES * neurons, job.memory)
        magnitudes = Magnitudes(job.keeps_weights)
        with job.writer(neurons) as writer:
            rows = DenseRows(path, writer, magnitudes, turned)
            while rows.rows < neurons:
                some = min(count, neurons - rows.rows)
                wanted = some * neurons * dtype.itemsize
                try:
                    data = file.read(wanted)
                except OSError as error:
                    raise read_error(path, error) from error
                if len(data) < wanted:
                    raise BadInputError(f"{path}: the array is cut off; save it again")
                rows.add(np.frombuffer(data, dtype).reshape(some, neurons))
                job.progress(rows.rows / neurons)
            return writer.finish({"format": "npy", "source": path.name, **magnitudes.facts})
