# amaranth: UnusedElaboratable=no
"""Adjacent chips act as one large chip, and watched spikes leave through the network."""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.chip import Borders, ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.flow.netlist import netlist
from hw.noc.buffer import Buffer
from hw.noc.mesh import Mesh
from hw.run import ChipSimulator
from hw.tables import make_tables
from tests.hw.networks import random_inputs, random_network, ring

CORE = CoreShape(neurons=32, axons=64, routes=128, synapses=256)
TICKS = 10
ACROSS = {"east": "west", "south": "north"}


class Machine(wiring.Component):
    """Two chips of 2x2 cores, the second adjacent to a side of the first, with registers between.

    It has the interface that `ChipSimulator` needs; node 0 of the first receives the host's
    packets.
    """

    def __init__(self, side: str, registers: int) -> None:
        self.side, self.registers = side, registers
        self.columns, self.rows = (4, 2) if side == "east" else (2, 4)
        self.chips: list[Any] = [
            ChipDesign(2, 2, CORE, borders=Borders([own], self.columns, self.rows))
            for own in (side, ACROSS[side])
        ]
        self.borders = Borders()
        nodes = [divmod(node, self.columns) for node in range(8)]
        places = [(x // 2 + y // 2, y % 2 * 2 + x % 2) for y, x in nodes]
        self.cores = [self.chips[chip].cores[node] for chip, node in places]
        local = [self.chips[chip].mesh.local_in[node] for chip, node in places]
        self.mesh = SimpleNamespace(nodes=8, local_in=local)
        packet = self.chips[0].shape.packet
        super().__init__({"tick": In(1), "done": Out(1), "input": In(stream.Signature(packet))})

    def require_own(self, tables: Any) -> None:
        assert all(chip.shape == tables.shape for chip in self.chips)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        first, second = self.chips
        m.submodules.first, m.submodules.second = first, second
        wiring.connect(m, wiring.flipped(me.input), first.input)
        if self.side == "east":
            m.d.comb += second.column.eq(2)
        else:
            m.d.comb += second.row.eq(2)
        empty = []
        across = ACROSS[self.side]
        ways = [(getattr(first, f"{self.side}_out"), getattr(second, f"{across}_in")),
                (getattr(second, f"{across}_out"), getattr(first, f"{self.side}_in"))]  # fmt: skip
        for outs, ins in ways:
            for out, into in zip(outs, ins, strict=True):
                for _ in range(self.registers):
                    register = Buffer(first.shape.packet, 2)
                    m.submodules += register
                    wiring.connect(m, out, register.i)
                    out = register.o
                    empty.append(~register.o.valid)
                wiring.connect(m, out, into)
        m.d.comb += me.done.eq(first.done & second.done & Cat(empty).all())
        m.d.comb += [chip.tick.eq(me.tick & me.done) for chip in self.chips]
        return m


@cache
def simulator(side: str, registers: int) -> ChipSimulator:
    machine: Any = Machine(side, registers)
    return ChipSimulator(machine)


@cache
def one_chip(width: int, height: int, output: bool = False) -> ChipSimulator:
    return ChipSimulator(ChipDesign(width, height, CORE, borders=Borders(output=output)))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("registers", [0, 1, 5])
@pytest.mark.parametrize("side", ["east", "south"])
def test_two_chips_are_one(side: str, registers: int) -> None:
    size = (4, 2) if side == "east" else (2, 4)
    for seed, network in enumerate(
        [ring(), random_network(np.random.default_rng(1), 60, 300, CORE, inputs=3)]
    ):
        rng = np.random.default_rng(seed)
        core = rng.permutation(np.arange(network.neurons) % 8)
        inputs = random_inputs(rng, network, TICKS)
        shape = chip_shape(*size, CORE)
        tables = make_tables(network, core, *size, shape)
        run = simulator(side, registers).run(tables, TICKS, inputs)
        whole = one_chip(*size).run(tables, TICKS, inputs)
        assert np.array_equal(run.spikes, whole.spikes)
        assert np.array_equal(run.spikes, simulate(network, shape, TICKS, inputs)[0])
        assert np.array_equal(run.states, whole.states)
        assert run.packets == whole.packets > 0
        if registers:
            assert run.cycles.sum() > whole.cycles.sum()
        else:
            assert np.array_equal(run.cycles, whole.cycles)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_watched_spikes_leave_by_one_port() -> None:
    network = random_network(np.random.default_rng(2), 40, 200, CORE, inputs=3)
    rng = np.random.default_rng(3)
    core = rng.permutation(np.arange(network.neurons) % 6)
    inputs = random_inputs(rng, network, TICKS)
    watched = rng.permutation(network.neurons)[:17].tolist()
    chip = one_chip(3, 2, True)
    tables = make_tables(network, core, 3, 2, chip.chip.shape, watched)
    run = chip.run(tables, TICKS, inputs)
    spikes, _ = simulate(network, chip.chip.shape, TICKS, inputs)
    assert np.array_equal(run.spikes, spikes)
    heard = [sorted(axons) for axons in run.heard]
    assert heard == [np.flatnonzero(fired[watched]).tolist() for fired in spikes]
    assert sum(map(len, heard)) > TICKS
    unwatched = make_tables(network, core, 3, 2, chip.chip.shape)
    assert not any(chip.run(unwatched, TICKS, inputs).heard)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_ports_of_open_sides() -> None:
    chip: Any = ChipDesign(3, 2, CORE, borders=Borders(["west", "north"], 6, 4))
    assert len(chip.north_out) == 3
    assert len(chip.west_in) == 2
    assert (chip.shape.x_bits, chip.shape.y_bits) == (3, 2)
    assert not hasattr(chip, "south_in")
    text = netlist(chip, "chip").text
    top = text[text.index("module \\chip\n") :].split("\nmodule ")[0]
    assert re.search(r"wire width 3 input \d+ +\\column$", top, re.MULTILINE)
    assert re.search(r"wire width 11 output \d+ +\\north_out_2_payload$", top, re.MULTILINE)
    assert re.search(r"wire width 1 input \d+ +\\west_out_1_ready$", top, re.MULTILINE)


@pytest.mark.parametrize(
    ("borders", "said"),
    [
        (Borders(["up"]), "chip: unknown side 'up'; sides are north, east, south, west"),
        (Borders(["east"], 2), "chip: a machine of 2x2 cores is smaller than a 3x2 chip; give"),
        (Borders(["south"], output=True), "chip: packets for the host leave by the open"),
    ],
)
def test_invalid_borders(borders: Borders, said: str) -> None:
    with pytest.raises(HwError, match=said):
        ChipDesign(3, 2, CORE, borders=borders)


def test_unknown_sides_of_a_mesh() -> None:
    with pytest.raises(HwError, match="mesh: unknown side 'up'"):
        Mesh(2, 2, open_sides=["up"])


@pytest.mark.parametrize(
    ("watched", "said"),
    [
        ([27], "watched: there is no neuron 27; the network has 27"),
        ([3, 3], "watched: a neuron is listed twice"),
        (list(range(9)), "watched: 9 neurons, but packets have only 8 axons"),
    ],
)
def test_invalid_watched_neurons(watched: list[int], said: str) -> None:
    shape = chip_shape(3, 4, CoreShape(neurons=32, axons=8, routes=64, synapses=64))
    with pytest.raises(HwError, match=said):
        make_tables(ring(), np.arange(27) % 9, 3, 3, shape, watched)
