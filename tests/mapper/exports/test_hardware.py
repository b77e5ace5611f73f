"""From a network to a file, from its mapping to tables, through the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hw.chip import ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import make_tables
from mapper.errors import MapperError
from mapper.exports.hardware_network import read_spiking, tables_of
from storage.store.network import NetworkFile
from tests.hw.networks import layered, ring, save_traffic
from tests.mapper.conftest import Run
from tests.mapper.helpers import write_network

SHAPE = chip_shape(2, 2, CoreShape(neurons=16, axons=32, routes=64, synapses=64))


def test_traffic_is_not_synaptic_weight(folder: Path) -> None:
    network = layered()
    spikes, _ = simulate(network, SHAPE, 20, [[0, 1]] * 20)
    save_traffic(folder / "net.bin", network, spikes)
    with pytest.raises(MapperError, match=r"net\.bin: not synaptic weights: they are"):
        read_spiking(folder / "net.bin", threshold=1)
    back = read_spiking(folder / "net.bin", threshold=1, magnitudes=True)
    inner = network.source < network.neurons
    assert (back.neurons, back.source.size) == (network.neurons, inner.sum())
    assert set(zip(back.source, back.target, strict=True)) == set(
        zip(network.source[inner], network.target[inner], strict=True)
    )
    assert np.array_equal(back.weight, spikes.sum(axis=0)[back.source])
    with NetworkFile(folder / "net.bin") as file:
        assert np.array_equal(file.attribute("rate").stored, spikes.sum(axis=0))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.jit
def test_mapped_by_the_command_and_run(folder: Path, run: Run) -> None:
    network = ring(24)
    spikes, _ = simulate(network, SHAPE, 12)
    save_traffic(folder / "net.bin", network, spikes)
    arguments = ("--chip", "2x2", "--neurons-per-core", "8", "-o", "out", "-q")
    assert run("run", "net.bin", *arguments, "--preset", "classic").code == 0
    tables = tables_of(folder / "out", network, SHAPE)
    with np.load(folder / "out" / "mapping.npz") as file:
        core = file["core"]
    for number, part in enumerate(tables.cores):
        assert part.neurons.tolist() == np.flatnonzero(core == number).tolist()
    found = ChipSimulator(ChipDesign(2, 2, SHAPE)).run(tables, 12)
    assert np.array_equal(found.spikes, spikes)

    small = replace(SHAPE, neurons=4)
    with pytest.raises(MapperError, match=r"out: core \d \(x \d, y \d\): its memory for neurons"):
        tables_of(folder / "out", network, small)
    with pytest.raises(MapperError, match="maps 24 neurons, the network has 23"):
        tables_of(folder / "out", ring(23), SHAPE)


def test_weights_of_a_file(folder: Path) -> None:
    path = write_network(folder / "net.bin", [(0, 1), (2, 1), (1, 2)], 3, [5, 6, 7])
    network = read_spiking(path, threshold=[9, 8, 7], potential_bias=2)
    found = zip(network.source, network.target, network.weight, strict=True)
    assert sorted(found) == [(0, 1, 5), (1, 2, 7), (2, 1, 6)]
    assert network.threshold.tolist() == [9, 8, 7]
    assert make_tables(network, np.zeros(3, int), 2, 2, SHAPE).cores[0].synapses.shape == (3, 3)


def test_fractions_are_refused(folder: Path) -> None:
    path = write_network(folder / "net.bin", [(0, 1)], 2, [0.25])
    with pytest.raises(MapperError, match=r"net.bin: weights are multiples of .*whole numbers"):
        read_spiking(path, threshold=1)
