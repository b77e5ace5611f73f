"""A trained network in the exported Verilog: the same spikes, states and cycles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from chipsim.noc.mesh import Mesh
from chipsim.ticks.run import TickSimulator
from hw.chip import Borders, ChipDesign
from hw.flow.netlist import netlist, verilog
from hw.tables import ChipTables, make_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.exports.hardware import load_words
from mapper.spiking.integer_run import run_integers
from mapper.spiking.pipeline import SpikingOptions, compile_for_chip, samples_of
from mapper.spiking.search import AgreementLimits
from mapper.spiking.simulate import InputSpikes, simulate_samples
from mapper.spiking.slots import Slots
from tests.hw.verilated import VerilatedChip, VerilatedRun
from tests.hw.verilator import INSTALLED, MISSING

pytestmark = [pytest.mark.jit, pytest.mark.skipif(not INSTALLED, reason=MISSING)]
SAMPLES, TICKS, SIDE = 200, 256, 4


def words_of(tables: ChipTables) -> list[str]:
    """Return the commands that load all cores."""
    bits = max(1, (len(tables.cores) - 1).bit_length())
    return [
        f"L {int(one) << bits | node:x}"
        for node, core in enumerate(tables.cores)
        for one in load_words(core, tables.shape)
    ]


@pytest.mark.heavy
@pytest.mark.sample(0.02)
def test_braille_network(data_dir: Path, tmp_path: Path) -> None:
    """200 random samples, each neuron of the network watched by the host, on all 16 cores."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "spikes.npz", x=rng.random((SAMPLES, TICKS, 12)) < 0.1)
    path = data_dir / "nir" / "braille_noDelay_bias_zero.nir"
    np.savez(tmp_path / "first.npz", x=np.load(tmp_path / "spikes.npz")["x"][:10])
    options = SpikingOptions(tick=1e-4, limits=AgreementLimits(same=0.9, cosine=0.9))
    mapped = compile_for_chip(path, Chip("mesh", SIDE, SIDE), tmp_path / "first.npz", options)
    model, integers = mapped.compiled.model, mapped.compiled.integers
    network, shape = integers.network, integers.shape
    core = rng.permutation(np.arange(network.neurons) % SIDE**2)
    tables = make_tables(network, core, SIDE, SIDE, shape, range(network.neurons))
    design = ChipDesign(SIDE, SIDE, shape, borders=Borders(output=True))
    chip = VerilatedChip(verilog(netlist(design, "chip")), SIDE, SIDE, tmp_path)

    samples = samples_of(model, tmp_path / "spikes.npz")
    given, ticks = InputSpikes.of(samples), samples.ticks + max(0, *integers.latency)
    ends, load = given.ends(ticks), words_of(tables)
    y_at, axon_at = shape.x_bits, shape.x_bits + shape.y_bits
    commands = []
    for sample in range(SAMPLES):
        commands += load
        for tick in range(sample * ticks, (sample + 1) * ticks):
            sent = [p for n in given.neuron[ends[tick] : ends[tick + 1]]
                    for p in tables.input_packets[n]]  # fmt: skip
            commands += [f"P {x | y << y_at | axon << axon_at:x}" for x, y, axon in sent]
            commands.append("T 1")
        commands.append("S 0")
    run = chip.run(commands)

    fired = compare(run, tables, given, ends, ticks)
    whole = run_integers(integers, model, samples)
    for number, each in enumerate(model.populations):
        if each.dynamics is not None:
            late, first = integers.latency[number], model.first[number]
            own = fired[:, late : late + TICKS, first : first + each.size]
            assert np.array_equal(np.argwhere(own), np.column_stack(whole.spikes[number]))
    assert fired.sum() > SAMPLES * TICKS


def compare(
    run: VerilatedRun, tables: ChipTables, given: InputSpikes, ends: NDArray[np.int64], ticks: int
) -> NDArray[np.bool_]:
    """Compare a run with the simulators; return the spikes, shape (samples, ticks, neurons)."""
    shape, slots, mesh = tables.shape, Slots.of(tables), Mesh(SIDE, SIDE)
    neurons = slots.neurons.size
    timed = TickSimulator(mesh, ChipTime(), slots.routes(mesh, tree=False))
    fired = np.zeros((SAMPLES, ticks, neurons), np.bool_)
    with ThreadTeam(1) as team:
        runs = simulate_samples(slots, given, ticks, np.zeros(0, np.int64), team)
        for sample, one in enumerate(runs):
            own = run.ticks[sample * ticks : (sample + 1) * ticks]
            heard = [
                sorted(word >> (shape.x_bits + shape.y_bits) for word in each.packets)
                for each in own
            ]
            assert heard == [part.tolist() for part in np.split(one.neuron, one.ends[1:-1])]
            tick = np.repeat(np.arange(ticks), np.diff(one.ends))
            fired[sample, tick, one.neuron] = True
            slot = slots.sender[one.neuron]
            here = ends[sample * ticks : (sample + 1) * ticks + 1]
            host = slots.sender[neurons + given.neuron[here[0] : here[-1]]] + neurons
            expected = timed.run(slot[np.lexsort((slot, tick))], one.ends, host, here - here[0])
            assert [each.cycles for each in own] == expected.cycles.tolist()
            for core, words in zip(tables.cores, run.states[sample * SIDE**2 :], strict=False):
                assert words[: core.used] == state_words(one.state[core.neurons], shape.state_bits)
    return fired


def state_words(states: NDArray[np.int64], bits: int) -> list[int]:
    """Return words of the state memory."""
    mask = (1 << bits) - 1
    return [u & mask | (v & mask) << bits | waits << 2 * bits for u, v, waits in states.tolist()]
