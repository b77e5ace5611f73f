"""Trained models compiled to integers: as accurate on cores as in real numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from hw.core.shape import CoreShape
from hw.tables import make_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import MapperError
from mapper.spiking.integer_run import run_integers
from mapper.spiking.integers import IntegerOptions
from mapper.spiking.pipeline import SpikingOptions, compile_spikes, measured_activity, samples_of
from mapper.spiking.reference import run_reference
from mapper.spiking.schedule import schedule
from mapper.spiking.search import AgreementLimits, CalibratedModel, search_precision
from mapper.spiking.simulate import InputSpikes, simulate_samples
from mapper.spiking.slots import Slots
from tests.mapper.spiking.models import connected, inputs_and, spikes_of

SHAPE = CoreShape(neurons=1024, synapses=1 << 16, routes=1 << 13, sum_bits=20)


@pytest.mark.heavy
@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("name", ["digits_lif", "digits_cuba_rec", "digits_conv_if"])
def test_accuracy_on_cores(data_dir: Path, name: str, bits: int) -> None:
    """Within 0.5 points of the float models, as others measured them, or above."""
    folder = data_dir / "snn"
    expected = json.loads((folder / "expected.json").read_text())
    found = compile_spikes(
        folder / f"{name}.nir", SHAPE, folder / "digits_calibration.npz",
        SpikingOptions(expected["dt"], limits=AgreementLimits(0, 0), weight_bits=(bits,)),
    )  # fmt: skip
    samples = samples_of(found.model, folder / "digits_test.npz")
    core = np.arange(found.integers.network.neurons) % 4
    slots = Slots.of(make_tables(found.integers.network, core, 2, 2, found.integers.shape))
    (output,) = found.model.outputs
    first, late = (part[output.population] for part in (found.model.first, found.schedule.latency))
    ticks = samples.ticks + found.schedule.last
    counts = []
    with ThreadTeam(2) as team:
        given = InputSpikes.of(samples)
        for run in simulate_samples(slots, given, ticks, np.zeros(0, np.int64), team):
            fired = run.neuron[run.ends[late] : run.ends[late + samples.ticks]]
            counts.append(np.bincount(fired[fired >= first] - first, minlength=10)[:10])
    assert samples.labels is not None
    accuracy = np.mean(np.array(counts).argmax(1) == samples.labels)
    assert accuracy >= expected[name]["accuracy"] - 0.005
    assert all("weights rounded to 0" in note for note in found.notes)


def test_activity_is_measured_per_neuron_and_input() -> None:
    model = connected(inputs_and(4, 3, 2), [(0, 1, 0), (1, 2, 0)])
    samples = spikes_of(model, 3, 8, 1)
    run = run_reference(model, samples)
    found = measured_activity(model, samples, run)
    counts = np.zeros(9)
    for number in (1, 2):
        for neuron in run.spikes[number].neuron.tolist():
            counts[model.first[number] + neuron] += 1
    for neuron, value in zip(samples.neuron.tolist(), samples.value.tolist(), strict=True):
        counts[5 + neuron] += value
    assert np.array_equal(found.activity, counts / 24)
    with pytest.raises(MapperError, match="calibration: has no samples"):
        measured_activity(model, samples._replace(samples=0), run)


def calibrated() -> CalibratedModel:
    model = connected(inputs_and(8, 12, 6, seed=3), [(0, 1, 0), (1, 1, 0), (1, 2, 0)], 3)
    rng = np.random.default_rng(0)
    noisy = [
        each._replace(
            weights=csr_array(each.weights.toarray() + 0.01 * rng.normal(size=each.weights.shape))
        )
        for each in model.connections
    ]
    model = model._replace(connections=tuple(noisy))
    samples = spikes_of(model, 12, 40, 5)
    run = run_reference(model, samples)
    measured = measured_activity(model, samples, run)
    return CalibratedModel(model, schedule(model), samples, run, measured)


def test_the_narrowest_weights_that_agree_are_chosen() -> None:
    given, options = calibrated(), IntegerOptions(input_spikes=2)
    loose = search_precision(given, SHAPE, options, AgreementLimits(0, 0), (3, 8, 16))
    assert [each.weight_bits for each in loose.trials] == [3]
    strict = AgreementLimits(1.0, 0.99, 1)
    found = search_precision(given, SHAPE, options, strict, (16, 3, 8))
    assert found.integers.shape.weight_bits == found.trials[-1].weight_bits > 3
    assert [each.holds(strict) for each in found.trials] == [False] * (len(found.trials) - 1) + [
        True
    ]
    assert [each.weight_bits for each in found.trials] == sorted(
        each.weight_bits for each in found.trials
    )


def test_a_failed_search_returns_the_best() -> None:
    given, options = calibrated(), IntegerOptions(input_spikes=2)
    found = search_precision(given, SHAPE, options, AgreementLimits(1.0, 1.0, 1), (2, 3))
    assert re.search(
        r"have [23] bits, .* cosine of 0\.\d+ in bins of 1 tick \(limit 1\) in p[12],", found.missed
    )
    assert found.chosen is not None
    best = found.trials[found.chosen]
    assert best.least_same() == max(each.least_same() for each in found.trials)
    assert found.integers.shape.weight_bits == best.weight_bits
    assert found.integers.options.clip == best.clip


def test_sums_hold_the_spikes_of_the_samples(tmp_path: Path) -> None:
    """Inputs that spike many times per tick: sums of cores must not wrap."""
    nir = pytest.importorskip("nir", reason="needs nir")
    ones = np.ones(1)
    graph = nir.NIRGraph(
        nodes={
            "input": nir.Input({"input": np.array([2])}),
            "fc": nir.Linear(np.array([[1.0, 1.0]])),
            "if": nir.IF(r=ones, v_threshold=1000 * ones),
            "output": nir.Output({"output": np.array([1])}),
        },
        edges=[("input", "fc"), ("fc", "if"), ("if", "output")],
    )
    times = 1 << 12
    np.savez(tmp_path / "s.npz", x=np.full((2, 10, 2), times))
    found = compile_spikes(graph, SHAPE, tmp_path / "s.npz")
    samples = samples_of(found.model, tmp_path / "s.npz")
    run = run_integers(found.integers, found.model, samples)
    assert run.spikes[1].tick.size == 20
    network = found.integers.network
    half = 1 << (found.integers.shape.sum_bits - 1)
    assert np.abs(network.weight).sum() * times < half


@pytest.mark.parametrize(("ticks", "bits"), [(1, 16), (5, 10), (20, 8)])
def test_limits_are_judged_in_bins(data_dir: Path, ticks: int, bits: int) -> None:
    """The digits network of IF neurons: the wider the bins, the narrower the weights."""
    folder = data_dir / "snn"
    found = compile_spikes(
        folder / "digits_conv_if.nir", SHAPE, folder / "digits_calibration.npz",
        SpikingOptions(1e-3, limits=AgreementLimits(ticks=ticks, cosine=0.98, same=0)),
    )  # fmt: skip
    assert found.integers.shape.weight_bits == bits
    assert AgreementLimits().ticks == 1
