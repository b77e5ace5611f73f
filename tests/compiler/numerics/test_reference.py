"""The reference of integer graphs against loops in Python, one number at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.compiler.ir.node import (
    Add,
    Clamp,
    Concat,
    Conv,
    Dense,
    Node,
    Operator,
    Pool,
    Quantise,
    Requantise,
    Upsample,
    Window,
)
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.numerics.formulas import add_factors, folded_bias, multiplier
from mapper.compiler.numerics.reference import INTEGER
from tests.reference import integer as twin

RANDOM = np.random.default_rng(4)


def stored(*shape: int, bits: int = 8, zero_point: int = 0, scale: float = 0.1) -> Tensor:
    kind = "int8" if bits == 8 else "int16"
    return Tensor("t", (1, *shape), kind, scale, zero_point)  # type: ignore[arg-type]


def run(operator: Operator, inputs: list[Tensor], data: list[np.ndarray], output: Tensor) -> Any:
    return INTEGER(Node(operator, inputs, [output], ("n",)), data)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    small = st.integers(0, 2)
    return Window(
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        (draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        Pad(draw(small), draw(small), draw(small), draw(small)),
        (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    )


def how(window: Window, value: int = 0) -> dict[str, Any]:
    return {
        "size": window.size, "stride": window.stride, "dilation": window.dilation,
        "pad": window.pad, "value": value,
    }  # fmt: skip


@settings(max_examples=60)
@given(
    windows(), st.sampled_from([8, 16]), st.sampled_from([1, 2, 4]), st.sampled_from([4, 8]),
    st.integers(-128, 127), st.integers(0, 2**32),
)  # fmt: skip
def test_a22_convolutions_with_the_zero_point_around_the_map(
    window: Window, bits: int, groups: int, outputs: int, zero_point: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    half = 1 << (bits - 1)
    data = random.integers(-half, half, (2, 5, 6, 4))
    weights = random.integers(-half + 1, half, (outputs, *window.size, 4 // groups))
    bias = random.integers(-(2**30), 2**30, outputs)
    tensor = stored(5, 6, 4, bits=bits, zero_point=zero_point)
    if min(window.results(5, 6)) < 1:
        return
    made = run(Conv(window, groups), [tensor], [data, weights, bias], tensor)
    assert made.dtype == np.int64
    for frame in range(2):
        wanted = twin.convolution(data[frame], weights, bias.tolist(), how(window, zero_point))
        assert made[frame].tolist() == wanted


def test_a22_folding_is_subtracting_before_multiplying() -> None:
    """With the zero point as padding; 200 convolutions."""
    for seed in range(200):
        random = np.random.default_rng(seed)
        zero_point = int(random.integers(-128, 128))
        data = random.integers(-128, 128, (1, 4, 4, 2))
        weights = random.integers(-127, 128, (2, 3, 3, 2))
        bias = random.integers(-9999, 9999, 2)
        window = Window((3, 3), pad=Pad(1, 1, 1, 1))
        folded = folded_bias(bias, weights, zero_point)
        tensor = stored(4, 4, 2, zero_point=zero_point)
        made = run(Conv(window), [tensor], [data, weights, folded], tensor)
        before = data[0] - zero_point
        wanted = twin.convolution(before, weights, bias.tolist(), how(window, 0))
        assert made[0].tolist() == wanted


def test_sums_are_exact_at_the_largest_numbers() -> None:
    """16 bits, 2^15 products of 2^30 each: 45 bits, which float64 holds."""
    data = np.full((1, 8, 8, 512), -(2**15))
    weights = np.full((1, 8, 8, 512), 2**15 - 1)
    weights[0, 0, 0, 0] -= 1
    tensor = stored(8, 8, 512, bits=16)
    made = run(Conv(Window((8, 8))), [tensor], [data, weights, np.array([1])], tensor)
    assert made.item() == -(2**15) * ((2**15 - 1) * 2**15 - 1) + 1


@pytest.mark.parametrize("channels", [1032, 1033])
def test_sums_are_exact_on_both_sides_of_float32(channels: int) -> None:
    """Products of 127 * 128: below 2^24, which float32 holds, and above."""
    assert (channels * 127 * 128 < 2**24) == (channels == 1032)
    data = np.full((1, 1, 2, channels), -128)
    data[0, 0, 1, -1] += 1
    weights = np.full((1, 1, 1, channels), 127)
    tensor = stored(1, 2, channels)
    made = run(Conv(Window((1, 1))), [tensor], [data, weights, np.array([3])], tensor)
    assert made.ravel().tolist() == [3 - channels * 127 * 128, 130 - channels * 127 * 128]


def test_dense_layers_read_the_whole_map() -> None:
    data = RANDOM.integers(-128, 128, (3, 2, 3, 4))
    weights = RANDOM.integers(-127, 128, (5, 2, 3, 4))
    bias = RANDOM.integers(-999, 999, 5)
    tensor = stored(2, 3, 4)
    made = run(Dense(), [tensor], [data, weights, bias], tensor)
    wanted = [
        [
            sum(int(a) * int(w) for a, w in zip(frame.ravel(), kernel.ravel(), strict=True))
            + int(b)
            for kernel, b in zip(weights, bias, strict=True)
        ]
        for frame in data
    ]
    assert made.reshape(3, 5).tolist() == wanted


@settings(max_examples=60)
@given(windows(), st.integers(-128, 127), st.integers(0, 2**32))
def test_pooling_of_stored_integers(window: Window, zero_point: int, seed: int) -> None:
    data = np.random.default_rng(seed).integers(-128, 128, (1, 5, 6, 3))
    tensor = stored(5, 6, 3, zero_point=zero_point)
    if min(window.results(5, 6)) < 1:
        return
    pixels = twin.pool(data[0], how(window))
    largest = run(Pool("max", window), [tensor], [data], tensor)[0]
    assert largest.tolist() == [
        [[max(seen, default=-128) for seen in pixel] for pixel in row] for row in pixels
    ]
    sums = run(Pool("average", window), [tensor], [data], tensor)[0]
    assert sums.tolist() == [
        [[sum(seen) - len(seen) * zero_point for seen in pixel] for pixel in row] for row in pixels
    ]


def test_max_pooling_of_sums_pads_with_the_least_of_them() -> None:
    window = Window((2, 2), (2, 2), Pad(1, 1, 1, 1))
    data = RANDOM.integers(-(2**31), -(2**30), (1, 4, 4, 2))
    sums = Tensor("s", (1, 4, 4, 2), "int32")
    made = run(Pool("max", window), [sums], [data], sums)[0]
    pixels = twin.pool(data[0], how(window))
    assert made.tolist() == [[[max(seen) for seen in pixel] for pixel in row] for row in pixels]


def test_a23_requantised_sums_by_channel() -> None:
    factors = multiplier([0.01, 0.002, -0.03], "here")
    made = Requantisation(factors, -5, -128, 100, "away")
    data = RANDOM.integers(-20000, 20000, (2, 3, 3, 3))
    tensor = stored(3, 3, 3)
    found = run(Requantise(made), [tensor], [data], tensor)
    for place in np.ndindex(data.shape):
        assert found[place] == twin.requantise(int(data[place]), made, place[-1])


def test_b15_sums_of_maps() -> None:
    ends = ((0.0731, -11), (0.1404, 63))
    factors = add_factors(*ends, 0.1899, 8, "here")
    data = [RANDOM.integers(-128, 128, (1, 4, 4, 16)) for _ in ends]
    output = stored(4, 4, 16, scale=0.1899, zero_point=-20)
    found = run(Add(factors, -20, 127), [output, output], data, output)
    for place in np.ndindex(found.shape):
        values = int(data[0][place]), int(data[1][place])
        assert found[place] == twin.added(*values, ends, 0.1899, (-20, -20, 127, 8))


def test_operators_that_move_integers() -> None:
    tensor = stored(2, 3, 4)
    one, other = (RANDOM.integers(-128, 128, (2, 2, 3, 4)) for _ in range(2))
    assert run(Clamp(-5, 90), [tensor], [one], tensor).tolist() == one.clip(-5, 90).tolist()
    for axis in (1, 2, 3):
        joined = run(Concat(axis), [tensor, tensor], [one, other], tensor)
        assert np.array_equal(joined, np.concatenate([one, other], axis))
    larger = run(Upsample(), [tensor], [one], tensor)
    for y, x in np.ndindex(4, 6):
        assert np.array_equal(larger[:, y, x], one[:, y // 2, x // 2])


def test_real_numbers_of_the_host_are_stored_by_the_scale_of_the_result() -> None:
    output = stored(1, 1, 4, scale=0.5, zero_point=3)
    real = np.array([[[[0.25, 0.75, -0.3, 1e9]]]], np.float32)
    assert run(Quantise(), [output], [real], output).ravel().tolist() == [3, 5, 2, 127]


@pytest.mark.parametrize("frames", [1, 3])
def test_all_frames_are_computed_equally(frames: int) -> None:
    data = RANDOM.integers(-128, 128, (1, 5, 6, 4))
    weights = RANDOM.integers(-127, 128, (4, 3, 3, 4))
    tensor = stored(5, 6, 4, zero_point=9)
    window = Window((3, 3), pad=Pad(1, 1, 1, 1))
    several = np.repeat(data, frames, 0)
    made = run(Conv(window), [tensor], [several, weights, np.zeros(4, np.int64)], tensor)
    assert (made == made[:1]).all()
