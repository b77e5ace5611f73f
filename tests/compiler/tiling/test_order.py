"""The order of nodes where the graph leaves a choice."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Activation, Add, Window
from mapper.compiler.ir.tensor import Tensor
from tests.compiler.networks import Builder
from tests.compiler.programs import compared, compiled

pytestmark = pytest.mark.jit


def shortcut(last: str, seed: int = 5) -> Builder:
    """Build a sum of a 3x3 and a 1x1 convolution; the model has one or the other last."""
    build = Builder(10, 10, 16, seed)
    first = build.relu(build.conv(build.input, 32))

    def heavy() -> Tensor:
        return build.conv(first, 32)

    def light() -> Tensor:
        return build.conv(first, 32, Window((1, 1)))

    makers = [light, heavy] if last == "heavy" else [heavy, light]
    parts = [make() for make in makers]
    build.end(build.conv(build.like(Add(), *parts), 8))
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("last", ["heavy", "light"])
def test_sums_run_after_the_convolution_with_more_products(last: str) -> None:
    build = shortcut(last)
    made = compiled(build)
    added = next(m for m in made.compiled.macros if any(n.kind == "add" for n in m.nodes))
    assert added.nodes[0].inputs[1].shape == (32, 3, 3, 32)
    assert any(" runs after it" in line for line in made.compiled.log) == (last == "light")
    assert {one.differences for one in compared(build, made)} == {0}


def test_chains_with_other_users_are_kept() -> None:
    """An addend with another user, and one computed from the other."""
    build = Builder(8, 8, 16)
    first = build.conv(build.input, 16)
    second = build.like(Activation(low=0.0), build.conv(first, 16, Window((1, 1))))
    build.end(build.conv(build.like(Add(), first, second), 8))
    made = compiled(build)
    assert not any(" runs after it" in line for line in made.compiled.log)
    assert {one.differences for one in compared(build, made)} == {0}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_sums_end_in_one_requantisation() -> None:
    """Where that takes fewer cycles than shift, zero point and limits in sequence."""
    kinds = []
    for lanes in (8, 2):
        build = shortcut("heavy")
        made = compiled(build, NpuShape("lanes", multiply_lanes=lanes, weight_words=4096))
        assert {one.differences for one in compared(build, made)} == {0}
        units = np.array([step.instruction.kind for step in made.compiled.code.steps])
        kinds.append({kind for kind in ("RSHR", "MIN") if kind in units})
    assert kinds == [set(), {"RSHR", "MIN"}]
