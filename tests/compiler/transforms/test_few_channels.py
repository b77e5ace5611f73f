"""Layers of few input channels over the windows of their input: the same sums, in fewer calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node, Window, WindowColumns, Windows
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.jobs import require_core
from mapper.compiler.numerics.windows import columns_of_kernels, columns_of_windows
from mapper.compiler.settings import CompileSettings, FewChannels
from mapper.compiler.transforms.base import Context, Taken, Trial
from mapper.compiler.transforms.few_channels import FEW_CHANNELS
from mapper.errors import DoesNotFitError, MapperError
from tests.compiler.networks import SAME, Builder
from tests.compiler.transforms.test_integer_passes import kinds, same, swept

WINDOWS = {
    "7x7 with stride 2": Window((7, 7), (2, 2), Pad(3, 3, 3, 3)),
    "2x3, padded on two sides": Window((2, 3), (1, 2), Pad(1, 0, 0, 2)),
    "dilated": Window((3, 3), (1, 1), Pad(2, 2, 2, 2), (2, 2)),
}


SIX = NpuShape("six", 6, 6, multiply_lanes=6, load_bits=48)


def never(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
    raise AssertionError


def weighing(
    trial: Trial = never, fits: Callable[[Graph], bool] = lambda _: True,
    shape: NpuShape = NPU_SHAPES["npu"],
) -> Context:  # fmt: skip
    return Context(shape, trial, fits)


def window_inputs(graph: Graph, choice: FewChannels, how: Context) -> list[str]:
    how.few_channels = choice
    return swept(FEW_CHANNELS, graph, how)


def windowed(graph: Graph, choice: FewChannels = "host") -> list[str]:
    return window_inputs(graph, choice, weighing())


def first_layer(window: Window, channels: int = 3, outputs: int = 20) -> Builder:
    build = Builder(12, 11, channels, 6)
    build.end(build.relu(build.conv(build.input, outputs, window)))
    return build


@pytest.mark.parametrize("name", WINDOWS)
def test_b10_sums_over_windows_equal_the_layer(name: str) -> None:
    """B10: with and without the pass, to the bit; padding is the zero point."""
    window = WINDOWS[name]
    made = same(first_layer(window), windowed)
    assert kinds(made) == ["windows", "conv", "requantise"]
    assert made.nodes[0].operator == Windows(window)
    assert made.nodes[1].operator == Conv(Window((1, 1)))
    assert made.nodes[1].inputs[1].shape[1:] == (1, 1, 3 * window.size[0] * window.size[1])


def test_b10_literal_calls_of_a_first_layer() -> None:
    """B10: 64 kernels are 4 output blocks: 4 * 49 = 196 calls per pixel become 4 * 10 = 40."""
    lines: list[str] = []
    made = same(
        first_layer(WINDOWS["7x7 with stride 2"], outputs=64),
        lambda graph: lines.extend(windowed(graph)) or lines,
    )
    (line,) = lines
    assert "49 -> 10 calls per pixel" in line
    outputs, _, _, inputs = made.nodes[1].inputs[1].shape
    assert (-(-outputs // 16) * -(-inputs // 16), 4 * 49) == (40, 196)


@pytest.mark.parametrize(("channels", "window"), [(16, SAME), (32, SAME), (3, Window((1, 1)))])
def test_layers_that_save_no_calls_are_kept(channels: int, window: Window) -> None:
    same(first_layer(window, channels), windowed, changed=False)


def test_only_inputs_of_the_model_get_windows() -> None:
    """The host has no other maps to build windows from."""
    build = Builder(8, 8, 3)
    build.end(build.conv(build.relu(build.conv(build.input, 3)), 8))
    made = same(build, windowed)
    assert kinds(made) == ["windows", "conv", "requantise", "conv", "requantise"]
    sizes = [one.operator.window.size for one in made.nodes if isinstance(one.operator, Conv)]
    assert sizes == [(1, 1), (3, 3)]
    assert made.nodes[0].output.channels == 27


@pytest.mark.parametrize("name", list(WINDOWS)[:2])
def test_b10_windows_of_the_core_give_the_same_sums(name: str) -> None:
    """B10: with channels padded to four, in the order of the window unit, to the bit."""
    window = WINDOWS[name]
    made = same(first_layer(window, 5), lambda graph: windowed(graph, "core"))
    assert kinds(made) == ["window_columns", "conv", "requantise"]
    assert made.nodes[0].operator == WindowColumns(window)
    assert made.nodes[1].inputs[1].shape[1:] == (1, 1, 8 * window.size[0] * window.size[1])
    data, windows = made.nodes[0].inputs[0], made.nodes[0].output
    assert (data.planes, data.stored, windows.stored) == (True, True, False)


def test_c12_order_of_columns() -> None:
    """R9.6, C12: group of four channels, kernel row, kernel column, channel of the group."""
    random, window = np.random.default_rng(2), Window((2, 3), (2, 1), Pad(1, 0, 0, 2))
    maps, weights = random.integers(-9, 9, (1, 5, 6, 6)), random.integers(-9, 9, (2, 2, 3, 6))
    columns, kernels = columns_of_windows(maps, window, -7), columns_of_kernels(weights)
    rows, wide = window.results(5, 6)
    assert columns.shape == (1, rows, wide, 2 * 2 * 3 * 4)
    for y, x, c, ky, kx in np.ndindex(rows, wide, 8, 2, 3):
        at = ((c // 4 * 2 + ky) * 3 + kx) * 4 + c % 4
        py, px = 2 * y + ky - 1, x + kx
        inside = 0 <= py < 5 and 0 <= px < 6 and c < 6
        assert columns[0, y, x, at] == (maps[0, py, px, c] if inside else -7)
        assert (kernels[:, 0, 0, at] == (weights[:, ky, kx, c] if c < 6 else 0)).all()


def way_of(choice: FewChannels, how: Context, window: Window = SAME) -> tuple[list[str], list[str]]:
    """Return the kinds of nodes that replace a first layer, and the log."""
    lines: list[str] = []
    made = first_layer(window)
    graph = same(made, lambda graph: lines.extend(window_inputs(graph, choice, how)) or ["one"])
    return kinds(graph), lines


def test_auto_selects_host_windows_that_arrive_while_cores_compute() -> None:
    """No option takes fewer calls, so no trial is needed. Another layer runs meanwhile."""
    build = first_layer(SAME, outputs=32)
    made = same(build, lambda graph: window_inputs(graph, "auto", weighing()))
    assert kinds(made)[0] == "windows"


@pytest.mark.parametrize(("cycles", "way"), [
    ({"host": 100, "core": 300, "off": 400}, "window_columns"),  # 528 flits of the host, 40 of it
    ({"host": 100, "core": 600, "off": 550}, "windows"),
    ({"host": None, "core": None, "off": 700}, "conv"),
])  # fmt: skip
def test_auto_counts_the_longer_of_compute_and_transfer(
    cycles: dict[str, int | None], way: str
) -> None:
    def trial(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
        by_core = nodes[0].kind == "window_columns"
        points = by_core or nodes[0].inputs[1].shape[1:3] == (1, 1)
        found = cycles["core" if by_core else "host" if points else "off"]
        return None if found is None else Taken(found, 0)

    build = Builder(12, 11, 3, 6)
    build.end(build.relu(build.conv(build.input, 16)))
    lines: list[str] = []
    how = weighing(trial)
    made = same(build, lambda graph: lines.extend(window_inputs(graph, "auto", how)) or ["one"])
    assert kinds(made)[0] == way
    assert "and 528 flits" in lines[0] or cycles["host"] is None


def test_auto_excludes_options_that_do_not_fit() -> None:
    """Windows from the host take more memory than the map itself."""

    def fits(graph: Graph) -> bool:
        return all(node.kind != "windows" for node in graph.nodes)

    found, (line,) = way_of("auto", weighing(lambda *_: Taken(5, 0), fits))
    assert found[0] == "window_columns"
    assert "by the host: does not fit" in line
    assert (
        way_of("auto", weighing(never, lambda _: False))[0][0] == "windows"
    )  # which is reported later


@pytest.mark.parametrize(("shape", "window", "text"), [
    (NPU_SHAPES["npu"], WINDOWS["dilated"], "its kernel is dilated"),
    (NPU_SHAPES["npu"], Window((3, 3), (8, 1), Pad(1, 1, 1, 1)), r"LOAD.WIN: sh 8 \(7\)"),
    (NPU_SHAPES["ref32"], SAME, "ref32 has no window unit"),
    (replace(NPU_SHAPES["ref32"], filters=4), SAME, "maps of ref32 are in external memory"),
    (SIX, SAME, "not a multiple of groups of 4"),
])  # fmt: skip
def test_limits_of_the_window_unit_are_reported(shape: NpuShape, window: Window, text: str) -> None:
    kind, (line,) = way_of("core", weighing(shape=shape), window)
    assert kind[0] == "conv"
    assert re.search(text, line), line


def test_headers_of_a_core_are_limited() -> None:
    """C09: the layer is named."""
    how = weighing(lambda *_: Taken(5, 0), shape=replace(NPU_SHAPES["npu"], headers=32))
    with pytest.raises(DoesNotFitError, match=r"conv .n0.: header memory: 33 headers needed"):
        way_of("core", how)
    assert way_of("auto", how)[0][0] in ("windows", "conv")


def test_windows_on_a_core_without_a_window_unit_are_rejected() -> None:
    settings = CompileSettings(few_channels="core")
    with pytest.raises(MapperError, match="--few-channels core needs a window unit, which ref32"):
        require_core(NPU_SHAPES["ref32"], settings)
    require_core(NPU_SHAPES["npu"], settings)
