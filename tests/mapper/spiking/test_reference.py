"""The float reference against neurons computed one by one, and against trained networks."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.errors import MapperError
from mapper.spiking import reference
from mapper.spiking.model import SpikingModel
from mapper.spiking.order import execution_order
from mapper.spiking.reference import SpikeTrains, run_reference
from tests.mapper.spiking.models import connected, inputs_and, inputs_of, spikes_of
from tests.reference.spiking import as_in_frameworks, visited

SAMPLES, TICKS = 3, 14
MODELS = {
    "layers": (inputs_and(5, 4, 3), [(0, 1, 0), (1, 2, 0)]),
    "skips and two inputs": (
        inputs_and(5, 3, 4, 4, 3, inputs=2),
        [(0, 2, 0), (1, 3, 0), (2, 3, 0), (2, 4, 1), (0, 4, 3), (3, 4, 0)],
    ),
    "recurrent": (inputs_and(4, 5, 3), [(0, 1, 0), (1, 1, 0), (1, 2, 2), (2, 1, 0), (2, 2, 1)]),
    "listed backwards": (inputs_and(4, 3, 4), [(0, 2, 0), (2, 1, 0)]),
    "delays of a pair": (inputs_and(4, 5), [(0, 1, 0), (0, 1, 3), (0, 1, 9), (1, 1, 4)]),
    "without inputs": (inputs_and(4, 3, inputs=0), [(0, 1, 0)]),
    "not reached": (inputs_and(2, 4, 3), [(0, 1, 0)]),
}


def trains(spikes: SpikeTrains, sample: int) -> set[tuple[int, int]]:
    own = spikes.sample == sample
    return set(zip(spikes.tick[own].tolist(), spikes.neuron[own].tolist(), strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_spikes_and_potentials_are_as_neuron_by_neuron(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of a batch does not change them."""
    model = connected(*MODELS[name], seed=seed)
    model = silent(model) if seed == 3 else model
    samples = spikes_of(model, SAMPLES, TICKS, seed)
    if seed % 2:
        monkeypatch.setattr(reference, "MAX_BATCH", 2)
    run = run_reference(model, samples)
    fired = 0
    for sample in range(SAMPLES):
        expected = as_in_frameworks(model, inputs_of(model, samples, sample), TICKS)
        assert [trains(each, sample) for each in run.spikes] == expected.spikes
        fired += sum(map(len, expected.spikes))
        for number, potentials in run.potentials.items():
            assert dict(np.ndenumerate(potentials[sample])) == expected.potentials[number]
    assert fired or run.potentials
    assert list(run.potentials) == ([len(model.populations) - 1] if seed == 3 else [])
    for each in run.spikes:
        keys = np.stack([each.sample, each.tick, each.neuron])
        assert np.array_equal(keys, keys[:, np.lexsort(keys[::-1])])


def silent(model: SpikingModel) -> SpikingModel:
    """Return the model with a last population that never fires."""
    *others, last = model.populations
    assert last.dynamics is not None
    still = last.dynamics._replace(silent=np.ones(last.size, bool))
    return model._replace(populations=(*others, last._replace(dynamics=still)))


@pytest.mark.parametrize("name", MODELS)
def test_order_of_visits(name: str) -> None:
    model = connected(*MODELS[name])
    assert list(execution_order(model).populations) == visited(model)


def test_only_connections_that_close_a_cycle_are_recurrent() -> None:
    listed = connected(*MODELS["listed backwards"])
    assert execution_order(listed).delays == (0, 0)
    loops = execution_order(connected(*MODELS["recurrent"]))
    assert loops.delays == (0, 1, 2, 1, 2)


def test_counts_of_spikes() -> None:
    sample, tick, neuron = np.array([[0, 0, 2], [1, 4, 0], [3, 3, 1]])
    counts = SpikeTrains(sample, tick, neuron).counts(3, 4)
    assert counts.tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_spikes_of_no_input_are_refused() -> None:
    model = connected(*MODELS["layers"])
    samples = spikes_of(model, 2, 5, 0)
    wrong = samples._replace(neuron=samples.neuron + 4)
    with pytest.raises(MapperError, match=r"samples: input \d spikes, .* are 0\.\.4; give"):
        run_reference(model, wrong)


def test_no_ticks_and_no_samples() -> None:
    model = silent(connected(*MODELS["layers"]))
    for samples, ticks in ((2, 0), (0, 3)):
        run = run_reference(model, spikes_of(model, samples, ticks, 0))
        assert all(each.sample.size == 0 for each in run.spikes)
        assert run.potentials[2].shape == (samples, ticks, 3)
