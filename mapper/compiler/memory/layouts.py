"""Where elements of maps lie in a feature memory of four banks, words of 32 bytes each.

N-mode: vectors of 16 channels, pixel by pixel, for maps that areas are loaded of. T-mode: planes of
channels, which the window unit reads. V-mode: one vector of elements, which is what a map of one
pixel in N-mode is that begins at a word. Byte addresses of the rest of the compiler are those of
N-mode: `address_of` gives them for any place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BANKS, BYTES = 4, 32
"""Banks, and bytes of a word."""
VECTOR = 16
"""Bytes of a vector: half a word."""
WORD_VECTORS = 2 * BANKS
"""Vectors that a word of all banks holds: maps in T-mode begin at such."""
SEGMENT = 64
"""Elements of V-mode that lie in two banks."""


class Spot(NamedTuple):
    """A byte of a word of a bank."""

    bank: int
    word: int
    byte: int


def vector_spot(vector: int, byte: int = 0) -> Spot:
    """N-mode: of a byte of a vector."""
    return Spot(vector >> 1 & 3, vector >> 3, VECTOR * (vector & 1) + byte)


def address_of(spot: Spot) -> tuple[int, int]:
    """The vector of N-mode and its byte that are the same place."""
    vector = 8 * spot.word + 2 * spot.bank + spot.byte // VECTOR
    return vector, spot.byte % VECTOR


def plane_spot(base: int, channel: int, pixel: int, pixels: int) -> Spot:
    """T-mode: channels go round the banks, each a plane of pixels, row by row.

    base : first word; pixel : row * width + column; pixels : of a plane
    """
    word = base + channel // BANKS * -(-pixels // BYTES) + pixel // BYTES
    return Spot(channel % BANKS, word, pixel % BYTES)


def plane_words(channels: int, pixels: int, bank: int = BYTES) -> int:
    """T-mode: words of each bank; channels are padded to a multiple of the banks. bank : bytes of
    a word in a bank"""
    return -(-channels // BANKS) * -(-pixels // bank)


def in_planes(pixels: NDArray[Any], lanes: int, rest: int) -> NDArray[np.uint8]:
    """T-mode: the vectors of a map of shape (rows, columns, channels), in the order of N-mode.

    lanes : bytes of a vector; rest : what channels and pixels that fill up words hold
    Returns shape (vectors, lanes).
    """
    rows, columns, channels = pixels.shape
    bank, groups = 2 * lanes, -(-channels // BANKS)
    words = -(-rows * columns // bank)
    whole = np.full((groups * BANKS, words * bank), rest, np.int64)
    whole[:channels, : rows * columns] = pixels.reshape(-1, channels).T
    found = whole.reshape(groups, BANKS, words, bank).transpose(0, 2, 1, 3)
    return (found & 255).astype(np.uint8).reshape(-1, lanes)


def element_spot(base: int, element: int) -> Spot:
    """V-mode: segments of 64 elements, in two banks each. base : first word"""
    bank = 2 * (element // SEGMENT % 2) + element % SEGMENT // BYTES
    return Spot(bank, base + element // (2 * SEGMENT), element % BYTES)


def padded_elements(elements: int) -> int:
    """V-mode: elements are padded to whole segments."""
    return -(-elements // SEGMENT) * SEGMENT
