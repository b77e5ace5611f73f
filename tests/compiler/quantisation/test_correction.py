"""Bias correction, and biases and shifts of layers with wide sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Window
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.formulas import dequantise, quantise, rounding_shift
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.quantisation.correction import correct_biases
from mapper.compiler.quantisation.layers import WeightLayer, fitted_bias, required_shift
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.score import Quantised
from mapper.errors import MapperError
from tests.compiler.networks import Builder, residual
from tests.compiler.quantisation.test_convert import quantised_by


def converted(build: Builder, precision: Precision, frames: int) -> tuple[Quantised, Graph, dict]:
    feeds = {build.input: build.samples(frames)}
    made = quantised_by(build, feeds, precision)
    return made, made.graph, feeds


def mean_error(build: Builder, made: Graph, layer: WeightLayer, feeds: dict) -> np.ndarray:
    """Return the mean error of each channel of a layer, in a plain run of both graphs."""
    real = run_graph(build.graph, feeds, FLOATING, [layer.real])[layer.real]
    stored = made.inputs["x"].tensor
    given = quantise(feeds[build.input], stored.scale, stored.zero_point, stored.bits)
    whole = run_graph(made, {stored: given}, INTEGER, [layer.result])[layer.result]
    found = dequantise(whole, layer.result.scale, layer.result.zero_point)
    return (found.astype(float) - real).mean((0, 1, 2))


@pytest.mark.parametrize("bits", [8, 16])
def test_bias_correction_removes_the_mean_error_of_each_channel(bits: int) -> None:
    build = residual()
    converter, made, feeds = converted(build, Precision(bits=bits), 40)
    plain = [mean_error(build, made, layer, feeds) for layer in converter.layers]
    told = correct_biases(build.graph, made, converter.layers, feeds)
    better = 0
    for row, layer, before in zip(told, converter.layers, plain, strict=True):
        assert row.layer is layer
        after = mean_error(build, made, layer, feeds)
        assert row.after == pytest.approx(np.abs(after).max() / layer.result.scale, abs=1e-4)
        better += np.abs(after).mean() < 0.7 * np.abs(before).mean()
    assert better == 3
    # the first layer reads the same integers as before its correction; later ones read other
    # integers
    assert told[0].before == pytest.approx(
        np.abs(plain[0]).max() / converter.layers[0].result.scale, abs=1e-4
    )


def test_bias_correction_follows_its_formula() -> None:
    """In a network of one layer, the correction is the mean error over the unit of the sums."""
    build = Builder(5, 5, 2, seed=3)
    build.end(build.relu(build.conv(build.input, 4)))
    converter, made, feeds = converted(build, Precision(), 33)
    (layer,) = converter.layers
    bias, error = layer.bias.copy(), mean_error(build, made, layer, feeds)
    correct_biases(build.graph, made, converter.layers, feeds)
    expected = bias - np.sign(error) * np.floor(np.abs(error / layer.unit) + 0.5)
    assert np.abs(layer.bias - expected).max() <= 1  # float32 sums of the two runs may differ
    assert (layer.bias != bias).any()


def test_bias_correction_checks_the_bound_again() -> None:
    build = Builder(4, 4, 2)
    build.end(build.conv(build.input, 2))
    converter, _, _ = converted(build, Precision(), 4)
    (layer,) = converter.layers
    with pytest.raises(MapperError, match="channel 1 can reach") as error:
        layer.set_bias(np.array([0, 2**31 - 1]))
    assert "conv 'n0'" in str(error.value)


@given(
    st.lists(st.integers(-(2**15) + 1, 2**15 - 1), min_size=1, max_size=40),
    st.integers(-(2**46), 2**46),
)
def test_a21_sums_of_16_bit_fit_the_multiplier_and_biases_the_shift(
    weights: list[int], bias: int
) -> None:
    kernel = np.array(weights, np.int64).reshape(1, 1, 1, -1)
    fitted, shift = fitted_bias(kernel, np.array([bias]), 16, "here")
    assert int(fitted[0]) % (1 << shift) == 0
    assert abs(int(fitted[0]) - bias) <= (1 << shift) >> 1
    bound = sum(abs(one) for one in weights) * 2**15 + abs(int(fitted[0]))
    assert rounding_shift(bound, shift, "away") < 2**31
    plain = max(0, bound.bit_length() - 31)
    if shift != plain:  # one more where rounding up leaves 31 bits, or the bias was rounded down
        assert shift == plain + 1


def test_a21_a_bound_just_below_a_power_of_two_is_shifted_once_more() -> None:
    weights = np.array([[[[1]]]])
    bias = np.array([2**32 - 1 - 2**15])  # the bound has 32 bits, all set
    assert required_shift(weights, bias, 16, "here") == 2
    assert required_shift(weights, bias - 2, 16, "here") == 1


def test_a22_sums_beyond_an_accumulator_name_the_layer_and_the_bound() -> None:
    weights = np.full((1, 1, 1, 2), 127)
    assert required_shift(weights, np.array([2**31 - 1 - 254 * 128]), 8, "here") == 0
    with pytest.raises(MapperError, match=r"here: .*channel 0 can reach 2,147,483,648"):
        required_shift(weights, np.array([2**31 - 254 * 128]), 8, "here")
    with pytest.raises(MapperError, match="140,737,488,355,328"):
        required_shift(weights, np.array([2**47 - 254 * 2**15]), 16, "here")


def test_correction_of_layers_without_bias_and_any_number_of_frames() -> None:
    build = Builder(4, 4, 2)
    weights = build.constant(build.random.normal(0, 1, (3, 1, 1, 2)))
    build.end(build.node(Conv(Window((1, 1))), [build.input, weights], (4, 4, 3)))
    converter, made, feeds = converted(build, Precision(), 1)
    assert len(correct_biases(build.graph, made, converter.layers, feeds)) == 1
