"""Layers of few input channels over the windows of their input: the same sums, in fewer calls."""

from __future__ import annotations

import pytest

from mapper.compiler.graph.graph import Graph
from mapper.compiler.graph.node import Conv, Window, Windows
from mapper.compiler.graph.tensor import Pad
from mapper.compiler.passes.few_channels import window_inputs
from tests.compiler.networks import SAME, Builder
from tests.compiler.passes.test_integer_passes import kinds, same

WINDOWS = {
    "7x7 with stride 2": Window((7, 7), (2, 2), Pad(3, 3, 3, 3)),
    "2x3, padded on two sides": Window((2, 3), (1, 2), Pad(1, 0, 0, 2)),
    "dilated": Window((3, 3), (1, 1), Pad(2, 2, 2, 2), (2, 2)),
}


def windowed(graph: Graph) -> list[str]:
    return window_inputs(graph, 16)


def first_layer(window: Window, channels: int = 3, outputs: int = 20) -> Builder:
    build = Builder(12, 11, channels, 6)
    build.end(build.relu(build.conv(build.input, outputs, window)))
    return build


@pytest.mark.parametrize("name", WINDOWS)
def test_b10_sums_over_windows_are_those_of_the_layer(name: str) -> None:
    """B10: with and without the pass, to the bit; what is outside of the map is its zero point."""
    window = WINDOWS[name]
    made = same(first_layer(window), windowed)
    assert kinds(made) == ["windows", "conv", "requantise"]
    assert made.nodes[0].operator == Windows(window)
    assert made.nodes[1].operator == Conv(Window((1, 1)))
    assert made.nodes[1].inputs[1].shape[1:] == (1, 1, 3 * window.size[0] * window.size[1])


def test_b10_literal_calls_of_a_first_layer() -> None:
    """B10: 64 kernels are 4 output blocks: 4 * 49 = 196 calls a pixel become 4 * 10 = 40."""
    lines: list[str] = []
    made = same(
        first_layer(WINDOWS["7x7 with stride 2"], outputs=64),
        lambda graph: lines.extend(windowed(graph)) or lines,
    )
    (line,) = lines
    assert "49 -> 10 calls a pixel" in line
    outputs, _, _, inputs = made.nodes[1].inputs[1].shape
    assert (-(-outputs // 16) * -(-inputs // 16), 4 * 49) == (40, 196)


@pytest.mark.parametrize(("channels", "window"), [(16, SAME), (32, SAME), (3, Window((1, 1)))])
def test_layers_that_gain_no_calls_stay(channels: int, window: Window) -> None:
    same(first_layer(window, channels), windowed, changed=False)


def test_only_inputs_of_the_model_get_windows() -> None:
    """The host has no other maps to make them of."""
    build = Builder(8, 8, 3)
    build.end(build.conv(build.relu(build.conv(build.input, 3)), 8))
    made = same(build, windowed)
    assert kinds(made) == ["windows", "conv", "requantise", "conv", "requantise"]
    sizes = [one.operator.window.size for one in made.nodes if isinstance(one.operator, Conv)]
    assert sizes == [(1, 1), (3, 3)]
    assert made.nodes[0].output.channels == 27
