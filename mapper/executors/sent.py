"""Compact encoding of integer arrays in answers from workers to the driver.

Numbers are sent less their minimum, or as gaps if they ascend, packed as in
`storage.scratch.packed`. Of sparse sums only the nonzero entries are sent.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.scratch.packed import pack, unpack

UNPACKED_NUMBERS = 64  # arrays with fewer numbers are sent unpacked
SPARSE = 16  # least ratio of all sums to nonzero ones from which a sparse form is used
INT32_MOST = 2**31 - 1  # largest number that can be packed


class Packed(NamedTuple):
    """A packed list of integers; ascending : whether `data` has the gaps between them.

    least : added to each number; ascending lists begin with the gap from it
    """

    data: bytes
    dtype: str
    least: int
    ascending: bool

    def unpacked(self) -> NDArray[Any]:
        values = unpack(self.data)
        if self.ascending:
            values = np.cumsum(values, dtype=np.int64)
        if self.least == 0 and values.dtype == self.dtype:
            return values
        return (values + np.int64(self.least)).astype(self.dtype)


class PackedLists(NamedTuple):
    """A two-dimensional array, packed row by row."""

    rows: tuple[Any, ...]

    def unpacked(self) -> NDArray[Any]:
        return np.stack([received(row) for row in self.rows])


class Shaped(NamedTuple):
    """An array of more dimensions, or with short rows, packed as one flat list."""

    shape: tuple[int, ...]
    values: Any

    def unpacked(self) -> NDArray[Any]:
        found: NDArray[Any] = received(self.values).reshape(self.shape)
        return found


class Sparse(NamedTuple):
    """A sparse array: ascending places of the nonzero entries, and their values."""

    shape: tuple[int, ...]
    places: Any
    values: Any

    def unpacked(self) -> NDArray[np.int64]:
        found = np.zeros(self.shape, np.int64)
        found.ravel()[received(self.places)] = received(self.values)
        return found


def to_send(value: Any) -> Any:
    """Return the value with its arrays packed, in nested tuples, lists and dataclasses."""
    if isinstance(value, np.ndarray):
        return _packed(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(to_send, value))
    if isinstance(value, tuple | list):
        return type(value)(map(to_send, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: to_send(getattr(value, f.name)) for f in fields(value)})
    return value


def total_to_send(total: NDArray[np.int64]) -> Any:
    """Pack a sum, in sparse form if that is smaller."""
    if SPARSE * np.count_nonzero(total) <= total.size:
        places = np.flatnonzero(total)
        return Sparse(total.shape, _packed(places), _packed(total.ravel()[places]))
    return to_send(total)


def received(value: Any) -> Any:
    """Return the argument of `to_send` or `total_to_send`."""
    if isinstance(value, Packed | PackedLists | Shaped | Sparse):
        return value.unpacked()
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(received, value))
    if isinstance(value, tuple | list):
        return type(value)(map(received, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: received(getattr(value, f.name)) for f in fields(value)})
    return value


def _packed(array: NDArray[Any]) -> Any:
    if array.dtype not in (np.int32, np.int64) or array.size < UNPACKED_NUMBERS:
        return array
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] < UNPACKED_NUMBERS):
        return Shaped(array.shape, _packed(array.ravel()))
    if array.ndim == 2:
        return PackedLists(tuple(map(_packed, array)))
    least, most = int(array.min()), int(array.max())
    if most - least > INT32_MOST:
        return array
    values = np.ascontiguousarray(array if least == 0 else array - array.dtype.type(least))
    values = values.astype(np.int32, copy=False)
    ascending = bool((values[1:] >= values[:-1]).all())
    if ascending:
        values = np.diff(values, prepend=np.int32(0))
    return Packed(pack(values), array.dtype.str, least, ascending)


def nbytes(thing: Any) -> int:
    """Return the bytes of all arrays and packed lists in a message."""
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    if isinstance(thing, bytes):
        return len(thing)
    if isinstance(thing, tuple | list):
        return sum(map(nbytes, thing))
    if is_dataclass(thing):
        return sum(nbytes(getattr(thing, field.name)) for field in fields(thing))
    return sum(map(nbytes, vars(thing).values())) if hasattr(thing, "__dict__") else 8
