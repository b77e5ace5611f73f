"""Windows of layers of few input channels: which option `auto` selects, and its limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.jobs import require_core
from mapper.compiler.numerics.windows import columns_of_kernels, columns_of_windows
from mapper.compiler.settings import CompileSettings, FewChannels
from mapper.compiler.transforms.base import Context, Taken, Trial, sweep
from mapper.compiler.transforms.few_channels import FEW_CHANNELS
from mapper.errors import DoesNotFitError, MapperError
from tests.compiler.graph_text import parse
from tests.compiler.transforms.test_cases import require_same, values

NPU = NPU_SHAPES["npu"]


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


def way_of(
    choice: FewChannels, trial: Trial, fits: Callable[[Graph], bool] = lambda _: True,
    shape: NpuShape = NPU,
) -> tuple[str, str]:  # fmt: skip
    """Return the kind of the first node that replaces a first layer of 16 outputs, and the log."""
    graph = parse("""
        input x int8[12,11,3]
        conv a <- x, w(16,3,3,3), b(16)  pad=1 [first]
        requantise y <- a  factor=(16)
    """)
    before = values(graph, set())
    context = Context(shape, trial, fits, choice)
    sweep(FEW_CHANNELS, graph, context)
    require_same(before, values(graph, set()))
    return graph.nodes[0].kind, "\n".join(context.log.lines)


def five(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
    return Taken(5, 0)


def never(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken | None:
    raise AssertionError


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

    kind, log = way_of("auto", trial)
    assert kind == way
    assert "and 528 flits" in log or cycles["host"] is None


def test_auto_excludes_options_that_do_not_fit() -> None:
    """Windows from the host take more memory than the map itself."""

    def fits(graph: Graph) -> bool:
        return all(node.kind != "windows" for node in graph.nodes)

    kind, log = way_of("auto", five, fits)
    assert kind == "window_columns"
    assert "by the host: does not fit" in log
    assert way_of("auto", never, lambda _: False)[0] == "windows"  # which is reported later


def test_headers_of_a_core_are_limited() -> None:
    """C09: the layer is named."""
    shape = replace(NPU, headers=32)
    with pytest.raises(DoesNotFitError, match=r"conv .first.: header memory: 33 headers needed"):
        way_of("core", five, shape=shape)
    assert way_of("auto", five, shape=shape)[0] in ("windows", "conv")


def test_windows_on_a_core_without_a_window_unit_are_rejected() -> None:
    settings = CompileSettings(few_channels="core")
    with pytest.raises(MapperError, match="--few-channels core needs a window unit, which ref32"):
        require_core(NPU_SHAPES["ref32"], settings)
    require_core(NPU_SHAPES["npu"], settings)
