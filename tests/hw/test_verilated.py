"""Exported Verilog of 2x2 cores in Verilator, loaded as the data sheet says.

Spikes and states are equal to the arithmetic without hardware, cycles to the tick simulator.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.ticks.routes import core_routes
from chipsim.ticks.run import TickSimulator
from hw.chip import Borders, ChipDesign
from hw.core.arithmetic import simulate
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.flow.netlist import netlist, verilog
from tests.hw.datasheet import ROUTES, STATES, LoadedChip, Packer, loaded, packed, unpacked
from tests.hw.networks import TINY, random_inputs, random_network, with_kernels
from tests.hw.verilated import VerilatedChip
from tests.hw.verilator import INSTALLED, MISSING

pytestmark = [pytest.mark.jit, pytest.mark.skipif(not INSTALLED, reason=MISSING)]
SIDE, NETWORKS, TICKS = 2, 10, 40
CORES = SIDE * SIDE
SHAPES = {
    "narrow": replace(TINY, axons=64, routes=64, synapses=256),
    "long delays": CoreShape(
        neurons=16, axons=64, routes=128, synapses=512, profiles=16, delay_slots=64
    ),
}


def network_of(rng: np.random.Generator, shape: CoreShape, shares: bool) -> SpikingNetwork:
    """Return a random network; shares : whether axons of a core share lists"""
    size = int(rng.integers(8, CORES * shape.neurons * 3 // 4))
    network = random_network(rng, size, int(rng.integers(size, 5 * size)), shape)
    return with_kernels(rng, network) if shares else network


def commands_of(chip: LoadedChip, packer: Packer, inputs: list[list[int]]) -> list[str]:
    """Return the commands that load a chip and run it."""
    found = [f"L {one:x}" for one in packer.load(chip)]
    for told in inputs:
        packets = [packet for one in told for packet in chip.inputs[one]]
        found += [f"P {packed(each, packer.layouts[ROUTES]):x}" for each in packets]
        found.append("T 1")
    return [*found, "S 0"]


def cycles_of(chip: LoadedChip, spikes: NDArray[np.bool_], inputs: list[list[int]]) -> list[int]:
    """Return the cycles of each tick in the tick simulator."""
    sent = [
        core.routes[first : first + count] for core in chip.cores for first, count in core.fanouts
    ]
    rows = [
        (slot, y * SIDE + x, chip.cores[y * SIDE + x].axons[axon][1] if y < SIDE else 0)
        for slot, packets in enumerate([*sent, *chip.inputs])
        for x, y, axon in packets
    ]
    used = [len(core.neurons) for core in chip.cores]
    slots = sum(used)
    origin = np.r_[np.repeat(np.arange(CORES), used), np.zeros(len(chip.inputs), int)]
    columns = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    mesh = Mesh(SIDE, SIDE)
    routes = core_routes(mesh, origin, np.r_[0, np.cumsum(used)], *columns)
    order = [neuron for core in chip.cores for neuron in core.neurons]
    tick, slot = np.nonzero(spikes[:, order])
    host = np.array([slots + one for told in inputs for one in told], np.int64)
    run = TickSimulator(mesh, ChipTime(), routes).run(
        slot, np.searchsorted(tick, np.arange(TICKS + 1)), host,
        np.cumsum([0, *map(len, inputs)]),
    )  # fmt: skip
    return run.cycles.tolist()


@pytest.mark.heavy
@pytest.mark.sample(0.1)
@pytest.mark.parametrize("name", SHAPES)
def test_verilog_of_a_chip(name: str, tmp_path: Path) -> None:
    """In every second network the host does not accept a packet in one of three cycles."""
    design = ChipDesign(SIDE, SIDE, SHAPES[name], borders=Borders(output=True))
    chip = VerilatedChip(verilog(netlist(design, "chip")), SIDE, SIDE, tmp_path)
    shape = design.shape
    packer = Packer(asdict(shape), CORES)
    fired = shared = 0
    for seed in range(NETWORKS):
        rng = np.random.default_rng([37, seed])
        network = network_of(rng, shape, seed % 3 == 0)
        core = np.sort(np.arange(network.neurons) % CORES)
        core = rng.permutation(core) if seed % 3 else core
        watched = rng.permutation(network.neurons)
        there = loaded(network, core.tolist(), SIDE, SIDE, packer.shape, watched.tolist())
        inputs = random_inputs(rng, network, TICKS)
        commands = commands_of(there, packer, inputs)
        run = chip.run([f"W {seed % 2 * 3}", *commands], seed)

        spikes, state = simulate(network, shape, TICKS, inputs)
        for each, expected in zip(run.ticks, spikes, strict=True):
            packets = [unpacked(one, packer.layouts[ROUTES]) for one in each.packets]
            assert all((x, y) == (0, SIDE) for x, y, _ in packets)
            heard = watched[[axon for *_, axon in packets]]
            assert sorted(heard.tolist()) == np.flatnonzero(expected).tolist()
        states = np.column_stack(state)
        for memory, words in zip(there.cores, run.states, strict=True):
            rows = [packed(row, packer.layouts[STATES]) for row in states[memory.neurons].tolist()]
            assert words[: len(rows)] == rows
        if seed % 2 == 0:
            assert [each.cycles for each in run.ticks] == cycles_of(there, spikes, inputs)
        fired += int(spikes.sum())
        shared += network.source.size - sum(len(each.synapses) for each in there.cores)
    assert fired > NETWORKS * TICKS and shared > 0
