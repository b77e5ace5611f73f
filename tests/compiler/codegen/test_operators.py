"""Programs of each integer operator equal the reference, over random shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Activation, Pool, Upsample, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import DUAL, FOUR, REF, SHAPE, SMALL, Made, same

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu

SHAPES = pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR, DUAL, REF], ids=lambda one: one.name)


def kinds(made: Made, op: str) -> set[str]:
    return {one.kind for one in made.compiled.code.program if one.op == op}


def random_window(rng: np.random.Generator, build: Builder, tensor: Tensor, most: int) -> Window:
    size = tuple(int(n) for n in rng.integers(1, most + 1, 2))
    pad = Pad(*(int(rng.integers(0, size[axis])) for axis in (0, 0, 1, 1)))
    stride = tuple(int(n) for n in rng.integers(1, 3, 2))
    dilation = tuple(int(n) for n in rng.integers(1, 3, 2))
    window = Window(size, stride, pad, dilation)  # type: ignore[arg-type]
    fits = min(window.results(tensor.height, tensor.width)) >= 1
    return window if fits else Window((1, 1))


@pytest.mark.sample(6)
@SHAPES
@pytest.mark.parametrize("seed", range(6))
def test_depthwise(seed: int, shape: NpuShape) -> None:
    """Depthwise layers: up to lanes squared channels, sixteen kernel positions per word."""
    rng = np.random.default_rng(seed)
    build = Builder(*(int(n) for n in rng.integers((3, 3, 2), (9, 9, 40))), seed)
    window = random_window(rng, build, build.input, 5)
    build.end(
        build.relu(build.conv(build.input, build.input.channels, window, build.input.channels))
    )
    made = same(build, shape)
    assert kinds(made, "GEMM") == {"DEPTHWISE"}


@pytest.mark.sample(9)
@SHAPES
@pytest.mark.parametrize("seed", range(8))
def test_groups(seed: int, shape: NpuShape) -> None:
    """Groups of any size, and depth multipliers: products only of blocks that share a group."""
    rng = np.random.default_rng(100 + seed)
    groups, taken, made = (int(n) for n in rng.integers((2, 1, 1), (6, 12, 12)))
    if seed % 2:
        taken = 1
    build = Builder(int(rng.integers(3, 8)), int(rng.integers(3, 8)), groups * taken, seed)
    window = random_window(rng, build, build.input, 3)
    build.end(build.conv(build.input, groups * made, window, groups))
    same(build, shape)


def test_groups_of_whole_blocks_read_only_their_blocks() -> None:
    """Four groups of 16 channels: a quarter of the products of the whole convolution."""
    calls = []
    for groups in (1, 4):
        build = Builder(4, 4, 64)
        build.end(build.conv(build.input, 64, Window((1, 1)), groups))
        made = same(build, SHAPE)
        fields = [one.fields for one in made.compiled.code.program if one.op == "GEMM"]
        calls.append(sum(one["uops"] * one["n_out"] * one["n_in"] for one in fields))
    assert calls[0] == 4 * calls[1]


@pytest.mark.sample(11)
@SHAPES
@pytest.mark.parametrize("seed", range(8))
def test_pooling_of_maps(seed: int, shape: NpuShape) -> None:
    """Pooling of stored maps with padding: the minimum, zero points, or fewer pixels at borders."""
    rng = np.random.default_rng(200 + seed)
    build = Builder(*(int(n) for n in rng.integers((4, 4, 2), (12, 12, 40))), seed)
    window = random_window(rng, build, build.input, 4)
    kind = "max" if seed % 3 == 0 else "average"
    tensor = build.pool(build.input, Pool(kind, window, count_pad=seed % 3 == 1))  # type: ignore[arg-type]
    if seed % 2:
        tensor = build.relu(tensor)
    build.end(tensor)
    same(build, shape)


def test_means_of_nine_border_classes() -> None:
    build = Builder(9, 9, 20)
    window = Window((3, 3), (1, 1), Pad(1, 1, 1, 1))
    build.end(build.pool(build.input, Pool("average", window)))
    made = same(build, SHAPE)
    heads = {one.fields["rec"] for one in made.compiled.code.program if one.op == "RQ"}
    assert 3 <= len(heads) <= 9  # corners, edges, inside; records of equal factors are shared


@pytest.mark.sample(18)
@SHAPES
@pytest.mark.parametrize("kind", ["max", "average"])
@pytest.mark.parametrize("size", [(30, 30), (1, 700)])
def test_pooling_of_more_pixels_than_accumulators(
    size: tuple[int, int], kind: str, shape: NpuShape
) -> None:
    """A global pool in several loads, which are summed."""
    build = Builder(*size, 5)
    build.end(build.pool(build.input, Pool(kind, Window(size))))  # type: ignore[arg-type]
    made = same(build, shape)
    loads = [one for one in made.compiled.code.program if one.op == "LOAD"]
    assert len(loads) > 1 or shape.entries // 2 > size[0] * size[1]


@SHAPES
def test_large_dense_layer(shape: NpuShape) -> None:
    """More pixels and products than buffers and micro-ops hold at once."""
    build = Builder(30, 20, 5, seed=1)
    build.end(build.conv(build.input, 20, Window((30, 20))))
    made = same(build, shape)
    assert len(made.compiled.code.tables.micro_ops) < 100


@pytest.mark.parametrize("pixels", [True, False])
def test_dense_layer_of_23328_inputs(pixels: bool) -> None:
    shape = replace(SHAPE, weight_words=4096)
    build = Builder(18, 18, 72, seed=2)
    if not pixels:
        build = Builder(1, 1, 23328, seed=2)
    build.end(build.conv(build.input, 20, Window((18, 18) if pixels else (1, 1))))
    made = same(build, shape)
    assert sum(one.size for one in made.compiled.code.tables.weights) >= 23328 * 20


@pytest.mark.sample(13)
@SHAPES
@pytest.mark.parametrize("seed", range(4))
def test_one_pixel_maps(seed: int, shape: NpuShape) -> None:
    rng = np.random.default_rng(300 + seed)
    build = Builder(1, 1, int(rng.integers(1, 300)), seed)
    hidden = build.relu(build.conv(build.input, int(rng.integers(1, 90)), Window((1, 1))))
    build.end(build.conv(hidden, 10, Window((1, 1))))
    same(build, shape)


@pytest.mark.sample(17)
@SHAPES
@pytest.mark.parametrize("seed", range(4))
def test_separate_moves_and_clips(seed: int, shape: NpuShape) -> None:
    """Upsampling, clipping, and leaky depthwise activations on the model's input."""
    rng = np.random.default_rng(400 + seed)
    build = Builder(*(int(n) for n in rng.integers((3, 3, 2), (8, 8, 40))), seed)
    if seed == 0:
        wide = (2 * build.input.height, 2 * build.input.width, build.input.channels)
        build.end(build.node(Upsample(), [build.input], wide))
    elif seed == 1:
        build.end(build.like(Activation(slope=1.0, low=-0.5, high=0.7), build.input))
    elif seed == 2:
        build.end(build.like(Activation(slope=0.2), build.input))
    else:
        slopes = build.constant(rng.uniform(0, 1, build.input.channels))
        build.end(build.node(Activation(), [build.input, slopes], build.input.shape[1:]))  # type: ignore[arg-type]
    same(build, shape)


