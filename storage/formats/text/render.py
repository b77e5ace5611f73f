"""Formatting of numbers as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

MAX_DECIMALS = 15


@njit(cache=True, nogil=True)
def _put(buffer, at, value):
    """Write a non-negative integer at `at`; return the position after it."""
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
    """Write a line per vertex: own numbers, then neighbour ids from 1 with weights."""
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
def _put_decimal(buffer, at, value, decimals, scale):
    """Write value / scale with scale = 10^decimals, without trailing zeros."""
    at = _put(buffer, at, value // scale)
    rest = value % scale
    if rest:
        buffer[at] = 46
        at += 1
        digit = scale // 10
        while rest:
            buffer[at] = 48 + rest // digit
            rest %= digit
            digit //= 10
            at += 1
    return at


@njit(cache=True, nogil=True)
def _copy(buffer, at, data, first, last):
    for i in range(first, last):
        buffer[at] = data[i]
        at += 1
    return at


@njit(cache=True, nogil=True)
def _render_rows(columns, frame, names, named, decimals, values, buffer):
    """Write text for each row: its values, with a frame part before and after each.

    columns : ndarray[int64], shape (columns, rows)
    frame, names : `Words`
    named : number of leading columns that hold indices of names
    decimals : digits of the last column after the point, or -1 if `values` has them as words
    """
    scale = 1
    for _ in range(decimals):
        scale *= 10
    at = 0
    last = columns.shape[0] - 1
    for row in range(columns.shape[1]):
        for column in range(last + 1):
            at = _copy(buffer, at, frame.text, frame.ends[column], frame.ends[column + 1])
            value = columns[column, row]
            if column < named:
                at = _copy(buffer, at, names.text, names.ends[value], names.ends[value + 1])
            elif column < last:
                at = _put(buffer, at, value)
            elif decimals < 0:
                at = _copy(buffer, at, values.text, values.ends[row], values.ends[row + 1])
            else:
                at = _put_decimal(buffer, at, value, decimals, scale)
        at = _copy(buffer, at, frame.text, frame.ends[last + 1], frame.ends[last + 2])
    return at


def _width(values: NDArray[np.integer]) -> int:
    """Return the bytes for the largest of `values` and a separator."""
    return len(str(int(values.max()))) + 1 if values.size else 0


def render_lists(
    own: NDArray[np.int64],
    indptr: NDArray[np.int64],
    ids: NDArray[np.int32],
    weights: NDArray[np.int64] | None,
) -> bytes:
    """Return lines of a METIS file: own numbers, then neighbours from 1, weights after each.

    own : shape (vertices, k); indptr : shape (vertices + 1,); ids, weights : shape (entries,)
    """
    given = np.empty(0, np.int64) if weights is None else weights
    size = indptr.size + own.size * _width(own) + ids.size * (_width(ids) + 1 + _width(given))
    buffer = np.empty(size, np.uint8)
    return buffer[: _render_lists(own, indptr, ids, given, buffer)].tobytes()


class Words(NamedTuple):
    """Concatenated words.

    text : ndarray[uint8]; ends : ndarray[int64], shape (words + 1,), offsets of the words
    """

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, words: Iterable[bytes]) -> Words:
        held = list(words)
        lengths = np.fromiter(map(len, held), np.int64, len(held))
        return cls(np.frombuffer(b"".join(held), np.uint8), np.append(0, np.cumsum(lengths)))


def _as_words(values: NDArray[np.float64]) -> Words:
    """Return each value in the fewest digits that identify it, shape (values,)."""
    padded = values.astype("S32").view(np.uint8).reshape(values.size, 32)
    filled = padded != 0
    return Words(padded[filled], np.append(0, np.cumsum(np.count_nonzero(filled, axis=1))))


_NO_WORDS = Words(np.empty(0, np.uint8), np.zeros(1, np.int64))


def render_rows(
    columns: Sequence[NDArray[np.int64]],
    frame: Sequence[bytes],
    *,
    unit: float = 1.0,
    names: Words | None = None,
    named: int = 0,
) -> bytes:
    """Return rows of numbers as text: frame[0], columns[0], frame[1], ..., the last frame part.

    columns : each of shape (rows,), no negative values
    unit : of the last column, whose values are exact for units 10^-k
    names, named : if given, the first `named` columns hold indices of names
    """
    named = 0 if names is None else named
    stacked = np.stack([column.astype(np.int64, copy=False) for column in columns])
    rows, values = stacked.shape[1], _NO_WORDS
    words = _NO_WORDS if names is None else names
    size = rows * sum(map(len, frame))
    for index, column in enumerate(stacked):
        if index < named:
            size += int((words.ends[column + 1] - words.ends[column]).sum())
        else:
            size += rows * _width(column)
    decimals = decimals_of(unit)
    if decimals is None:
        values = _as_words(stacked[-1] * unit)
        size += values.text.size
    else:
        size += rows * (decimals + 2)
    buffer = np.empty(size, np.uint8)
    digits = -1 if decimals is None else decimals
    used = _render_rows(stacked, Words.of(frame), words, named, digits, values, buffer)
    return buffer[:used].tobytes()


CSV = (b"", b",", b",", b"\n")


def render_edges(
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    stored: NDArray[np.int64],
    unit: float,
) -> bytes:
    """Return lines ``source,target,weight`` with weight = stored * unit, exact for units 10^-k.

    All arrays have the shape (edges,) and no negative values.
    """
    return render_rows((source, target, stored), CSV, unit=unit)


def decimals_of(unit: float) -> int | None:
    """Return k if the unit is 10^-k, else None."""
    return next((k for k in range(MAX_DECIMALS + 1) if float(f"1e-{k}") == unit), None)
