"""Maps of the host in a core's memory: packed by blocks of channels, and read back unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from chipsim.npu.execute import Frame, NpuChip
from mapper.compiler.artifacts.simulate import read_map, write_map
from tests.chipsim.npu.programs import program_of

SHAPE = NPU_SHAPES["tiny"]  # four channels per vector
CORE = (0, 0)


def frame() -> Frame:
    return NpuChip(SHAPE, {CORE: program_of([("CTRL", "END", {})])}).frame()


def entry(channels: int, bits: int, **more: Any) -> dict[str, Any]:
    blocks = -(-channels // (SHAPE.columns * (8 if bits == 1 else 1)))
    return {
        "core": list(CORE), "address": 7, "shape": [1, 3, 2, channels], "bits": bits,
        "strides": [2 * blocks, blocks], "high": 6 * blocks, "planes": False, "zero_point": 5,
    } | more  # fmt: skip


@pytest.mark.parametrize("channels", [1, 4, 5, 11])
@pytest.mark.parametrize("bits", [1, 8, 16])
def test_d03_packed_maps_round_trip(channels: int, bits: int) -> None:
    random = np.random.default_rng(channels)
    low, high = (-1, 2) if bits == 1 else (-(1 << (bits - 1)), 1 << (bits - 1))
    pixels = random.integers(low, high, (3, 2, channels))
    if bits == 1:
        pixels = np.where(pixels < 0, -1, 1)
    memory, one = frame(), entry(channels, bits)
    write_map(memory, one, pixels, SHAPE.columns)
    assert np.array_equal(read_map(memory, one, SHAPE.columns), pixels)


def test_d03_blocks_of_channels_are_consecutive() -> None:
    """Five channels are two vectors per pixel; the rest of the second one holds the zero point."""
    pixels = np.arange(30).reshape(3, 2, 5)
    memory = frame()
    write_map(memory, entry(5, 8), pixels, SHAPE.columns)
    found = memory.read(CORE, 7, (12,), (1,))
    assert found[:4].tolist() == [[0, 1, 2, 3], [4, 5, 5, 5], [5, 6, 7, 8], [9, 5, 5, 5]]
    assert found[11].tolist() == [29, 5, 5, 5]


def test_d03_rows_and_pixels_may_have_gaps() -> None:
    """A part of a wider region: strides give the places of pixels."""
    pixels = np.arange(24).reshape(3, 2, 4)
    memory = frame()
    write_map(memory, entry(4, 8, strides=[10, 3]), pixels, SHAPE.columns)
    whole = memory.read(CORE, 0, (7 + 24,), (1,))
    wanted = np.zeros_like(whole)
    for y in range(3):
        for x in range(2):
            wanted[7 + 10 * y + 3 * x] = pixels[y, x]
    assert np.array_equal(whole, wanted)
