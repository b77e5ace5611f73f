"""Two products of bytes at once: equal bytes, fewer cycles."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.codegen.builder import ProgramBuilder
from mapper.compiler.codegen.pairs import kernel_pairs
from mapper.compiler.ir.node import Pool, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.program.inputs import Span
from mapper.errors import CheckFailedError, MapperError
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import DUAL, REF, SHAPE, Made, compiled, exact, same

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu

SMALL = NpuShape("small-dual", multiplier="dual", input_vectors=96, entries=96)
SHAPES = pytest.mark.parametrize("shape", [DUAL, SMALL, REF], ids=lambda one: one.name)
SAME = Window((3, 3), (1, 1), Pad(1, 1, 1, 1))


def kinds(made: Made) -> set[str]:
    return {one.kind for one in made.compiled.code.program if one.op == "GEMM"}


def calls(made: Made) -> int:
    fields = [one.fields for one in made.compiled.code.program if one.op == "GEMM"]
    return sum(one["uops"] * one["n_out"] * one["n_in"] for one in fields)


@pytest.mark.heavy
@pytest.mark.sample(2)
@SHAPES
@pytest.mark.parametrize("dual", ["off", "pixels", "kernels", "auto"])
@pytest.mark.parametrize("seed", range(8))
def test_a30_a31_random_networks(seed: int, dual: str, shape: NpuShape) -> None:
    """A30, A31, A32: pairs of pixels or kernels, odd sizes, paddings, strides; biases of both."""
    made = same(random_network(seed), shape, dual=dual)
    wanted = {"off": set(), "pixels": {"DUAL_PIXEL"}, "kernels": {"DUAL_KERNEL"}}
    assert kinds(made) - {"INT8"} <= wanted.get(dual, {"DUAL_PIXEL", "DUAL_KERNEL"})


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("pad", [Pad(1, 1, 1, 1), Pad(2, 0, 0, 2), Pad(2, 2, 0, 0)])
def test_a30_halves_and_neighbours(pad: Pad) -> None:
    """A30: both orders occur, and odd rows or columns end with an ordinary pass."""
    apart = set()
    for height, width in ((7, 5), (8, 12), (13, 12), (12, 4), (5, 13)):
        build = Builder(height, width, 20, seed=height)
        build.end(build.conv(build.input, 16, Window((3, 3), (1, 1), pad)))
        made = same(build, DUAL, dual="pixels")
        assert "DUAL_PIXEL" in kinds(made)
        told = [one.fields for one in made.compiled.code.program if one.kind == "DIST"]
        apart |= {one["acc"] == 1 for one in told if one["queue"] == 1}
    assert apart == {True, False}


def test_a31_output_blocks_in_pairs() -> None:
    """A31: the first block of each pair; an odd last one is single."""
    assert list(kernel_pairs(Span(2, 7), True)) == [("DUAL_KERNEL", [2, 4]), ("", [6])]
    assert list(kernel_pairs(Span(0, 4), True)) == [("DUAL_KERNEL", [0, 2])]
    assert list(kernel_pairs(Span(0, 3), False)) == [("", [0, 1, 2])]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("outputs", [32, 40, 48, 80])
def test_a31_kernels(outputs: int) -> None:
    """A31: half of the calls for an even number of output blocks; an odd last one is single."""
    build = Builder(9, 9, 20, seed=outputs)
    build.end(build.conv(build.input, outputs, SAME))
    found = [same(build, replace(DUAL, entries=4096), dual=dual) for dual in ("off", "kernels")]
    blocks = -(-outputs // 16)
    plain, paired = (calls(one) for one in found)
    assert paired * blocks == plain * -(-blocks // 2)
    assert ("INT8" in kinds(found[1])) == bool(blocks % 2)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a28_bytes_equal_the_plain_program_in_fewer_cycles() -> None:
    """A28, A29: every packing gives the bytes of plain products."""
    cycles: dict[str, int] = {}
    outputs: dict[str, Any] = {}
    for dual in ("off", "pixels", "kernels", "auto"):
        build = Builder(16, 16, 32, seed=4)
        first = build.relu(build.conv(build.input, 32))
        build.end(build.pool(build.conv(first, 48), Pool("max", Window((2, 2), (2, 2)))))
        made = same(build, replace(DUAL, multiply_lanes=16), dual=dual)
        cycles[dual] = made.compiled.code.timeline.cycles
        outputs[dual] = [t.value for t in made.compiled.graph.tensors() if t.value is not None]
    assert cycles["auto"] < 0.65 * cycles["off"]
    assert cycles["pixels"] < 0.8 * cycles["off"]
    assert cycles["auto"] <= min(cycles["kernels"], cycles["pixels"])
    for one in outputs.values():
        assert all(np.array_equal(a, b) for a, b in zip(one, outputs["off"], strict=True))


def test_cores_without_a_dual_multiplier_are_rejected() -> None:
    for dual in ("pixels", "kernels"):
        with pytest.raises(MapperError, match=f"--dual {dual} needs .* npu-dual"):
            compiled(residual(), NPU_SHAPES["npu"], dual=dual)
    assert kinds(same(residual(), SHAPE)) == {"INT8"}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_paired_kernels_of_groups_with_streamed_weights() -> None:
    """A tile of four output blocks belongs to two groups of six.

    Each load of inputs serves the blocks of one group.
    """
    build = Builder(12, 12, 192)
    build.end(build.relu(build.conv(build.input, 192, groups=2)))
    made = same(build, replace(DUAL, weight_words=80), dual="kernels")
    assert "DUAL_KERNEL" in kinds(made)
    assert any(one.kind == "WSTREAM" for one in made.compiled.code.program)


def test_registers_of_a_frame_are_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last layer reads pairs of pixels; the first one of the next frame reads single bytes."""
    build = Builder(8, 8, 20, seed=3)
    build.end(build.conv(build.pool(build.input, Pool("max", Window((1, 2), (1, 1)))), 16))
    made = same(deepcopy(build), DUAL, dual="pixels")
    sources = [
        one.fields.get("src", 0)
        for one in made.compiled.code.program
        if one.kind == "DIST" and one.fields["queue"] == 0
    ]
    assert sources[-1] == 0 < sources[-2]
    reset = ProgramBuilder.set_distance

    def keep(core: ProgramBuilder, unit: str, **distances: int) -> None:
        if any(distances.values()):
            reset(core, unit, **distances)

    monkeypatch.setattr(ProgramBuilder, "set_distance", keep)
    with pytest.raises(CheckFailedError, match="the next frame would start with"):
        exact(build, compiled(build, DUAL, dual="pixels"))
