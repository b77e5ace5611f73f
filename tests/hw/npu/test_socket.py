# amaranth: UnusedElaboratable=no
"""NPU cores and spiking cores at the same sockets of one chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.chip import Borders, ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.core import Core
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.npu.core import NpuCore
from hw.npu.flit import Kind, NpuFlit
from hw.npu.isa.encoding import encode
from hw.npu.isa.table import Instruction
from hw.npu.memories.memories import Contents
from hw.npu.node import Node
from hw.npu.socket import SocketedNode
from hw.tables import make_tables
from tests.hw.networks import random_network
from tests.hw.npu.programs import END

SHAPE = NPU_SHAPES["tiny"]
CORE = CoreShape(neurons=16, axons=32, routes=64, synapses=128)
TICKS = 6
WORKS, HOST = 70, (0, 2)
SENDER, TAKER = (1, 0), (1, 1)


def program(*steps: Instruction) -> Contents:
    return Contents([int.from_bytes(encode(each), "little") for each in (*steps, END)])


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_ticks_of_spiking_cores_and_frames_of_npu_cores() -> None:
    """Nodes (0, 0), (1, 0) and (0, 1) have spiking cores, (1, 0) also an NPU core.

    In every tick it sends a token to the waiting core at (1, 1), and credits to the host.
    """
    rng = np.random.default_rng(4)
    network = random_network(rng, 30, 120, CORE, inputs=0)
    shape = chip_shape(2, 3, CORE)
    layout = NpuFlit(SHAPE, shape.x_bits, shape.y_bits)
    tables = make_tables(network, rng.permutation(np.arange(30) % 3), 2, 2, shape)
    nops = [Instruction("CTRL", "NOP")] * WORKS
    token = Instruction(
        "CTRL", "SEND", 0, 0, {"stream": 2, "count": 5, "x": TAKER[0], "y": TAKER[1], "queue": 3}
    )
    credit = Instruction(
        "CTRL", "SEND", 0, 0,
        {"stream": 1, "count": 7, "x": HOST[0], "y": HOST[1], "queue": 3, "host": 1},
    )  # fmt: skip
    waits = Instruction("CTRL", "WAIT", 0, 0, {"stream": 2, "count": 5, "queue": 3})
    contents = {SENDER: program(*nops[: SHAPE.instructions - 4], token, credit),
                TAKER: program(waits)}  # fmt: skip
    npus = {place: NpuCore(SHAPE, each, layout) for place, each in contents.items()}
    spiking = {(x, y): Core(shape, tables.cores[y * 2 + x]) for x, y in [(0, 0), (1, 0), (0, 1)]}

    def make(node: int) -> SocketedNode:
        place = node % 2, node // 2
        parts = Node(layout, npus.get(place), spiking.get(place), False)
        return SocketedNode(parts, place, HOST, shape.load)

    chip: Any = ChipDesign(2, 2, CORE, make_core=make, borders=Borders(output=True), layout=layout)
    spikes = np.zeros((TICKS, network.neurons), bool)
    cycles, heard, ended = [], [], dict.fromkeys(npus, 0)

    async def bench(ctx: Any) -> None:
        ctx.set(chip.output.ready, 1)
        for tick in range(TICKS):
            assert ctx.get(chip.done)
            ctx.set(chip.tick, 1)
            cycles.append(0)
            while True:
                for (x, y), core in spiking.items():
                    if ctx.get(core.fired.valid):
                        number = ctx.get(core.fired.payload)
                        spikes[tick, tables.cores[2 * y + x].neurons[number]] = True
                if ctx.get(chip.output.valid):
                    flit = ctx.get(chip.output.payload)
                    heard.append((tick, flit.kind, flit.stream, flit.data >> 16))
                for place, npu in npus.items():
                    ended[place] += ctx.get(npu.ended).bit_count()
                await ctx.tick()
                ctx.set(chip.tick, 0)
                cycles[-1] += 1
                if ctx.get(chip.done):
                    break

    simulator = Simulator(chip)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    wanted, _ = simulate(network, shape, TICKS)
    assert wanted.any()
    assert np.array_equal(spikes, wanted)
    assert min(cycles) > SHAPE.instructions, "a tick lasts as long as the frames"
    assert heard == [(tick, Kind.REQUEST, 1, 7) for tick in range(TICKS)]
    assert ended[TAKER] == 2 * TICKS, "WAIT and END, in every tick"


def test_invalid_layouts() -> None:
    layout = NpuFlit(SHAPE, 1, 1)
    with pytest.raises(HwError, match="chip: layout requires make_core"):
        ChipDesign(2, 2, CORE, layout=layout)
    with pytest.raises(HwError, match="chip: 4x2 cores need 2 and 1 bits of x and y; the layout"):
        ChipDesign(4, 2, CORE, layout=layout, make_core=lambda node: Core(CORE))
