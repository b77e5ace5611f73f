"""Small archives of NumPy arrays (npz) with bounded array sizes."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from storage.budget import declared_bytes
from storage.files import open_input

DESCRIPTION = 1 << 14  # most bytes of an array header
DAMAGE: tuple[type[Exception], ...] = (
    ValueError, TypeError, AttributeError, LookupError, ArithmeticError, EOFError, MemoryError,
    RuntimeError, OSError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError,
    SyntaxError,
)  # fmt: skip
"""Errors of zipfile and numpy on altered archives."""

Header = tuple[tuple[int, ...], bool, np.dtype[Any]]


def array_sizes(file: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """Yield the name and the bytes of each wanted array, as its header or the archive declares.

    Raises various errors of zipfile on damage.
    """
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if wanted(name):
                with archive.open(info) as member:
                    yield name, max(info.file_size, _declared(member))


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Return a compressed archive of arrays; equal arrays give equal bytes.

    Raises `TypeError` for objects, which would be pickled.
    """
    found = {name: np.asarray(one) for name, one in arrays.items()}
    for name, one in found.items():
        if one.dtype.hasobject:
            raise TypeError(f"{name} has objects of Python; archives hold numbers and texts")
    buffer = io.BytesIO()
    # older versions of numpy take allow_pickle for the name of an array
    np.savez_compressed(buffer, **found)  # type: ignore[arg-type]  # no name is allow_pickle
    return buffer.getvalue()


def _declared(member: Any) -> int:
    """Return the bytes that the header of an array declares; 0 for a damaged header."""
    try:
        shape, _, kind = array_header(member, None, "an array")
    except DAMAGE:
        return 0
    return declared_bytes(shape, kind.itemsize)


@contextmanager
def open_arrays(path: Path, values: int, names: Collection[str] = ()) -> Iterator[Any]:
    """Open an archive with `numpy.load`; no array may have more than `values` numbers.

    names : arrays that will be read, if others may be larger; empty: all

    A few bytes can inflate to gigabytes, so the directory is checked before any array is read.
    Raises `BadInputError` if it is not a file, and the errors `DAMAGE` if it is damaged.
    """
    # opened here: numpy leaves the file open if the archive is damaged
    with open_input(path) as file:
        for name, size in array_sizes(file, lambda name: not names or name in names):
            if size > DESCRIPTION + 8 * values:
                raise ValueError(f"{name} has {size} bytes, too many for {values} numbers")
        file.seek(0)
        with load_arrays(file, names) as arrays:
            yield arrays


def load_arrays(file: IO[bytes], names: Collection[str] = ()) -> Any:
    """Return an archive opened by `numpy.load`, after a check of the headers of its arrays.

    numpy allocates the shape in a header before it reads the numbers, and returns bytes for a
    member that is no array. names : arrays to check; empty: all members
    """
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if not names or name in names:
                with archive.open(info) as member:
                    array_header(member, info.file_size, name)
    file.seek(0)
    return np.load(file, allow_pickle=False)


def array_header(member: IO[bytes], size: int | None, name: str) -> Header:
    """Return shape, whether axes are in Fortran order, and type of an array.

    size : bytes of its file including the header, checked against the shape; None: unknown
    Raises `ValueError` if there is no array, its version is unknown, or its size is wrong.
    """
    version = np.lib.format.read_magic(member)
    readers: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"{name} has the unknown version {version}")
    shape, turned, dtype = readers[version](member)
    length = math.prod(shape) * dtype.itemsize
    if size is not None and not dtype.hasobject and not 0 < size - length < 1 << 16:
        raise ValueError(f"the size of {name} does not match its shape")
    if not dtype.itemsize and math.prod(shape) > DESCRIPTION:  # takes no bytes, whatever its shape
        raise ValueError(f"{name} has {dtype} of shape {shape}")
    return tuple(map(int, shape)), bool(turned) and len(shape) > 1, dtype
