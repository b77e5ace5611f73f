"""Programs of random networks equal the reference, in every layer and element."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.ir.node import Activation, Add, Pool, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.errors import DoesNotFitError
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import FOUR, SHAPE, SMALL, WIDE, check_image, compared, compiled, same

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu


def random_network(seed: int) -> Builder:
    """Chain convolutions of all kinds, pooling, residual sums and means."""
    rng = np.random.default_rng(seed)
    height, width, channels = (int(n) for n in rng.integers((6, 6, 1), (15, 15, 36)))
    build = Builder(height, width, channels, seed)
    tensor = build.input
    for _ in range(int(rng.integers(2, 5))):
        kind = rng.choice(["conv", "conv", "pool", "sum"])
        if kind == "conv":
            size = int(rng.choice([1, 2, 3, 5]))
            pad = Pad(*(int(n) for n in rng.integers(0, size, 4)))
            stride = tuple(int(n) for n in rng.integers(1, 3, 2))
            window = Window((size, int(rng.choice([1, 2, 3]))), stride, pad)
            if min(window.results(tensor.height, tensor.width)) < 1:
                continue
            tensor = build.conv(tensor, int(rng.integers(1, 40)), window)
            if rng.random() < 0.6:
                low, slope = (0.0, 0.0) if rng.random() < 0.5 else (float("-inf"), 0.1)
                tensor = build.like(Activation(slope=slope, low=low), tensor)
        elif kind == "pool" and min(tensor.height, tensor.width) >= 3 and tensor is not build.input:
            size = int(rng.choice([2, 3]))
            window = Window((size, size), (int(rng.integers(1, 4)),) * 2)
            tensor = build.pool(tensor, Pool("max", window))
        elif kind == "sum" and tensor is not build.input:
            other = build.conv(tensor, tensor.channels)
            tensor = build.like(Add(), tensor, other)
    if tensor is build.input or rng.random() < 0.5:
        tensor = build.conv(tensor, 10, Window((tensor.height, tensor.width)))
    build.end(tensor)
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR, WIDE], ids=lambda shape: shape.name)
@pytest.mark.parametrize("seed", range(20))
def test_bitx_programs_equal_the_reference(seed: int, shape: NpuShape) -> None:
    same(random_network(seed), shape)


@pytest.mark.heavy
def test_residual_network() -> None:
    build = residual(channels=20)
    made = compiled(build)
    found = compared(build, made)
    assert [one.differences for one in found] == [0] * 4
    fused = [[node.kind for node in macro.nodes] for macro in made.compiled.macros]
    assert fused == [
        ["conv", "requantise"],
        ["conv", "requantise"],
        ["conv", "requantise", "add"],
        ["pool", "requantise"],
    ]


@pytest.mark.heavy
def test_options_that_change_no_byte() -> None:
    """The addresses of maps do not change results."""
    results = []
    for reuse in (True, False):
        build = residual(seed=3)
        made = compiled(build, reuse=reuse)
        assert {one.differences for one in compared(build, made)} == {0}
        results.append([tensor.value for tensor in made.compiled.graph.tensors()])
    for a, b in zip(*results, strict=True):
        assert (a is None) == (b is None)
        assert a is None or np.array_equal(a, b)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_short_memory_is_named() -> None:
    build = residual(channels=40)
    for shape, text in (
        (NpuShape("a", instructions=20), "instruction memory: .* words needed, a core has 20"),
        (NpuShape("c", parameter_words=2), "parameter memory: "),
        (NpuShape("d", map_vectors=64), "feature memory: .* vectors needed, a core has 64"),
        (NpuShape("e", entries=2, input_vectors=4), "not even one pixel fits in half"),
    ):
        with pytest.raises(DoesNotFitError, match=text):
            compiled(residual(channels=40), shape)
    assert build.graph.nodes


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_every_token_is_needed() -> None:
    """Without any one wait, the checker finds an address that two units would use at once."""
    from mapper.errors import CheckFailedError

    build = Builder(9, 9, 3)
    first = build.relu(build.conv(build.input, 20))
    summed = build.like(Add(), build.conv(first, 20), first)
    build.end(build.pool(summed, Pool("max", Window((2, 2), (2, 2)))))
    made = compiled(build, SMALL)
    assert {one.differences for one in compared(build, made)} == {0}
    image = made.compiled.code.image()
    everything = np.arange(SMALL.map_vectors)
    check_image(image, SMALL, [everything], "whole")
    program = made.compiled.code.program
    waits = [(n, bit) for n, one in enumerate(program) for bit in range(4) if one.wait >> bit & 1]
    assert len(waits) > 20
    for number, bit in waits:
        broken = list(program)
        broken[number] = program[number]._replace(wait=program[number].wait & ~(1 << bit))
        made.compiled.code.program = broken
        with pytest.raises(CheckFailedError, match="instruction"):
            check_image(made.compiled.code.image(), SMALL, [everything], "broken")


def test_calls_of_a_first_layer() -> None:
    """7x7 kernels over 3 channels: 49 calls per pixel, with windows 10."""
    build = Builder(16, 16, 3)
    window = Window((7, 7), (2, 2), Pad(3, 3, 3, 3))
    build.end(build.conv(build.input, 64, window))
    made = compiled(build)
    assert "49 -> 10 calls per pixel" in "\n".join(made.compiled.log)
    layer = made.compiled.macros[0].nodes[0]
    assert layer.inputs[1].shape == (64, 1, 1, 147)
    assert {one.differences for one in compared(build, made)} == {0}
    assert isinstance(made.compiled.macros[0].inputs[0], Tensor)
