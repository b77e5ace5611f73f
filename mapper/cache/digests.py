"""Keys of the cache: digests of the inputs of a computation and of the code that does it."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import struct
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("mapper", "storage", "chipsim", "hw")
LIBRARIES = ("numpy", "scipy", "numba", "onnx", "onnxruntime", "h5py", "pyarrow")
"""Libraries whose version may change a result."""


def digest(*parts: Any) -> bytes:
    """Return the digest of some values, and of the code: BLAKE2b with 32 bytes.

    Values are None, numbers, text, bytes, arrays, paths, and sequences, mappings, data classes and
    types of them. Each is preceded by its kind and size, so that different values have different
    texts. Raises `TypeError` for other values.
    """
    found = hashlib.blake2b(code_digest(), digest_size=32)
    for part in parts:
        _add(found, part)
    return found.digest()


@cache
def code_digest() -> bytes:
    """Return the digest of the project's code, of Python and of the libraries that it uses."""
    found = hashlib.blake2b(digest_size=32)
    root = Path(__file__).resolve().parents[2]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            _add(found, (path.relative_to(root).as_posix(), path.read_bytes()))
    _add(found, (platform.python_version(), platform.machine()))
    for name in LIBRARIES:
        try:
            _add(found, (name, version(name)))
        except PackageNotFoundError:
            _add(found, name)
    return found.digest()


def _add(found: hashlib.blake2b, value: Any) -> None:
    """Add a value to a digest."""
    if value is None or isinstance(value, bool | int):
        _text(found, "n", repr(value).encode())
    elif isinstance(value, float):
        _text(found, "f", struct.pack("<d", value))
    elif isinstance(value, str):
        _text(found, "s", value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bytes | bytearray | memoryview):
        _text(found, "b", value)
    elif isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject:
            raise TypeError("an array of objects has no digest")
        _text(found, "a", f"{array.dtype.str} {np.shape(value)}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    elif isinstance(value, Path):
        _text(found, "p", str(value).encode("utf-8", "surrogateescape"))
    elif isinstance(value, type):
        _text(found, "t", f"{value.__module__}.{value.__qualname__}".encode())
    else:
        _add_all(found, value)


def _add_all(found: hashlib.blake2b, value: Any) -> None:
    """Add a value that holds others to a digest."""
    if dataclasses.is_dataclass(value):
        _add(found, type(value))
        _items(found, [getattr(value, one.name) for one in dataclasses.fields(value)])
    elif isinstance(value, Mapping):
        _items(found, [each for item in value.items() for each in item])
    elif isinstance(value, frozenset | set):
        _items(found, sorted(digest(one) for one in value))
    elif isinstance(value, tuple | list):
        if type(value) not in (tuple, list):
            _add(found, type(value))
        _items(found, value)
    else:
        raise TypeError(f"{type(value).__name__} has no digest")


def _items(found: hashlib.blake2b, values: Iterable[Any]) -> None:
    values = list(values)
    _text(found, "i", str(len(values)).encode())
    for one in values:
        _add(found, one)


def _text(found: hashlib.blake2b, kind: str, data: Any) -> None:
    found.update(f"{kind}{len(data)}:".encode())
    found.update(data)
