"""Cycles in which the weights of tiles arrive from the host or from external memory."""

from __future__ import annotations

from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.macro import Macro
from mapper.compiler.program.inputs import Span, conv_of, parts_of, taken_blocks
from mapper.compiler.tiling.tiles import Cut, words_at_once

HOST_LATENCY = 32
"""Cycles from a request to the arrival of its first words."""


def word_cycles(shape: NpuShape) -> float:
    """Return the cycles between two weight words of the host: one flit per cycle, or limited by the
    width of the external memory."""
    bits = 8 * shape.rows * shape.columns
    return bits / (shape.load_bits if shape.map_vectors == 0 else shape.payload_bits)


class TileStream(NamedTuple):
    """Cycles in which the weights of a tile arrive: of the first tile of some output blocks, and of
    their other tiles, which find the weights in the core if these arrive in one piece."""

    first: int
    others: int


def tile_stream(macro: Macro, cut: Cut, shape: NpuShape) -> TileStream:
    """Return the cycles in which the weights of full tiles arrive; 0 if they stay in the core."""
    if macro.words is None or macro.conv is None:
        return TileStream(0, 0)
    window = conv_of(macro.conv).window
    inputs = taken_blocks(macro.conv, Span(0, cut.blocks), shape.rows).size
    whole = cut._replace(inputs=inputs, kernel=window.size)
    pieces = -(-inputs // cut.inputs) * len(list(parts_of(window, cut.kernel)))
    words = words_at_once(macro.conv, shape.rows, whole)
    cycles = round(words * word_cycles(shape)) + pieces * HOST_LATENCY
    return TileStream(cycles, cycles if pieces > 1 else 0)
