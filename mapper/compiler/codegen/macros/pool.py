"""Pool words: parameters of a macro record's operator that do not fit in its 64 bytes.

The words of a record are items: a word with sort and length, followed by that number of 32-bit
words. They start at a parameter word of 16 lanes, as does the bias that follows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.shape import PARAMETER_LANES
from mapper.errors import MapperError

Int64 = NDArray[np.int64]
_LENGTH = 8  # bit position of an item's length
_MOST = 1 << 31


class Sort(IntEnum):
    """The contents of an item.

    NAME index of the name of its ONNX node
    LONG fields that are too large: field index, low half, high half
    RESULT rows and columns, type, index of the name
    SOURCE type and name index of the input feature map, and its storage
    BESIDE pixel stride, zero point, type, rows, columns and name of the second map of an addition
        or a product, and its storage
    TARGET storage of the result
    COPY address, pixel stride and name of a copy of the result, and its storage
    GROUPS groups of a convolution
    SHIFT number of trailing zeros removed from the bias
    CUT rows, columns, output blocks, input blocks, rows and columns of the kernel, and edges of a
        tile
    WORDS maximum weight words of the host per tile
    REQUANTISE low, high, zero point, shift, index of the rounding
    FACTOR, NEGATIVE scale words as in parameters: number of axes, their sizes, words
    OFFSET one for all channels or one per channel, in halves
    CLAMP low, high
    ADD factors a, b, shift, constant in halves, low, high, rounding, and index of the first input
    MULTIPLY index of the first input
    LOOKUP entries of a table
    THRESHOLD thresholds of the channels in halves, then their flips
    SIGN empty: the threshold is the zero point
    SIDE empty: computed from the result and stored in addition to it
    SEND destination of a part of a result: 0 for the result, 1 and above for its copies; kind,
        address, pixel stride, rows and blocks (first and end), core, stream, credits, and storage
        of the whole
    """

    NAME = 1
    LONG = 2
    RESULT = 3
    SOURCE = 4
    BESIDE = 5
    TARGET = 6
    COPY = 7
    GROUPS = 8
    SHIFT = 9
    CUT = 10
    WORDS = 11
    REQUANTISE = 12
    FACTOR = 13
    NEGATIVE = 14
    OFFSET = 15
    CLAMP = 16
    ADD = 17
    THRESHOLD = 18
    SIGN = 19
    SIDE = 20
    SEND = 21
    MULTIPLY = 22
    LOOKUP = 23


class Item(NamedTuple):
    sort: Sort
    words: tuple[int, ...] = ()


def halves(values: Iterable[int]) -> tuple[int, ...]:
    """Return 64-bit numbers as words: low half, then high half."""
    data = np.array([int(value) for value in values], "<i8")
    return tuple(np.frombuffer(data.tobytes(), "<i4").tolist())


def wholes(words: Sequence[int]) -> list[int]:
    """Return 64-bit numbers from words; the inverse of `halves`."""
    if len(words) % 2:
        raise ValueError("odd number of words")
    return [int(one) for one in np.frombuffer(np.array(words, "<i4").tobytes(), "<i8")]


def encode_items(items: Sequence[Item], label: str) -> list[int]:
    """Return items as words, padded to whole parameter words; label : layer name for errors"""
    words = [len(items)]
    for sort, values in items:
        words += [sort | len(values) << _LENGTH, *map(int, values)]
    for value in words:
        if not -_MOST <= value < _MOST:
            raise MapperError(f"{label}: {value:,} does not fit in 32 bits of its macro record")
    return filled(words)


def filled(words: list[int]) -> list[int]:
    """Pad words with zeros to whole parameter words."""
    return words + [0] * (-len(words) % PARAMETER_LANES)


def decode_items(pool: NDArray[np.int32], first: int, where: str) -> tuple[list[Item], int]:
    """Return the items that start at a lane of the pool, and the lane after them.

    Raises `MapperError` that names the record.
    """
    found: list[Item] = []
    at = first + 1
    try:
        for _ in range(int(pool[first])):
            head = int(pool[at])
            length = head >> _LENGTH
            words = pool[at + 1 : at + 1 + length]
            if len(words) != length:
                raise IndexError
            found.append(Item(Sort(head & (1 << _LENGTH) - 1), tuple(words.tolist())))
            at += 1 + length
    except (IndexError, ValueError) as error:
        raise MapperError(f"{where}: invalid words in the pool; compile again") from error
    return found, at + (first - at) % PARAMETER_LANES
