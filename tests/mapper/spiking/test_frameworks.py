"""Discretised models against norse and snnTorch, which define what trained models compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from mapper.spiking.discretise import ResetMode, discretise
from mapper.spiking.reference import run_reference
from storage.formats.hdf5.nirmodel import NirConnection, NirModel, NirPopulation
from storage.samples.spikes import SpikeSamples

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks and of torch
INPUTS, HIDDEN, OUTPUTS, TICKS, SAMPLES, TICK = 6, 8, 4, 40, 5, 0.001


class Layers:
    """Random weights of two layers, the first of which may be recurrent."""

    def __init__(self, seed: int, recurrent: bool, scale: float = 1) -> None:
        rng = np.random.default_rng(seed)
        self.first, self.second, self.bias, self.back = (
            (scale * rng.normal(mean, width, shape)).astype(np.float32)
            for mean, width, shape in (
                (0.25, 0.4, (HIDDEN, INPUTS)),
                (0.25, 0.3, (OUTPUTS, HIDDEN)),
                (0, 0.05, HIDDEN),
                (0, 0.3 * recurrent, (HIDDEN, HIDDEN)),
            )
        )
        self.spikes = (rng.random((TICKS, SAMPLES, INPUTS)) < 0.4).astype(np.float32)

    def model(self, kind: str, delay: int = 0, **parameters: float) -> NirModel:
        sizes = (HIDDEN, OUTPUTS)
        neurons = (
            NirPopulation(
                f"layer{number}",
                kind,
                (size,),
                {name: np.full(size, value) for name, value in parameters.items()},
            )
            for number, size in enumerate(sizes)
        )
        links = [(0, 1, self.first, 0.0), (1, 2, self.second, delay * TICK), (1, 1, self.back, 0.0)]
        return NirModel(
            (NirPopulation("input", "Input", (INPUTS,), {}), *neurons),
            tuple(
                NirConnection(source, target, csr_array(weights.astype(np.float64)), late)
                for source, target, weights, late in links
                if weights.any()
            ),
            (None, self.bias.astype(np.float64), None),
            (("output", 2),),
            TICK,
        )

    def reference(self, model: NirModel, reset: ResetMode) -> list[np.ndarray]:
        """Return the spikes of both layers, shape (ticks, samples, neurons)."""
        sample, tick, neuron = np.nonzero(self.spikes.swapaxes(0, 1))
        ones = np.ones(tick.size, np.int64)
        samples = SpikeSamples(sample, tick, neuron, ones, SAMPLES, TICKS, None)
        run = run_reference(discretise(model, reset=reset), samples)
        found = []
        for spikes, size in zip(run.spikes[1:], (HIDDEN, OUTPUTS), strict=True):
            dense = np.zeros((TICKS, SAMPLES, size))
            dense[spikes.tick, spikes.sample, spikes.neuron] = 1
            found.append(dense)
        return found

    def run(self, torch: Any, cells: list[Any], delay: int = 0) -> list[np.ndarray]:
        """Run two cells, (input, state) -> (spikes, state), as frameworks do."""
        weights = [torch.from_numpy(each) for each in (self.first, self.second, self.back)]
        first, second, back = weights
        states: list[Any] = [None, None]
        history = [torch.zeros(SAMPLES, HIDDEN)] * (delay + 1)
        recorded: list[list[np.ndarray]] = [[], []]
        with torch.no_grad():
            for spikes in torch.from_numpy(self.spikes):
                drive = spikes @ first.T + torch.from_numpy(self.bias) + history[-1] @ back.T
                hidden, states[0] = cells[0](drive, states[0])
                history.append(hidden)
                output, states[1] = cells[1](history[-1 - delay] @ second.T, states[1])
                recorded[0].append(hidden.numpy())
                recorded[1].append(output.numpy())
        return [np.stack(each) for each in recorded]


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs)
        assert 0.02 < ours.mean() < 0.9, "neither silent nor saturated"


@pytest.mark.heavy
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kind", ["IF", "LIF", "CubaLIF"])
def test_norse(kind: str, recurrent: bool) -> None:
    norse = pytest.importorskip("norse", reason="norse is not installed")
    assert norse
    import nir
    import torch
    from norse.torch.utils import import_nir

    layers = Layers(seed=1, recurrent=recurrent)
    rates = {
        "IF": {"r": 1.0, "v_threshold": 1.0, "v_reset": 0.0},
        "LIF": {"tau": 0.005, "r": 1.0, "v_leak": 0.02, "v_threshold": 0.3, "v_reset": 0.0},
        "CubaLIF": {
            "tau_syn": 0.004, "tau_mem": 0.01, "r": 3.0, "v_leak": 0.0, "v_threshold": 0.7,
            "v_reset": 0.0, "w_in": 2.0,
        },
    }[kind]  # fmt: skip
    cells = []
    for size in (HIDDEN, OUTPUTS):
        node = getattr(nir, kind)(**{name: np.full(size, v) for name, v in rates.items()})
        cells.append(import_nir._import_norse_module(node, dt=TICK))
    model = layers.model(kind, **rates)
    expected = layers.run(torch, cells)
    if kind == "LIF":  # its potential starts at the leak, and here at 0
        expected = layers.run(torch, [at_zero(cell) for cell in cells])
    assert_equal(layers.reference(model, "zero"), expected)


def at_zero(cell: Any) -> Any:
    """Return a cell of norse whose first potential is 0."""

    def step(drive: Any, state: Any) -> Any:
        if state is None:
            state = cell.state_fallback(drive)
            state = state._replace(v=0 * drive)
        return cell(drive, state)

    return step


@pytest.mark.heavy
@pytest.mark.parametrize("reset", ["zero", "subtract"])
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("kind", ["LIF", "CubaLIF"])
def test_snntorch(kind: str, recurrent: bool, delay: int, reset: ResetMode) -> None:
    snn = pytest.importorskip("snntorch", reason="snnTorch is not installed")
    import torch

    # snnTorch subtracts twice from potentials above two thresholds; these weights lead to none.
    layers = Layers(seed=2, recurrent=recurrent, scale=0.4 if kind == "LIF" else 0.1)
    alpha, beta = 0.75, 0.9
    rates = {"v_leak": 0.0, "v_threshold": 1.0, "v_reset": 0.0, "r": 1 / (1 - beta)}
    rates |= {"tau" if kind == "LIF" else "tau_mem": TICK / (1 - beta)}
    if kind == "CubaLIF":
        rates |= {"tau_syn": TICK / (1 - alpha), "w_in": 1 / (1 - alpha)}

    def cell() -> Any:
        given = {"beta": beta, "reset_mechanism": reset, "reset_delay": False}
        neuron = snn.Leaky(**given) if kind == "LIF" else snn.Synaptic(alpha=alpha, **given)

        def step(drive: Any, state: Any) -> Any:
            spikes, *after = neuron(drive, *(state or ()))
            return spikes, after

        return step

    model = layers.model(kind, delay, **rates)
    found = layers.reference(model, reset)
    assert_equal(found, layers.run(torch, [cell(), cell()], delay))
