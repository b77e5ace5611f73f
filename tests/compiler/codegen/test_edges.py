"""Omitted products with padding, and their contribution in the bias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.codegen import program
from mapper.compiler.ir.node import Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.tiling.tile_pipeline import CutChoice
from mapper.errors import DoesNotFitError
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder
from tests.compiler.programs import SHAPE, Made, compared, compiled

pytestmark = pytest.mark.jit
MANY = NpuShape("many", weight_words=4096, entries=300, input_vectors=600)


def only(monkeypatch: pytest.MonkeyPatch, edges: str) -> None:
    """Omit such products in every layer, if possible."""

    def chosen(_: Any, options: Sequence[list[CutChoice]], *__: Any) -> list[CutChoice]:
        return [
            next((one for one in choice if one.cut.edges == edges), choice[0])
            for choice in options
        ]  # fmt: skip

    monkeypatch.setattr(program, "chosen", chosen)


def products(made: Made) -> int:
    fields = [step.instruction.fields for step in made.compiled.code.steps if step.unit == "GEMM"]
    return sum(f["uops"] * f["n_out"] * f["n_in"] for f in fields)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("edges", ["rows", "all"])
@pytest.mark.parametrize(
    "window",
    [
        Window((3, 3), (1, 1), Pad(1, 1, 1, 1)),
        Window((5, 5), (2, 2), Pad(2, 1, 2, 2)),
        Window((3, 5), (2, 1), Pad(0, 2, 3, 1)),
        Window((3, 3), (1, 1), Pad(2, 2, 2, 2), (2, 2)),
        Window((1, 1), (2, 2), Pad(1, 1, 1, 1)),  # windows of only padding
    ],
)
def test_layers_without_products_of_padding(
    window: Window, edges: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> Builder:
        made = Builder(9, 8, 20, seed=3)
        first = made.relu(made.conv(made.input, 40, Window((1, 1))))
        made.end(made.conv(first, 20, window))
        return made

    plain, some = build(), build()
    monkeypatch.setattr(program, "chosen", lambda _, options, *__: [one[0] for one in options])
    before = compiled(plain, MANY)
    assert {one.differences for one in compared(plain, before)} == {0}
    only(monkeypatch, edges)
    after = compiled(some, MANY)
    assert {one.differences for one in compared(some, after)} == {0}
    verify_compiled(after.folder)
    if window.size != (1, 1):
        assert products(after) < products(before)


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_networks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "all")
    build = random_network(seed)
    try:
        made = compiled(build, NpuShape("wide", weight_words=4096, map_vectors=1 << 14))
    except DoesNotFitError as error:
        assert "micro-op memory" in str(error)
        pytest.skip(str(error))
    assert {one.differences for one in compared(build, made)} == {0}


def test_products_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """4x4 pixels, 3x3: 16 * 9 products with padding; (4 * 3 - 2) in each direction without."""
    counts = []
    for edges in ("", "rows", "all"):
        only(monkeypatch, edges)
        build = Builder(4, 4, 16, seed=1)
        build.end(build.conv(build.relu(build.conv(build.input, 16, Window((1, 1)))), 16))
        made = compiled(build, SHAPE)
        assert {one.differences for one in compared(build, made)} == {0}
        counts.append(products(made) - 16)
    assert counts == [16 * 9, 4 * 3 * 10, 10 * 10]
