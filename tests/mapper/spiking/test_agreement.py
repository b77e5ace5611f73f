"""Agreement of runs, against sums over every neuron, bin and sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mapper.spiking.agreement import BINS, compare_outputs, compare_populations
from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import ReferenceRun, SpikeTrains
from storage.samples.spikes import SpikeSamples
from tests.mapper.spiking.models import connected, inputs_and

SAMPLES, TICKS, SIZE = 4, 23, 3


def trains_of(fires: np.ndarray) -> SpikeTrains:
    return SpikeTrains(*(part.astype(np.int64) for part in np.nonzero(fires)))


def model() -> SpikingModel:
    return connected(inputs_and(2, SIZE), [(0, 1, 0)])


def samples(labels: list[int] | None = None) -> SpikeSamples:
    none = np.zeros(0, np.int64)
    given = None if labels is None else np.array(labels)
    return SpikeSamples(none, none, none, none, SAMPLES, TICKS, given)


def runs(one: np.ndarray, other: np.ndarray) -> list[ReferenceRun]:
    nothing = trains_of(np.zeros((SAMPLES, TICKS, 2)))
    return [ReferenceRun((nothing, trains_of(each)), {}, np.zeros(SIZE)) for each in (one, other)]


def cosine(one: np.ndarray, other: np.ndarray, ticks: int) -> float:
    """Return the cosine of two samples, shape (ticks, neurons)."""
    dot, first, second = 0, 0, 0
    for neuron in range(SIZE):
        for begin in range(0, TICKS, ticks):
            a = int(one[begin : begin + ticks, neuron].sum())
            b = int(other[begin : begin + ticks, neuron].sum())
            dot, first, second = dot + a * b, first + a * a, second + b * b
    if first == second == 0:
        return 1.0
    return dot / math.sqrt(first * second) if first * second else 0.0


@pytest.mark.parametrize("seed", range(8))
def test_cosines_and_divergence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = rng.random((SAMPLES, TICKS, SIZE)) < 0.2
    other = one ^ (rng.random(one.shape) < 0.05 * seed)
    one[0], other[: seed % 3] = False, False
    (row,) = compare_populations(model(), samples(), *runs(one, other))
    assert (row.name, row.expected, row.found) == ("p1", one.sum(), other.sum())
    for ticks, found in zip(BINS, row.cosines, strict=True):
        values = [cosine(a, b, ticks) for a, b in zip(one, other, strict=True)]
        assert found.ticks == ticks
        assert found.mean == pytest.approx(sum(values) / SAMPLES)
        assert found.least == pytest.approx(min(values))
    differing = [tick for tick in range(TICKS) if (one[:, tick] != other[:, tick]).any()]
    assert row.diverges == (differing[0] if differing else None)


def test_classes_of_outputs() -> None:
    fires = np.zeros((SAMPLES, TICKS, SIZE), bool)
    for sample, neuron in enumerate([2, 1, 0, 1]):
        fires[sample, :5, neuron] = True
    other = fires.copy()
    other[3, 5:15, 2] = True
    (row,) = compare_outputs(model(), samples([2, 1, 1, 2]), *runs(fires, other))
    assert row == ("output", 0.75, 0.5, 0.75)
    (row,) = compare_outputs(model(), samples(), *runs(fires, other))
    assert row == ("output", 0.75, None, None)


def test_classes_of_silent_outputs_are_mean_potentials() -> None:
    spiking = model()
    inputs, last = spiking.populations
    assert last.dynamics is not None
    still = last._replace(dynamics=last.dynamics._replace(silent=np.ones(SIZE, bool)))
    silent = spiking._replace(populations=(inputs, still))
    nothing = (
        trains_of(np.zeros((SAMPLES, TICKS, 2))),
        trains_of(np.zeros((SAMPLES, TICKS, SIZE))),
    )
    one = np.zeros((SAMPLES, TICKS, SIZE))
    one[:, :, 0], one[0, 3, 1] = 0.1, 9.0  # a peak outweighs a lower mean
    other = one.copy()
    other[1, :, 2] = 0.2
    pair = [ReferenceRun(nothing, {1: each}, np.zeros(SIZE)) for each in (one, other)]
    (row,) = compare_outputs(silent, samples([1, 2, 0, 0]), *pair)
    assert row == ("output", 0.75, 0.75, 1.0)
    assert compare_populations(silent, samples(), *pair) == ()
