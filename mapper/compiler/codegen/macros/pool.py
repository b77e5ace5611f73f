"""Words of the pool: what a macro record says of its operator beyond its 64 bytes.

A record's words are items, each a word with its sort and its length and then so many words of 32
bits. They begin at a parameter word of 16 lanes, and so does the bias behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.codegen.tables import LANES
from mapper.errors import MapperError

Int64 = NDArray[np.int64]
_LENGTH = 8  # bits below the length of an item
_MOST = 1 << 31


class Sort(IntEnum):
    """What an item holds.

    NAME number of the name of its ONNX node
    LONG fields without room: number, low half, high half, one behind the other
    RESULT rows and columns, type, number of the name
    SOURCE type and number of the name of the map it takes, and how it lies
    BESIDE pixel stride, zero point, type, name of the second map of an addition, and how it lies
    TARGET how its result lies
    COPY address, pixel stride and name of a copy of the result, and how it lies
    GROUPS of a convolution
    SHIFT last zeros that the bias is stored without
    CUT rows, columns, output blocks, input blocks, rows and columns of the kernel, and edges of a
        tile
    WORDS weight words of the host that a tile may take
    REQUANTISE low, high, zero point, shift, number of the rounding
    FACTOR, NEGATIVE scale words as parameters have them: number of axes, their sizes, words
    OFFSET one of all channels, or one of each, in halves
    CLAMP low, high
    ADD factors a, b, shift, constant in halves, low, high, rounding, and which input is the first
    THRESHOLD thresholds of the channels in halves, then their flips
    SIGN nothing: of the zero point
    SIDE nothing: made of the result, and stored beside it
    SEND where a part of a result goes: 0 of it, 1 and more of its copies; kind, address, pixel
        stride, rows and blocks (first and behind), core, stream, credits, and how all would lie
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


class Item(NamedTuple):
    sort: Sort
    words: tuple[int, ...] = ()


def halves(values: Iterable[int]) -> tuple[int, ...]:
    """Numbers of 64 bits as words: low half, then high half."""
    data = np.array([int(value) for value in values], "<i8")
    return tuple(np.frombuffer(data.tobytes(), "<i4").tolist())


def wholes(words: Sequence[int]) -> list[int]:
    """Undoes `halves`."""
    if len(words) % 2:
        raise ValueError("half a number")
    return [int(one) for one in np.frombuffer(np.array(words, "<i4").tobytes(), "<i8")]


def encode_items(items: Sequence[Item], label: str) -> list[int]:
    """Items as words, filled up to whole parameter words; label : of the layer, for errors."""
    words = [len(items)]
    for sort, values in items:
        words += [sort | len(values) << _LENGTH, *map(int, values)]
    for value in words:
        if not -_MOST <= value < _MOST:
            raise MapperError(f"{label}: {value:,} has no room in 32 bits of its macro record")
    return filled(words)


def filled(words: list[int]) -> list[int]:
    """With zeros up to whole parameter words."""
    return words + [0] * (-len(words) % LANES)


def decode_items(pool: NDArray[np.int32], first: int, where: str) -> tuple[list[Item], int]:
    """The items from a lane of the pool on, and the lane behind them.

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
        raise MapperError(f"{where}: its words in the pool are none; compile again") from error
    return found, at + (first - at) % LANES
