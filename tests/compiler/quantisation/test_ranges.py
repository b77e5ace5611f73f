"""Ranges of tensors: measured, selected by four methods, and read back from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.methods import FACTORS, METHODS, chosen_ends, squared_error
from mapper.compiler.quantisation.parameters import Precision, quantised_weights, scaling
from mapper.compiler.quantisation.ranges import (
    BINS,
    Ends,
    Range,
    measure_ranges,
)
from mapper.compiler.settings import Method
from mapper.errors import MapperError
from tests.compiler.networks import Builder, residual

TENSOR = Tensor("t", (1, 1, 1, 1))


def found_of(data: np.ndarray) -> Range:
    low, high = min(float(data.min()), 0.0), max(float(data.max()), 0.0)
    return Range(low, high, np.histogram(data, BINS, (low, high))[0])


def ends(found: Range, method: Method, bits: int = 8) -> Ends:
    return chosen_ends({TENSOR: found}, method, bits, "asym")[TENSOR]


def test_a20_ranges_are_independent_of_batches() -> None:
    """Independent of the batch sizes: here 16, 16 and 5."""
    build = residual()
    feeds = {build.input: build.samples(37)}
    tensors = Converter(build.graph, Precision()).quantised_tensors()
    whole = run_graph(build.graph, feeds, FLOATING, tensors)
    for tensor, found in measure_ranges(build.graph, feeds, tensors).items():
        wanted = found_of(whole[tensor])
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-6)
        assert found.low <= 0 <= found.high
        assert found.counts.sum() == whole[tensor].size
        assert np.abs(found.counts - wanted.counts).sum() <= 0.001 * whole[tensor].size + 4


def test_numbers_that_are_not_finite_name_the_tensor_and_the_samples() -> None:
    build = residual()
    samples = build.samples(20)
    samples[17, 2, 2, 0] = np.inf
    tensors = Converter(build.graph, Precision()).quantised_tensors()
    with (
        np.errstate(all="ignore"),
        pytest.raises(MapperError, match=r"'x' holds NaN or infinite .* samples 16 to 19"),
    ):
        measure_ranges(build.graph, {build.input: samples}, tensors)


# -- methods ---------------------------------------------------------------------------------------


def test_a20_percentile_clips_a_ten_thousandth_on_each_side() -> None:
    data = np.random.default_rng(0).normal(0, 1, 400_000)
    data[:3] = 40, -50, 45
    found = ends(found_of(data), "percentile")
    assert found.low == pytest.approx(np.percentile(data, 0.01), abs=95 / BINS)
    assert found.high == pytest.approx(np.percentile(data, 99.99), abs=95 / BINS)
    few = found_of(np.array([1.0, -2.0, 3.0]))  # none of them is a ten-thousandth
    assert ends(few, "percentile") == Ends(-2.0, 3.0)


def test_a20_mse_selects_the_best_of_its_steps() -> None:
    random = np.random.default_rng(0)
    assert len(FACTORS) == 29
    assert (FACTORS[0], FACTORS[-1]) == (0.3, 1.0)
    for data in (random.normal(0, 1, 50_000), np.abs(random.laplace(0, 1, 50_000))):
        found = found_of(data)
        errors = []
        for factor in FACTORS:
            scale, zero = scaling(found.low * factor, found.high * factor, 8, "asym")
            stored = np.clip(np.rint(data / scale) + zero, -128, 127)
            errors.append((((stored - zero) * scale - data) ** 2).sum())
        made = ends(found, "mse")
        chosen = made.high / found.high
        best = FACTORS[int(np.argmin(errors))]
        assert chosen == pytest.approx(best, abs=0.0251)  # within one step, due to bins
        assert chosen < 1
        other = squared_error(found, made, 8, "asym")
        assert other <= min(errors) * 1.05


def test_a20_uniform_numbers_are_not_clipped() -> None:
    found = found_of(np.random.default_rng(0).uniform(-1, 3, 500_000))
    for method in METHODS:
        made = ends(found, method)
        assert made.high - made.low >= 0.97 * (found.high - found.low), method


def test_a20_entropy_clips_outliers_and_ignores_zeros() -> None:
    random = np.random.default_rng(0)
    data = random.normal(0, 1, 200_000)
    far = np.concatenate([data, [60.0, -80.0]])
    made = ends(found_of(far), "entropy")
    assert -80 <= made.low < -4
    assert made.high - made.low < 0.5 * 140
    relu = found_of(np.maximum(data, 0))
    assert ends(relu, "entropy").high > 0.5 * relu.high
    with pytest.raises(MapperError, match="entropy is for 8 bits"):
        ends(relu, "entropy", 16)


@pytest.mark.parametrize("method", METHODS)
def test_ranges_of_zeros_and_of_one_sign(method: Method) -> None:
    assert ends(Range(0.0, 0.0, np.zeros(BINS, np.int64)), method) == Ends(0.0, 0.0)
    one = ends(found_of(np.array([5.0] * 100)), method)
    assert one.low == 0
    assert 0 < one.high <= 5
    other = ends(found_of(np.array([-5.0] * 100)), method)
    assert other.high == 0
    assert -5 <= other.low < 0


# -- scales ----------------------------------------------------------------------------------------

reals = st.floats(-1e6, 1e6)


@given(reals, reals, st.sampled_from([8, 16]), st.sampled_from(["asym", "sym"]))
def test_a20_scales_cover_their_range_and_zero_is_exact(
    one: float, other: float, bits: int, scheme: str
) -> None:
    low, high = min(one, other, 0.0), max(one, other, 0.0)
    scale, zero = scaling(low, high, bits, scheme)  # type: ignore[arg-type]
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert scale > 0
    assert float(np.float32(scale)) == scale
    assert least <= zero <= most
    assert scheme == "asym" or zero == 0
    reach = (scale * (least - zero), scale * (most - zero))
    slack = scale * 0.51 + 1e-6 * abs(high - low)
    assert reach[0] <= low + slack
    assert reach[1] >= high - slack


def test_a20_scales_by_hand() -> None:
    assert scaling(0.0, 25.5, 8, "asym") == (float(np.float32(0.1)), -128)
    assert scaling(-25.5, 0.0, 8, "asym") == (float(np.float32(0.1)), 127)
    assert scaling(-12.7, 5.0, 8, "sym") == (float(np.float32(0.1)), 0)
    assert scaling(3.0, 25.5, 8, "asym") == scaling(0.0, 25.5, 8, "asym")  # 0 is inside
    assert scaling(0.0, 0.0, 16, "asym") == (1.0, 0)


def test_a20_weights_are_symmetric_by_channel_or_tensor() -> None:
    weights = np.array([[1.0, -2.0], [0.5, 0.25], [0.0, 0.0]], np.float32).reshape(3, 1, 1, 2)
    stored, scales = quantised_weights(weights, 8, True)
    assert stored.reshape(3, 2).tolist() == [[64, -127], [127, 64], [0, 0]]
    assert scales.tolist() == [float(np.float32(2 / 127)), float(np.float32(0.5 / 127)), 1.0]
    stored, scales = quantised_weights(weights, 8, False)
    assert stored.reshape(3, 2).tolist() == [[64, -127], [32, 16], [0, 0]]
    assert len(set(scales.tolist())) == 1
    stored, _ = quantised_weights(weights, 16, True)
    assert stored.min() == -32767


def test_a20_selected_ends_determine_the_scales(tmp_path: Path) -> None:
    build = Builder(5, 5, 2)
    build.end(build.relu(build.conv(build.input, 4)))
    feeds = {build.input: build.samples(800)}
    converter = Converter(build.graph, Precision())
    ranges = measure_ranges(build.graph, feeds, converter.quantised_tensors())
    chosen = chosen_ends(ranges, "percentile", 8, "asym")
    made = converter.convert(chosen)
    assert chosen[build.input] != Ends(*ranges[build.input][:2])
    assert made.inputs["x"].tensor.scale == scaling(*chosen[build.input], 8, "asym").scale


@pytest.mark.parametrize("largest", [3e38, 2e-45])
def test_ranges_that_float32_cannot_divide(largest: float) -> None:
    build = Builder(5, 5, 2)
    samples = np.zeros((2, 5, 5, 2), np.float32)
    samples[0, 0, 0] = largest, -largest
    found = measure_ranges(build.graph, {build.input: samples}, [build.input])[build.input]
    assert found.counts.sum() == samples.size
    assert found.counts[0] == found.counts[-1] == 1
