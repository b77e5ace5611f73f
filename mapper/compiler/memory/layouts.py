"""Storage layouts in a feature memory of four banks with words of 32 bytes.

N-mode: vectors of 16 channels, pixel by pixel, for feature maps that are loaded by area. T-mode:
planes of channels, for the window unit. V-mode: one vector of elements; the same as a map of one
pixel in N-mode that starts at a word. The rest of the compiler uses byte addresses of N-mode;
`address_of` converts any place to them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BANKS, BYTES = 4, 32
"""Number of banks, and bytes per word."""
VECTOR = 16
"""Bytes per vector: half a word."""
WORD_VECTORS = 2 * BANKS
"""Vectors in a word of all banks; maps in T-mode start at a multiple."""
SEGMENT = 64
"""Elements of V-mode stored in two banks."""


class Spot(NamedTuple):
    """A byte in a word of a bank."""

    bank: int
    word: int
    byte: int


def vector_spot(vector: int, byte: int = 0) -> Spot:
    """Return the place of a byte of a vector in N-mode."""
    return Spot(vector >> 1 & 3, vector >> 3, VECTOR * (vector & 1) + byte)


def address_of(spot: Spot) -> tuple[int, int]:
    """Return the N-mode vector and byte of a place."""
    vector = 8 * spot.word + 2 * spot.bank + spot.byte // VECTOR
    return vector, spot.byte % VECTOR


def plane_spot(base: int, channel: int, pixel: int, pixels: int) -> Spot:
    """Return the place of a pixel in T-mode: channels alternate between banks, each a plane of
    pixels, row by row.

    base : first word; pixel : row * width + column; pixels : pixels per plane
    """
    word = base + channel // BANKS * -(-pixels // BYTES) + pixel // BYTES
    return Spot(channel % BANKS, word, pixel % BYTES)


def plane_words(channels: int, pixels: int, bank: int = BYTES) -> int:
    """Return the words per bank in T-mode; channels are padded to a multiple of the banks.

    bank : bytes of a word in a bank
    """
    return -(-channels // BANKS) * -(-pixels // bank)


def in_planes(pixels: NDArray[Any], lanes: int, rest: int) -> NDArray[np.uint8]:
    """Return the T-mode vectors of an array, shape (rows, columns, channels), in N-mode order.

    lanes : bytes per vector; rest : value of padding channels and pixels
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
    """Return the place of an element in V-mode, with segments of 64 elements in two banks each.

    base : first word
    """
    bank = 2 * (element // SEGMENT % 2) + element % SEGMENT // BYTES
    return Spot(bank, base + element // (2 * SEGMENT), element % BYTES)


def padded_elements(elements: int) -> int:
    """Return the number of elements in V-mode, padded to whole segments."""
    return -(-elements // SEGMENT) * SEGMENT
