"""Small archives of NumPy arrays (npz) with bounded array sizes."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from storage.files import open_input

DESCRIPTION = 1 << 14  # most bytes of an array header


@contextmanager
def open_arrays(path: Path, values: int, names: Collection[str] = ()) -> Iterator[Any]:
    """Open an archive with `numpy.load`; no array may have more than `values` numbers.

    names : arrays that will be read, if others may be larger; empty: all

    A few bytes can inflate to gigabytes, so the directory is checked before any array is read.
    Raises `BadInputError` if it is not a file, and various errors of numpy on damage.
    """
    # opened here: numpy leaves the file open if the archive is damaged
    with open_input(path) as file:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if names and info.filename.removesuffix(".npy") not in names:
                    continue
                if info.file_size > DESCRIPTION + 8 * values:
                    raise ValueError(
                        f"{info.filename} has {info.file_size} bytes, too many for {values} numbers"
                    )
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            yield arrays
