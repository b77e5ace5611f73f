"""Weights that are larger than the core: predicted cycles, and requested words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.ir.node import Window
from mapper.compiler.tiling.streams import HOST_LATENCY, tile_stream, word_cycles
from mapper.compiler.tiling.tiles import Cut
from tests.compiler.networks import SAME, Builder
from tests.compiler.programs import Made, compiled, exact

pytestmark = pytest.mark.jit
DUAL = NPU_SHAPES["npu-dual"]


def layer(side: int, inputs: int, outputs: int, window: Window) -> Builder:
    build = Builder(side, side, inputs, seed=1)
    build.end(build.relu(build.conv(build.input, outputs, window)))
    return build


def requested(made: Made) -> int:
    """Return the weight words that a frame requests from the host."""
    program = made.compiled.code.program
    return sum(one.fields["words"] for one in program if one.kind == "WSTREAM")


@pytest.mark.parametrize("sizes", [(16, 128, 64), (16, 64, 128), (4, 256, 64)])
def test_weights_larger_than_the_core_are_requested_once(sizes: tuple[int, int, int]) -> None:
    """Of all cuts that fit, the search prefers those that request each word once."""
    build = layer(*sizes, SAME)
    made = exact(build, compiled(build, DUAL, bits=16))
    words = 2 * 9 * sizes[1] * sizes[2] // 256
    assert words > DUAL.weight_words
    assert requested(made) == words


def test_cycles_of_a_stream() -> None:
    """A tile finds its weights in the core if they arrived in one piece with another tile's."""
    assert word_cycles(DUAL) == 32
    assert word_cycles(NPU_SHAPES["ref32"]) == 32
    (macro,) = compiled(layer(16, 128, 64, SAME), DUAL, bits=16).compiled.macros
    words = 2 * 9 * 8  # of an output block
    whole, parts = Cut(8, 16, 1, 8, (3, 3)), Cut(8, 16, 1, 4, (1, 3))
    assert tile_stream(macro, whole, DUAL) == (32 * words + HOST_LATENCY, 0)
    cycles = 32 * words + 6 * HOST_LATENCY
    assert tile_stream(macro, parts, DUAL) == (cycles, cycles)
    (small,) = compiled(layer(16, 32, 32, SAME), DUAL, bits=16).compiled.macros
    assert tile_stream(small, whole, DUAL) == (0, 0)


@pytest.mark.parametrize(("side", "channels"), [(3, 128), (8, 256)])
def test_weights_of_groups_are_requested_with_their_input(side: int, channels: int) -> None:
    """Each load has the input of some groups, and the weights of their output blocks alone."""
    build = Builder(side, side, channels, seed=1)
    build.end(build.relu(build.conv(build.input, channels, SAME, groups=channels // 32)))
    made = exact(build, compiled(build, replace(NPU_SHAPES["npu"], weight_words=64)))
    assert requested(made) > 0
