"""Storage layouts in a feature memory of four banks with words of 32 bytes.

N-mode: vectors of 16 channels, pixel by pixel, for feature maps that are loaded by area. T-mode:
planes of channels, for the window unit. V-mode: one vector of elements; the same as a map of one
pixel in N-mode that starts at a word. The compiler uses byte addresses of N-mode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BANKS, BYTES = 4, 32
"""Number of banks, and bytes per word."""
WORD_VECTORS = 2 * BANKS
"""Vectors in a word of all banks; maps in T-mode start at a multiple."""


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