@pytest.mark.heavy
@pytest.mark.sample(1)
@SHAPES
@pytest.mark.parametrize(
    "window",
    [
        Window((3, 3), (1, 1), Pad(12, 12, 12, 12), (12, 12)),
        Window((17, 1), (2, 1), Pad(8, 8, 0, 0)),
        Window((1, 40), (1, 3), Pad(0, 0, 20, 19)),
    ],
)
def test_padding_beyond_the_load_fields(window: Window, shape: NpuShape) -> None:
    """More than seven rows or columns of padding: the kernel is processed in consecutive parts."""
    build = Builder(9, 11, 20, seed=3)
    build.end(build.conv(build.input, 18, window))
    same(build, shape)
    build = Builder(9, 11, 20, seed=3)
    build.end(build.pool(build.input, Pool("average", window, count_pad=True)))
    same(build, shape)


@pytest.mark.heavy
@pytest.mark.sample(1)
@SHAPES
@pytest.mark.parametrize("seed", range(6))
def test_d09_bias_before_or_after_the_products(seed: int, shape: NpuShape) -> None:
    """D09: equal bytes; an initial bias takes fewer ALU instructions, and no more cycles.

    Tables and weights that are loaded while a program runs are excepted.
    """
    found, reloads = {}, False
    for bias in ("init", "alu"):
        made = same(random_network(seed), shape, bias=bias)
        count = sum(one.op == "ALU" for one in made.compiled.code.program)
        found[bias] = count, made.compiled.code.timeline.cycles
        reloads |= bool({"TABLE", "WSTREAM"} & set(kinds(made, "LOAD")))
    assert found["init"][0] < found["alu"][0]
    assert reloads or found["init"][1] <= found["alu"][1]


def test_d09_bias_first_saves_cycles_of_the_alu() -> None:
    """D09: one entry less per pixel and block, where the ALU is the bottleneck."""
    found = {}
    for bias in ("init", "alu"):
        build = Builder(8, 8, 16, 3)
        build.end(build.conv(build.input, 32, Window((1, 1))))
        timeline = same(build, NpuShape(), bias=bias).compiled.code.timeline
        found[bias] = int(timeline.busy[2]), timeline.cycles
    assert found["alu"][0] - found["init"][0] >= 8 * 8 * 2
    assert found["init"][1] < found["alu"][1]


@pytest.mark.heavy
@pytest.mark.sample(1)
@SHAPES
@pytest.mark.parametrize("rounding", ["away", "up", "even"])
@pytest.mark.parametrize("zero_point", ["shift", "bias"])
def test_roundings_and_zero_points(rounding: str, zero_point: str, shape: NpuShape) -> None:
    """D07, D08: all roundings of requantisation, sums and means; zero point after the shift or in
    the bias; ends of ReLU.
    """
    build = residual(seed=7, channels=20)
    same(build, shape, rounding=rounding, zero_point=zero_point)
