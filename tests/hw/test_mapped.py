"""Mapped networks on the simulated chip spike like the unmapped network, for any mapping."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.model import Chip as ChipModel
from hw.chip import ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import ChipTables, make_tables
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.results.output import scratch_in
from mapper.settings import preset
from storage.store.network import NetworkFile
from tests.hw.networks import layered, random_network, recurrent, ring, save_traffic

TICKS = 50
CORE = CoreShape(neurons=64, axons=256, routes=512, synapses=1024)
LIGHT = {"matching_repeats": 2, "bisection_repeats": 2, "force_iterations": 50}
Cores = NDArray[np.integer]
Inputs = list[list[int]]


@cache
def simulator(width: int, height: int) -> ChipSimulator:
    """Return a chip of the size; elaborated once for all tests."""
    return ChipSimulator(ChipDesign(width, height, CORE))


def drive(network: SpikingNetwork) -> Inputs:
    """Return spikes of the inputs, if any: two before each of two ticks, then none for one."""
    return [
        [tick % network.inputs, (tick // 3) % network.inputs] if network.inputs and tick % 3 else []
        for tick in range(TICKS)
    ]


def in_order(network: SpikingNetwork, width: int, height: int, folder: Path) -> Cores:
    return np.arange(network.neurons) * (width * height) // network.neurons


def at_random(network: SpikingNetwork, width: int, height: int, folder: Path) -> Cores:
    """Place neurons at random, with at most twice the mean per core."""
    cores = np.repeat(np.arange(width * height), 2 * -(-network.neurons // (width * height)))
    return np.random.default_rng(8).permutation(cores)[: network.neurons]


def by_pipeline(network: SpikingNetwork, width: int, height: int, folder: Path) -> Cores:
    """Run all steps of `mapper run`, with the spikes of the network as its traffic."""
    shape = chip_shape(width, height, CORE)
    path = folder / "net.bin"
    save_traffic(path, network, simulate(network, shape, TICKS, drive(network))[0])
    chip = ChipModel("small", width, height, neurons=2 * -(-network.neurons // (width * height)))
    with (
        Monitor() as monitor,
        NetworkFile(path) as file,
        scratch_in(folder / "scratch") as scratch,
    ):
        return map_network(file, chip, preset("classic", **LIGHT), scratch, monitor).core


def check(
    network: SpikingNetwork,
    core: Cores,
    width: int,
    height: int,
    folder: Path,
    *,
    ticks: int = TICKS,
) -> NDArray[np.bool_]:
    """Run the network on the chip and without; on a difference, write a waveform."""
    chip = simulator(width, height)
    shape = chip.chip.shape
    tables = make_tables(network, core, width, height, shape)
    inputs = drive(network)[:ticks]
    spikes, states = simulate(network, shape, ticks, inputs)
    found = chip.run(tables, ticks, inputs)
    equal = np.array_equal(found.states, np.column_stack(states))
    if not np.array_equal(found.spikes, spikes) or not equal:
        waveform = folder / "chip.vcd"
        chip.run(tables, ticks, inputs, waveform=waveform)
        different = np.argwhere(found.spikes != spikes)[:5].tolist()
        pytest.fail(f"spikes differ at (tick, neuron) {different}; waveform in {waveform}")
    assert found.packets == packets(tables, spikes, inputs)
    return spikes


def packets(tables: ChipTables, spikes: NDArray[np.bool_], inputs: Inputs) -> int:
    """Return the number of packets: one per spike and destination core."""
    count = sum(len(tables.input_packets[one]) for told in inputs for one in told)
    for core in tables.cores:
        count += int(spikes[:, core.neurons].sum(axis=0) @ np.diff(core.route_indptr))
    return count


WAYS: list[Callable[..., Cores]] = [in_order, at_random, by_pipeline]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("way", WAYS)
def test_ring(way: Callable[..., Cores], tmp_path: Path) -> None:
    network = ring()
    spikes = check(network, way(network, 3, 3, tmp_path), 3, 3, tmp_path)
    assert (spikes.sum(axis=1) == 2).all()  # both are still circulating


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("way", WAYS)
def test_layers(way: Callable[..., Cores], tmp_path: Path) -> None:
    network = layered()
    spikes = check(network, way(network, 3, 3, tmp_path), 3, 3, tmp_path)
    assert spikes[:, -3:].any()  # they reach the last layer


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize(
    "way", [*(pytest.param(w, marks=pytest.mark.slow_hw) for w in WAYS[:2]), by_pipeline]
)
def test_recurrent(way: Callable[..., Cores], tmp_path: Path) -> None:
    network = recurrent()
    spikes = check(network, way(network, 3, 3, tmp_path), 3, 3, tmp_path)
    assert 0.01 < spikes.mean() < 0.1
    assert spikes[-10:].any()


@pytest.mark.slow_hw
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [ring, layered, recurrent])
def test_on_a_larger_chip(
    make: Callable[[], SpikingNetwork], way: Callable[..., Cores], tmp_path: Path
) -> None:
    network = make()
    assert check(network, way(network, 4, 4, tmp_path), 4, 4, tmp_path).any()


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_networks_on_two_cores(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 9, 40, chip_shape(2, 1, CORE))
    check(network, rng.integers(0, 2, 9), 2, 1, tmp_path, ticks=10)
