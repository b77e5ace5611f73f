"""Models whose inputs are real numbers: in the float reference, and converted to integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.core.shape import CoreShape
from mapper.errors import MapperError
from mapper.spiking.agreement import compare_outputs, compare_populations
from mapper.spiking.integer_run import run_integers
from mapper.spiking.pipeline import CompiledSpikes, SpikingOptions, compile_spikes, samples_of
from mapper.spiking.reference import run_reference
from storage.samples.encoding import Encoding, EncodingMethod
from storage.samples.spikes import SpikeSamples

SHAPE = CoreShape(neurons=64, synapses=1 << 12, sum_bits=24)
TICKS, DECAY = 50, 0.9
WEIGHTS = np.random.default_rng(4).normal(0.05, 0.2, (6, 12))
IMAGES = np.random.default_rng(5).random((20, 12)).astype(np.float32)


def compiled(tmp_path: Path, method: EncodingMethod, *, calibrate: bool = True) -> CompiledSpikes:
    nir: Any = pytest.importorskip("nir", reason="needs nir")
    ones = np.ones(6)
    threshold = 0.2 if method == "latency" else 1.0  # one spike per input adds little
    neurons = nir.LIF(10e-3 * ones, 10 * ones, 0 * ones, threshold * ones)
    graph = nir.NIRGraph(
        nodes={
            "input": nir.Input({"input": np.array([12])}),
            "fc": nir.Linear(WEIGHTS),
            "lif": neurons,
            "output": nir.Output({"output": np.array([6])}),
        },
        edges=[("input", "fc"), ("fc", "lif"), ("lif", "output")],
    )
    np.savez(tmp_path / "x.npz", x=IMAGES)
    options = SpikingOptions(tick=1e-3, encoding=Encoding(method, TICKS))
    return compile_spikes(graph, SHAPE, tmp_path / "x.npz" if calibrate else None, options)


def encoded(tmp_path: Path, found: CompiledSpikes, method: EncodingMethod) -> SpikeSamples:
    return samples_of(found.model, tmp_path / "x.npz", Encoding(method, TICKS))


def test_the_reference_adds_currents_in_steps(tmp_path: Path) -> None:
    """Every tick adds the weights times the value, in 256 steps per unit."""
    found = compiled(tmp_path, "current")
    run = run_reference(found.model, encoded(tmp_path, found, "current"))
    current = np.round(IMAGES.astype(np.float64) * 256) / 256 @ WEIGHTS.T
    potential = np.zeros_like(current)
    fired = np.zeros((20, TICKS, 6), bool)
    for tick in range(TICKS):
        potential = DECAY * potential + current
        fired[:, tick] = potential > 1
        potential[fired[:, tick]] = 0
    trains = run.spikes[1]
    expected = np.nonzero(fired)
    assert all(np.array_equal(*pair) for pair in zip(trains, expected, strict=True))
    assert trains.tick.size > 500


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("method", ["current", "rate", "latency"])
def test_integers_agree_with_the_reference(
    tmp_path: Path, method: EncodingMethod, calibrate: bool
) -> None:
    found = compiled(tmp_path, method, calibrate=calibrate)
    samples = encoded(tmp_path, found, method)
    real = run_reference(found.model, samples)
    whole = run_integers(found.integers, found.model, samples)
    (row,) = compare_populations(found.model, samples, real, whole)
    (output,) = compare_outputs(found.model, samples, real, whole)
    assert row.expected > 20
    assert row.cosines[1].mean >= 0.95
    assert output.same >= 0.95
    assert sum(whole.saturated) == 0


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    found = compiled(tmp_path, "current")
    text = "samples: a spike of an input is 1 of its weight, and the model was converted for 0.0039"
    with pytest.raises(MapperError, match=text):
        run_integers(found.integers, found.model, encoded(tmp_path, found, "rate"))
