"""Small archives of NumPy arrays (npz), of which it is known how long the arrays can be."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from storage.files import open_input

DESCRIPTION = 1 << 14  # bytes before the numbers of an array, at most


@contextmanager
def open_arrays(path: Path, values: int, names: Collection[str] = ()) -> Iterator[Any]:
    """An archive as `numpy.load` opens it; no array in it has more than `values` numbers.

    names : of the arrays that will be read, where others may be longer; none are all

    A few bytes can inflate to gigabytes, so the directory is looked at before anything is read.
    Raises `BadInputError` for what is no file, and what numpy raises about damage, of many kinds.
    """
    # opened here: numpy leaves the file open when the archive is damaged
    with open_input(path) as file:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if names and info.filename.removesuffix(".npy") not in names:
                    continue
                if info.file_size > DESCRIPTION + 8 * values:
                    raise ValueError(
                        f"{info.filename} has {info.file_size} bytes, {values} numbers have less"
                    )
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            yield arrays
