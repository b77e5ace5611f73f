"""The float reference on trained networks: counts and spike times that others measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mapper.spiking.discretise import model_of_graph
from mapper.spiking.model import SpikingModel
from mapper.spiking.reference import run_reference
from storage.samples.spikes import SpikeSamples, read_spike_samples

PAPER_INPUT = [  # spikes of the LIF experiment of the NIR paper, ticks of 0.1 ms
    *(60, 220, 270, 310, 320, 350, 370, 400, 410), *range(430, 540, 10), *range(680, 800, 10),
    *(850, 860),
]  # fmt: skip
PAPER_SPIKES = [460, 510, 720, 770]  # published for norse


def samples_of(model: SpikingModel, path: Path) -> SpikeSamples:
    inputs = [model.populations[number] for number in model.inputs]
    return read_spike_samples(path, {each.name: each.shape for each in inputs})


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["digits_lif", "digits_cuba_rec", "digits_conv_if"])
def test_trained_digits_networks(data_dir: Path, name: str) -> None:
    folder = data_dir / "snn"
    expected = json.loads((folder / "expected.json").read_text())
    model = model_of_graph(folder / f"{name}.nir", expected["dt"])
    samples = samples_of(model, folder / "digits_test.npz")
    assert samples.labels is not None
    (output,) = model.outputs
    counts = run_reference(model, samples).spikes[output.population].counts(samples.samples, 10)
    assert counts[:20].tolist() == expected[name]["counts_first_20"]
    assert counts.sum() == expected[name]["output_spikes"]
    assert np.mean(counts.argmax(1) == samples.labels) == expected[name]["accuracy"]


def test_lif_experiment_of_the_nir_paper(data_dir: Path) -> None:
    model = model_of_graph(data_dir / "nir" / "lif_norse.nir", 0.0001)
    tick = np.array(PAPER_INPUT)
    zeros, ones = np.zeros(tick.size, np.int64), np.ones(tick.size, np.int64)
    run = run_reference(model, SpikeSamples(zeros, tick, zeros, ones, 1, 1000, None))
    assert run.spikes[model.outputs[0].population].tick.tolist() == PAPER_SPIKES
