"""Numbers to text, and text to files that appear only when they are complete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from isal import isal_zlib
from numba import njit
from numpy.typing import NDArray

from storage.closing import Closing
from storage.files import PartialFile

MAX_DECIMALS = 15
_NO_TEXT = np.empty((0, 0), np.uint8)


@njit(cache=True, nogil=True)
def _put(buffer, at, value):
    """Write a whole number, not negative, at `at`; returns the place behind it."""
    end = at + 1
    rest = value // 10
    while rest:
        rest //= 10
        end += 1
    for place in range(end - 1, at - 1, -1):
        buffer[place] = 48 + value % 10
        value //= 10
    return end


@njit(cache=True, nogil=True)
def _render_lists(own, indptr, ids, weights, buffer):
    """A line a vertex: its own numbers, then the ids from 1 of its neighbours with weights."""
    at = 0
    for v in range(indptr.size - 1):
        start = at
        for k in range(own.shape[1]):
            at = _put(buffer, at, own[v, k])
            buffer[at] = 32
            at += 1
        for e in range(indptr[v], indptr[v + 1]):
            at = _put(buffer, at, np.int64(ids[e]) + 1)
            buffer[at] = 32
            at += 1
            if weights.size:
                at = _put(buffer, at, weights[e])
                buffer[at] = 32
                at += 1
        if at > start:
            at -= 1
        buffer[at] = 10
        at += 1
    return at


@njit(cache=True, nogil=True)
def _render_edges(source, target, weights, decimals, text, buffer):
    """A line ``source,target,weight`` an edge.

    decimals : digits of a weight behind the point; zeros at the end are left out
    text : ndarray[uint8], shape (edges, width), the weights padded with zero bytes; or (0, 0)
    """
    scale = 1
    for _ in range(decimals):
        scale *= 10
    at = 0
    for e in range(source.size):
        at = _put(buffer, at, source[e])
        buffer[at] = 44
        at = _put(buffer, at + 1, target[e])
        buffer[at] = 44
        at += 1
        if text.size:
            for k in range(text.shape[1]):
                if text[e, k] == 0:
                    break
                buffer[at] = text[e, k]
                at += 1
        else:
            at = _put(buffer, at, weights[e] // scale)
            rest = weights[e] % scale
            if rest:
                buffer[at] = 46
                at += 1
                digit = scale // 10
                while rest:
                    buffer[at] = 48 + rest // digit
                    rest %= digit
                    digit //= 10
                    at += 1
        buffer[at] = 10
        at += 1
    return at


def _width(values: NDArray[np.integer]) -> int:
    """Bytes that the largest of `values` and a separator take."""
    return len(str(int(values.max()))) + 1 if values.size else 0


def render_lists(
    own: NDArray[np.int64],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    weights: NDArray[np.int64] | None,
) -> bytes:
    """Lines of a METIS file: own numbers, then neighbours counted from 1, weights after each.

    own : shape (vertices, k); indptr : shape (vertices + 1,); ids, weights : shape (entries,)
    """
    given = np.empty(0, np.int64) if weights is None else weights
    room = indptr.size + own.size * _width(own) + ids.size * (_width(ids) + 1 + _width(given))
    buffer = np.empty(room, np.uint8)
    return buffer[: _render_lists(own, indptr, ids, given, buffer)].tobytes()


def render_edges(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    stored: NDArray[np.int64],
    unit: float,
) -> bytes:
    """Lines ``source,target,weight`` with weight = stored * unit, exact for units 10^-k.

    All arrays have the shape (edges,) and no negative values.
    """
    decimals = decimals_of(unit)
    text = _NO_TEXT
    if decimals is None and stored.size:
        shown = (stored * unit).astype("S32")
        text = shown.view(np.uint8).reshape(stored.size, 32)
    weight_room = 33 if decimals is None else _width(stored) + decimals + 2
    buffer = np.empty(source.size * (_width(source) + _width(target) + weight_room), np.uint8)
    used = _render_edges(source, target, stored, decimals or 0, text, buffer)
    return buffer[:used].tobytes()


def decimals_of(unit: float) -> int | None:
    """k if the unit is 10^-k, else None."""
    return next((k for k in range(MAX_DECIMALS + 1) if float(f"1e-{k}") == unit), None)


class TextSink(Closing):
    """A text file, gzipped if its name ends in ``.gz``; without `commit` nothing is kept."""

    def __init__(self, path: Path) -> None:
        packed = path.name.lower().endswith(".gz")
        self._packer = isal_zlib.compressobj(2, isal_zlib.DEFLATED, 31) if packed else None
        self._file = PartialFile(path)

    def write(self, data: bytes) -> None:
        self._file.write(data if self._packer is None else self._packer.compress(data))

    def commit(self) -> None:
        if self._packer is not None:
            self._file.write(self._packer.flush())
        self._file.commit()

    def close(self) -> None:
        self._file.close()
