"""Discretised models against the differential equations of NIR, neuron by neuron."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from mapper.errors import MapperError
from mapper.spiking.discretise import ResetMode, discretise
from mapper.spiking.reference import run_reference
from storage.formats.hdf5.nirmodel import NirConnection, NirModel, NirPopulation
from storage.samples.spikes import SpikeSamples

TICK, TICKS, NEURONS = 0.25, 30, 5
PARAMETERS = {
    "IF": ("r", "v_threshold", "v_reset"),
    "LIF": ("tau", "r", "v_leak", "v_threshold", "v_reset"),
    "CubaLIF": ("tau_syn", "tau_mem", "r", "v_leak", "v_threshold", "v_reset", "w_in"),
    "LI": ("tau", "r", "v_leak"),
    "CubaLI": ("tau_syn", "tau_mem", "r", "v_leak", "w_in"),
    "I": ("r",),
    "Threshold": ("threshold",),
    "Output": (),
}
RANGES = {
    "tau": (0.3, 3), "tau_mem": (0.25, 3), "tau_syn": (0.25, 2), "r": (0.5, 3), "w_in": (0.5, 3),
    "v_leak": (-0.2, 0.2), "v_threshold": (0.3, 1), "threshold": (0.3, 1), "v_reset": (-0.3, 0.2),
}  # fmt: skip


def nir_model(kind: str, seed: int, **changed: Any) -> NirModel:
    """Return an input that leads to random neurons of a kind."""
    rng = np.random.default_rng(seed)
    parameters = {name: rng.uniform(*RANGES[name], NEURONS) for name in PARAMETERS[kind]}
    changed = {name: np.full(NEURONS, value) for name, value in changed.items()}
    return NirModel(
        (
            NirPopulation("input", "Input", (3,), {}),
            NirPopulation("hidden", kind, (NEURONS,), parameters | changed),
        ),
        (NirConnection(0, 1, csr_array(rng.normal(0.3, 0.5, (NEURONS, 3))), 0.0),),
        (None, rng.normal(0, 0.1, NEURONS)),
        (("output", 1),),
        TICK,
    )


def random_spikes(seed: int) -> SpikeSamples:
    fires = np.random.default_rng(seed).random((1, TICKS, 3)) < 0.4
    sample, tick, neuron = np.nonzero(fires)
    return SpikeSamples(sample, tick, neuron, np.ones(tick.size, int), 1, TICKS, None)


def euler(
    kind: str, own: dict[str, float], drive: list[float], reset: str
) -> tuple[list[int], list[float]]:
    """Return the ticks of the spikes of a neuron, and its potential after each tick."""
    current = potential = 0.0
    ticks, potentials = [], []
    for tick, value in enumerate(drive):
        if kind.startswith("Cuba"):
            current += TICK / own["tau_syn"] * (own["w_in"] * value - current)
        else:
            current = value
        if kind in ("IF", "I"):
            potential += own["r"] * current
        elif kind in ("Threshold", "Output"):
            potential = current
        else:
            tau = own["tau_mem" if kind.startswith("Cuba") else "tau"]
            potential += TICK / tau * (own["v_leak"] - potential + own["r"] * current)
        threshold = own.get("v_threshold", own.get("threshold", np.inf))
        if potential > threshold:
            ticks.append(tick)
            potential = potential - threshold if reset == "subtract" else own.get("v_reset", 0)
        potentials.append(potential)
    return ticks, potentials


@pytest.mark.parametrize("kind", PARAMETERS)
@pytest.mark.parametrize("reset", ["zero", "subtract"])
@pytest.mark.parametrize("seed", range(3))
def test_neurons_follow_their_equations(kind: str, reset: ResetMode, seed: int) -> None:
    source, samples = nir_model(kind, seed), random_spikes(seed)
    model = discretise(source, reset=reset)
    run = run_reference(model, samples)
    dense = np.zeros((TICKS, 3))
    dense[samples.tick, samples.neuron] = 1
    drive = dense @ source.connections[0].weight.toarray().T + source.bias[1]
    parameters = source.populations[1].parameters
    fired = 0
    for neuron in range(NEURONS):
        own = {name: values[neuron] for name, values in parameters.items()}
        ticks, potentials = euler(kind, own, drive[:, neuron].tolist(), reset)
        spikes = run.spikes[1]
        assert spikes.tick[spikes.neuron == neuron].tolist() == ticks
        fired += len(ticks)
        if kind in ("LI", "CubaLI", "I", "Output"):
            assert run.potentials[1][0, :, neuron] == pytest.approx(np.array(potentials), 1e-9)
    assert (1 in run.potentials) == (fired == 0)


def test_shapes_names_and_outputs_are_kept() -> None:
    source = nir_model("LIF", 0)
    wide = source.populations[1]._replace(shape=(1, NEURONS))
    model = discretise(source._replace(populations=(source.populations[0], wide)), 0.2)
    assert [each[:3] for each in model.populations] == [
        ("input", "Input", (3,)),
        ("hidden", "LIF", (1, NEURONS)),
    ]
    assert model.outputs == (("output", 1),)
    assert model.tick == 0.2, "the given tick takes precedence over the file"
    assert model.populations[0].dynamics is None


@pytest.mark.parametrize("tau", [0.1, np.float32(0.1), 0.1 - 1e-9])
def test_a_time_constant_of_a_tick_forgets_all(tau: float) -> None:
    """Also if the file has it as float32, slightly longer or shorter than the tick."""
    model = discretise(nir_model("LIF", 0, tau=float(tau)), 0.1)
    assert model.populations[1].dynamics is not None
    assert (model.populations[1].dynamics.potential_decay == 0).all()


REFUSED = [
    (
        {"tau": 0.2},
        0.25,
        "hidden: tau 0.2 is shorter than the tick of 0.25 (5 such neurons); use a shorter tick "
        "with --tick-length",
    ),
    (
        {"tau": -1.0},
        0.25,
        "hidden: tau -1 is not positive (5 such neurons); give time constants above 0",
    ),
    (
        {"tau": np.nan},
        0.25,
        "hidden: tau nan is not positive (5 such neurons); give time constants above 0",
    ),
    (
        {},
        None,
        "hidden: its tau is in a unit of time, but the file gives no dt; give the length of a tick "
        "with --tick-length",
    ),
    ({}, 0.0, "tick length 0.0: it is not a positive number; give one above 0"),
    ({}, np.inf, "tick length inf: it is not a positive number; give one above 0"),
]


@pytest.mark.parametrize(("changed", "tick", "message"), REFUSED)
def test_times_that_cannot_be_discretised(
    changed: dict[str, float], tick: float | None, message: str
) -> None:
    source = nir_model("LIF", 0, **changed)._replace(time_step=None)
    with pytest.raises(MapperError) as raised:
        discretise(source, tick)
    assert str(raised.value) == message


def test_without_times_a_tick_is_one() -> None:
    assert discretise(nir_model("IF", 0)._replace(time_step=None)).tick == 1


def delayed(*delays: float) -> NirModel:
    source = nir_model("IF", 0)
    (only,) = source.connections
    return source._replace(connections=tuple(only._replace(delay=each) for each in delays))


def test_delays_become_ticks() -> None:
    """Delays that are equal in ticks become one connection."""
    notes: list[str] = []
    source = delayed(0.5, 0.0, float(np.float32(0.1)) * 5, 0.5)
    model = discretise(source, notes=notes)
    assert [each.delay for each in model.connections] == [2, 0]
    assert not notes
    weights = (
        source.connections[0].weight.toarray() * source.populations[1].parameters["r"][:, None]
    )
    assert model.connections[0].weights.toarray() == pytest.approx(3 * weights)
    assert model.connections[1].weights.toarray() == pytest.approx(weights)


def test_rounded_delays_are_counted() -> None:
    notes: list[str] = []
    model = discretise(delayed(0.6, 0.25, 0.15), notes=notes)
    assert [each.delay for each in model.connections] == [2, 1]
    assert notes == ["delays rounded to whole ticks: 2, first input -> hidden from 2.4 to 2"]


def test_delays_without_a_tick_are_refused() -> None:
    with pytest.raises(MapperError, match=r"^input -> hidden: its delay of 0\.5 is in a unit"):
        discretise(delayed(0.0, 0.5)._replace(time_step=None))
