"""Literal addresses in the feature memory: its layouts, borders, and maps that share a region."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.memory.layouts import BANKS, BYTES, WORD_VECTORS, in_planes, plane_words
from mapper.compiler.memory.padding import Border
from mapper.compiler.memory.planner import PlannedMaps, plan_memory
from mapper.compiler.memory.regions import Place

VECTOR = 16
"""Bytes per vector: half a word."""
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


def element_spot(base: int, element: int) -> Spot:
    """Return the place of an element in V-mode, with segments of 64 elements in two banks each.

    base : first word
    """
    bank = 2 * (element // SEGMENT % 2) + element % SEGMENT // BYTES
    return Spot(bank, base + element // (2 * SEGMENT), element % BYTES)


def padded_elements(elements: int) -> int:
    """Return the number of elements in V-mode, padded to whole segments."""
    return -(-elements // SEGMENT) * SEGMENT


@pytest.mark.parametrize(("vector", "bank", "word", "half"), [
    (0, 0, 0, 0), (1, 0, 0, 1), (2, 1, 0, 0), (5, 2, 0, 1), (7, 3, 0, 1), (8, 0, 1, 0),
    (8191, 3, 1023, 1),
])  # fmt: skip
def test_vectors(vector: int, bank: int, word: int, half: int) -> None:
    """N-mode: bank (v >> 1) & 3, word v >> 3, half v & 1."""
    assert vector_spot(vector, 5) == Spot(bank, word, 16 * half + 5)
    assert address_of(vector_spot(vector, 5)) == (vector, 5)


@pytest.mark.parametrize(("channel", "y", "x", "spot"), [
    (0, 0, 0, Spot(0, 10, 0)), (1, 0, 0, Spot(1, 10, 0)), (3, 1, 4, Spot(3, 10, 14)),
    (0, 3, 2, Spot(0, 11, 0)), (4, 0, 0, Spot(0, 14, 0)), (6, 9, 9, Spot(2, 17, 3)),
])  # fmt: skip
def test_c05_planes(channel: int, y: int, x: int, spot: Spot) -> None:
    """C05: channels alternate over the banks, the plane of 10x10 row by row; four words per
    bank."""
    assert plane_spot(10, channel, 10 * y + x, 100) == spot


def test_c05_channels_are_padded_to_four() -> None:
    """C05: three channels take as much as four."""
    assert [plane_words(n, 100) for n in (1, 3, 4, 5)] == [4, 4, 4, 8]


@pytest.mark.parametrize(("element", "spot"), [
    (0, Spot(0, 7, 0)), (31, Spot(0, 7, 31)), (32, Spot(1, 7, 0)), (63, Spot(1, 7, 31)),
    (64, Spot(2, 7, 0)), (100, Spot(3, 7, 4)), (127, Spot(3, 7, 31)), (128, Spot(0, 8, 0)),
    (200, Spot(2, 8, 8)),
])  # fmt: skip
def test_c06_vectors_of_elements(element: int, spot: Spot) -> None:
    """C06: segments of 64 in two banks."""
    assert element_spot(7, element) == spot


def test_c06_elements_are_padded_to_a_segment() -> None:
    """C06: 64 and 65 elements."""
    assert [padded_elements(n) for n in (1, 64, 65)] == [64, 64, 128]


def test_c05_planes_as_vectors() -> None:
    """C05: data from the host is at the places of T-mode; padding is the zero point."""
    pixels = np.random.default_rng(1).integers(-128, 128, (7, 9, 6))
    vectors = in_planes(pixels, 16, -3)
    assert vectors.shape == (WORD_VECTORS * plane_words(6, 63), 16)
    rest = np.ones(vectors.shape, bool)
    for y, x, c in np.ndindex(*pixels.shape):
        vector, byte = address_of(plane_spot(0, c, 9 * y + x, 63))
        assert vectors[vector, byte] == pixels[y, x, c] % 256
        rest[vector, byte] = False
    assert (vectors[rest] == 253).all()


def test_c06_a_map_of_one_pixel_is_a_vector_of_elements() -> None:
    """C06: channels of a pixel, 16 per vector, starting at a word, are V-mode."""
    for channel in range(300):
        assert address_of(element_spot(5, channel)) == (8 * 5 + channel // 16, channel % 16)


def test_no_two_elements_share_a_place() -> None:
    planes = {plane_spot(0, c, p, 49) for c in range(8) for p in range(49)}
    elements = {element_spot(0, n) for n in range(1000)}
    assert (len(planes), len(elements)) == (8 * 49, 1000)


def test_a14_addresses() -> None:
    """A14: results go to base + C_p * (pt * W_p + pl), reads begin at base.

    A part of a region is inside the border that all parts share.
    """
    tensor = Tensor("map", (1, 5, 7, 40), "int8", zero_point=3)
    for pad in (Pad(1, 1, 1, 1), Pad(2, 0, 3, 1), Pad(0, 2, 1, 0)):
        stored = PlannedMaps([], {tensor: -1}, {tensor: 0}, {})
        region = plan_memory(stored, 16, 0, True, {tensor: Border(pad, 3)})[tensor]
        vectors = 3  # per pixel of 40 channels
        wide, high = 7 + pad.left + pad.right, 5 + pad.top + pad.bottom
        assert region.base == 0
        assert region.size == region.stop == high * wide * vectors
        assert region.first == region.base + vectors * (pad.top * wide + pad.left)
        assert (region.pixel, region.row) == (vectors, wide * vectors)
        assert region.vector(-pad.top, -pad.left, 0) == region.base
        assert tensor.address == region.first
        assert tensor.pad == pad


def test_a17_two_maps_of_a_yolo_network() -> None:
    """A17: from 0x41157800 two 88x120x64 maps in a region of 88x120x128."""
    whole = Tensor("whole", (1, 88, 120, 128), "int8", stored=True)
    one, other = (Tensor(name, (1, 88, 120, 64), "int8", stored=True) for name in "ab")
    places = {one: Place(whole, channel=0), other: Place(whole, channel=64)}
    found = plan_memory(PlannedMaps([], {one: -1, other: -1}, {whole: 0}, places), VECTOR, 0)
    base = 0x41157800

    def address(tensor: Tensor) -> int:
        return base + VECTOR * found[tensor].first

    assert (address(one), address(other), address(whole)) == (0x41157800, 0x41157840, 0x41157800)
    assert found[one].pixel * VECTOR == 128
    assert found[one].row * VECTOR == 120 * 128
