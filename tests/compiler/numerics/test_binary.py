"""Bits in memory, their products, and thresholds, compared with one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.compiler.ir.node import Conv, Node, Pool, Sign, Threshold, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.ir.text import graph_from_json, graph_to_json
from mapper.compiler.numerics.binary import (
    applied,
    kernel_signs,
    packed,
    signs,
    thresholds,
    unpacked,
    unused_bits,
)
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.reference import INTEGER
from mapper.errors import MapperError
from tests.compiler.graph_text import parse
from tests.reference import binary as twin
from tests.reference import integer

RANDOM = np.random.default_rng(12)


def random_signs(*shape: int) -> np.ndarray:
    return signs(RANDOM.normal(0, 1, shape))


def run(node: Node, data: list[np.ndarray]) -> np.ndarray:
    made = INTEGER(node, data)
    assert isinstance(made, np.ndarray)
    return made


@pytest.mark.parametrize("channels", [1, 3, 16, 43, 127, 128, 129, 147, 300])
@pytest.mark.parametrize("vector", [4, 16])
def test_b06_channel_c_is_bit_c_of_its_vector(channels: int, vector: int) -> None:
    values = random_signs(2, 3, channels)
    vectors = packed(values, vector)
    assert vectors.shape == (2, 3, math.ceil(channels / (8 * vector)), vector)
    assert np.array_equal(unpacked(vectors, channels), values)
    for place in np.ndindex(2, 3):
        for number, bytes_ in enumerate(vectors[place]):
            some = values[place][number * 8 * vector : (number + 1) * 8 * vector]
            assert int.from_bytes(bytes_.tobytes(), "little") == twin.word(some.tolist())


@pytest.mark.parametrize("count", [1, 16, 64, 127, 128, 147, 23328])
def test_b04_popcount_of_equal_bits_is_the_product(count: int) -> None:
    """B03, B04: 2 * popcount(xnor) - K; the tail of the last vector is not counted."""
    a, b = random_signs(count), random_signs(count)
    assert twin.dot(a.tolist(), b.tolist(), 128) == int((a * b).sum())
    tail = unused_bits((1, 1), count, 16)
    assert tail == math.ceil(count / 128) * 128 - count
    both = packed(a, 16).tobytes(), packed(b, 16).tobytes()
    unlike = sum((x ^ y).bit_count() for x, y in zip(*both, strict=True))
    assert count + tail - 2 * unlike - tail == int((a * b).sum())


def test_unused_bits_count_for_each_pixel_of_a_kernel() -> None:
    assert unused_bits((3, 3), 16, 16) == 9 * 112
    assert unused_bits((2, 5), 128, 16) == 0
    assert unused_bits((1, 1), 147, 16) == 109


def test_b03_convolutions_of_bits_have_zeros_around_them() -> None:
    window = Window((3, 2), (2, 1), Pad(1, 0, 1, 1), (1, 2))
    data, weights = random_signs(2, 5, 6, 7), random_signs(4, 3, 2, 7)
    bias = RANDOM.integers(-50, 50, 4)
    tensor = Tensor("x", (1, 5, 6, 7), "bits")
    made = run(Node(Conv(window), [tensor], [tensor], ("n",)), [data, weights, bias])
    how = {
        "size": window.size, "stride": window.stride, "dilation": window.dilation,
        "pad": window.pad, "value": 0,
    }  # fmt: skip
    for frame in range(2):
        assert (
            made[frame].tolist()
            == integer.convolution(data[frame], weights, bias.tolist(), how)
        )  # fmt: skip


def test_signs_of_stored_integers_and_of_real_numbers() -> None:
    data = np.array([-0.5, -0.0, 0.0, 0.1, 3])
    assert signs(data).tolist() == [-1, 1, 1, 1, 1]
    tensor = Tensor("x", (1, 1, 1, 5), "int8", 0.1, -7)
    stored = np.array([-128, -8, -7, -6, 0]).reshape(1, 1, 1, 5)
    assert run(Node(Sign(), [tensor], [tensor], ("n",)), [stored]).ravel().tolist() == [
        -1, -1, 1, 1, 1,
    ]  # fmt: skip
    real = FLOATING(Node(Sign(), [tensor], [tensor], ("n",)), [data.astype(np.float32)])
    assert isinstance(real, np.ndarray)
    assert real.dtype == np.float32
    assert real.tolist() == [-1, 1, 1, 1, 1]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.floats(-4, 4, width=32).map(lambda x: x if abs(x) > 1e-3 else 0.0),
            st.floats(-300, 300, width=32),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_b09_thresholds_of_channels(steps: list[tuple[float, float]]) -> None:
    """B09: any sums; includes gamma < 0 and gamma = 0. Dyadic numbers, so float64 is exact."""
    steps = [(round(a * 64) / 64, round(b * 64) / 64) for a, b in steps]
    found = thresholds([(np.array([a]), np.array([b])) for a, b in steps], "here")
    near = int(np.clip(found.least[0], -(10**6), 10**6))
    for total in {*range(near - 3, near + 4), *range(-5, 6), -2000, 2000, -(2**30), 2**30}:
        assert found.bits([total])[0] == twin.sign_behind(total, steps)
    slope = math.prod(a for a, _ in steps)
    if slope:
        assert found.flip[0] == (slope < 0)


def test_b09_literal_thresholds() -> None:
    """(d - 2.5) * 2, its negative, (d - 3) * 2, its negative, and constants."""
    factor = np.array([2.0, -2.0, 2.0, -2.0, 0.0, 0.0, 0.0])
    offset = np.array([-5.0, 5.0, -6.0, 6.0, 0.0, 1.0, -1.0])
    found = thresholds([(factor, offset)], "here")
    assert found.least[:4].tolist() == [3, 3, 3, 4]
    assert found.flip.tolist() == [0, 1, 0, 1, 0, 0, 1]
    assert found.bits([0] * 7).tolist() == [-1, 1, -1, 1, 1, 1, -1]
    assert found.bits([3] * 7).tolist() == [1, -1, 1, 1, 1, 1, -1]
    assert found.bits([-(2**31)] * 7).tolist() == [-1, 1, -1, 1, 1, 1, -1]


def test_thresholds_agree_with_float64_where_it_rounds() -> None:
    """The zero of factors that float64 cannot divide exactly may round to the wrong side."""
    random = np.random.default_rng(3)
    factor = random.normal(0, 1, 4096)
    offset = (
        -factor * random.integers(-1000, 1000, 4096) * (1 + random.integers(-2, 3, 4096) * 2e-16)
    )
    steps = [(factor, offset), (np.full(4096, -1 / 3), np.zeros(4096))]
    found = thresholds(steps, "here")
    for beside in (-1, 0, 1):
        at = found.least + beside
        assert np.array_equal(found.bits(at), signs(applied(steps, at)))


def test_factors_that_are_not_finite_are_refused() -> None:
    with pytest.raises(MapperError, match=r"conv 'a': factors before its signs are not finite"):
        thresholds([(np.array([1.0, np.inf]), np.zeros(2))], "conv 'a'")


def test_b09_pooling_of_bits_is_or() -> None:
    """After thresholds without `flip` it equals the threshold of the largest sum."""
    window = Window((2, 2), (2, 2))
    sums = RANDOM.integers(-9, 9, (1, 6, 6, 3))
    least = np.array([-2, 0, 5])
    flip = np.zeros(3, np.int64)
    tensor, bits = Tensor("s", (1, 6, 6, 3), "int32"), Tensor("b", (1, 6, 6, 3), "bits")
    limit = Node(Threshold(least, flip), [tensor], [bits], ("t",))
    after = run(Node(Pool("max", window), [bits], [bits], ("p",)), [run(limit, [sums])])
    before = run(limit, [run(Node(Pool("max", window), [tensor], [tensor], ("p",)), [sums])])
    assert np.array_equal(after, before)
    for y, x, c in np.ndindex(3, 3, 3):
        some = run(limit, [sums])[0, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2, c]
        assert after[0, y, x, c] == twin.pooled(some.ravel().tolist())


def test_b07_binary_weights_have_one_magnitude_per_kernel() -> None:
    weights = random_signs(4, 3, 3, 2) * np.array([0.5, 2.0, 0.0, 7.0]).reshape(-1, 1, 1, 1)
    found = kernel_signs(weights)
    assert found is not None
    assert found[1].tolist() == [0.5, 2.0, 0.0, 7.0]
    assert np.array_equal(found[0] * found[1].reshape(-1, 1, 1, 1), weights)
    weights[1, 0, 0, 0] *= 1 + 5e-5
    assert kernel_signs(weights) is not None
    weights[1, 0, 0, 0] *= 1 + 2e-4
    assert kernel_signs(weights) is None


def test_thresholds_round_trip_through_files() -> None:
    graph = parse("input s int32[2,2,3]\nthreshold b <- s  least=(3)=1,-5,0 flip=(3)=0,1,0")
    again = graph_from_json(*graph_to_json(graph))
    data = RANDOM.integers(-9, 9, (2, 2, 2, 3))
    made = [
        run_graph(one, {one.inputs["s"].tensor: data}, INTEGER, [one.nodes[0].output])
        for one in (graph, again)
    ]
    assert np.array_equal(*(next(iter(one.values())) for one in made))
    assert (again.nodes[0].output.low, again.nodes[0].output.high) == (-1, 1)
