"""Models in the integers of cores: exact where possible, and never out of range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hw.core.shape import CoreShape
from mapper.errors import MapperError
from mapper.exports.core_numbers import core_numbers
from mapper.exports.model import NeuronModel
from tests.mapper.exports.mapped import spikes_of

TICKS = 30


def model(
    weights: NDArray[np.float64],
    threshold: float,
    bias: float = 0.0,
    decay: float = 0.0,
    subtract: bool = False,
    start: float = 0.0,
) -> NeuronModel:
    """Build neurons after an input; weights : shape (neurons, neurons + 1), input first."""
    n = weights.shape[0]
    target, source = np.indices(weights.shape).reshape(2, -1)
    cells = np.arange(n + 1) > 0
    return NeuronModel(
        source,
        target + 1,
        weights.ravel(),
        np.ones(n + 1),
        np.where(cells, decay, 1.0),
        np.zeros(n + 1),
        np.where(cells, bias, 0.0),
        np.where(cells, threshold, np.inf),
        np.where(cells, start, 0.0),
        True,
        subtract,
        ~cells,
        (),
    )


def expected(
    weights: NDArray[np.float64], threshold: float, bias: float, subtract: bool, start: float,
    told: NDArray[np.bool_],
) -> NDArray[np.bool_]:  # fmt: skip
    """Return the same in floating point, with spikes above the threshold."""
    v, fires, found = np.full(weights.shape[0], start), np.zeros(weights.shape[1], bool), []
    for now in told:
        v = v + weights @ fires + bias
        cells = v > threshold
        v = np.where(cells, v - threshold if subtract else 0.0, v)
        fires = np.append(now, cells)
        found.append(cells)
    return np.array(found)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=150)
@given(data=st.data())
def test_exact_multiples_spike_as_floating_point(data: st.DataObject) -> None:
    """For any power of two as unit, and any reset."""
    n, unit = data.draw(st.integers(1, 3)), 2.0 ** data.draw(st.integers(-40, 40))
    whole = st.integers(-128, 127)
    rows = data.draw(st.lists(whole, min_size=n * (n + 1), max_size=n * (n + 1)))
    weights = np.array(rows, float).reshape(n, n + 1) * unit
    threshold = data.draw(st.integers(1, 300)) * unit
    bias, start = data.draw(st.integers(-20, 60)) * unit, data.draw(st.integers(-50, 50)) * unit
    subtract, quantise = data.draw(st.booleans()), data.draw(st.booleans())
    told = np.array(data.draw(st.lists(st.booleans(), min_size=TICKS, max_size=TICKS)))
    numbers = core_numbers(
        model(weights, threshold, bias, 0.0, subtract, start), CoreShape(), quantise, "here"
    )
    numbers.network.require_fit(CoreShape())
    assert numbers.losses == ()
    found = spikes_of(numbers, told[:, None])[:, 1:]
    assert np.array_equal(found, expected(weights, threshold, bias, subtract, start, told))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=150)
@given(data=st.data())
def test_rounded_numbers_fit_with_small_errors(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    real = st.floats(-1e6, 1e6).filter(lambda w: w == 0 or abs(w) > 1e-6)
    size = n * (n + 1)
    weights = np.array(data.draw(st.lists(real, min_size=size, max_size=size))).reshape(n, n + 1)
    threshold, decay = data.draw(st.floats(1e-3, 1e6)), data.draw(st.floats(0.001, 1.0))
    bits = {
        "weight_bits": data.draw(st.integers(2, 12)),
        "sum_bits": data.draw(st.integers(12, 16)),
    }
    shape = CoreShape(**bits)
    made = model(weights, threshold, data.draw(real), decay, data.draw(st.booleans()))
    numbers = core_numbers(made, shape, True, "here")
    numbers.network.require_fit(shape)  # raises if a value does not fit
    scale = np.exp2(numbers.exponent)
    off = np.abs(numbers.network.weight - made.weight * scale[made.target])
    assert off.max() <= 0.5
    counts = {loss.kind: loss.count for loss in numbers.losses}
    assert counts.get("rounded", 0) == np.count_nonzero(off)
    gone = (numbers.network.weight == 0) & (made.weight != 0)
    assert counts.get("vanished", 0) == np.count_nonzero(gone)
    level = numbers.network.threshold[1:]
    own = scale[1:] * np.exp2(numbers.network.shift[1:])
    assert np.all(np.abs(level - threshold * own) <= 1)


@pytest.mark.parametrize(
    ("decay", "factor", "kinds"),
    [
        (0.0, 4096, set()),
        (1.0, 0, set()),
        (0.25, 3072, {"decay_rounding"}),
        (2.0**-12, 4095, {"decay_rounding"}),
        (0.2, 3277, {"decay_rounding", "decays"}),
        (1e-9, 4096, {"decays"}),
    ],
)
def test_decays(decay: float, factor: int, kinds: set[str]) -> None:
    made = model(np.ones((1, 2)), 3.0, decay=decay)
    numbers = core_numbers(made, CoreShape(), True, "here")
    assert numbers.network.potential_decay is not None
    assert numbers.network.potential_decay[1] == factor
    assert {loss.kind for loss in numbers.losses} == kinds
    if "decays" in kinds:
        with pytest.raises(MapperError, match=r"here: .*1 neurons have a decay that is no multip"):
            core_numbers(made, CoreShape(), False, "here")


def test_neurons_that_decay_have_fractions() -> None:
    """As many bits as a 24-bit state can hold next to the threshold and the largest sum, 300."""
    weights = np.array([[100.0, 100.0], [0.0, 0.0]])
    weights = np.column_stack([weights, [100.0, 0.0]])
    numbers = core_numbers(model(weights, 7.0, decay=0.5), CoreShape(), False, "here")
    assert numbers.network.shift.tolist() == [0, 24 - 2 - 9, 15]  # an input; 300; at most 15 bits
    assert numbers.network.threshold.tolist()[1:] == [7 * 2**13 + 1, 7 * 2**15 + 1]
    assert numbers.network.weight.max() == 100
    kept = core_numbers(model(weights, 7.0), CoreShape(), False, "here")
    assert kept.network.shift.tolist() == [0, 0, 0]


def test_scales_are_one_where_possible() -> None:
    weights = np.array([[64.0, -128.0, 0], [0.25, 3.0, 0], [256.0, 512.0, 1024.0]])
    weights = np.column_stack([weights, np.zeros(3)])
    numbers = core_numbers(model(weights, 100.0), CoreShape(), False, "here")
    assert numbers.exponent.tolist() == [0, 0, 2, -4]  # the smallest, or the nearest that fits
