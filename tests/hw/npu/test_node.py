"""Shared nodes: spiking cores, NPU cores and the host at the same router ports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from chipsim.chip.npu_shape import NPU_SHAPES
from hw.chip import chip_shape
from hw.core.arithmetic import simulate
from hw.npu.chip import ChipParts, MixedChip
from hw.npu.flit import Kind
from hw.npu.isa.encoding import encode
from hw.npu.isa.table import Instruction
from hw.npu.memories.memories import Contents
from hw.tables import make_tables
from tests.hw.networks import TINY, random_inputs, random_network
from tests.hw.npu.programs import END

WIDTH, HEIGHT, TICKS = 2, 1, 10
PATIENCE = 2000


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("seed", range(3))
def test_spikes_and_maps_share_nodes(seed: int) -> None:
    """N10.2: two spiking cores and two NPU cores at the same two nodes.

    Neurons spike according to their arithmetic, while the NPU cores keep sending tokens to each
    other.
    """
    rng = np.random.default_rng([3, seed])
    shape = chip_shape(WIDTH, HEIGHT, TINY)
    network = random_network(rng, 9, 40, shape)
    tables = make_tables(network, rng.permutation(9) % 2, WIDTH, HEIGHT, shape)
    inputs = random_inputs(rng, network, TICKS)
    wanted, _ = simulate(network, shape, TICKS, inputs)

    def program(x: int) -> Contents:
        other = {"x": 1 - x, "y": 0, "stream": 3, "count": 1}
        sends = [Instruction("CTRL", "SEND", 0, 0, {**other, "queue": n % 4}) for n in range(12)]
        waits = Instruction("CTRL", "WAIT", 0, 0, {"queue": 3, "stream": 3, "count": 12})
        return Contents([int.from_bytes(encode(each), "little") for each in (*sends, waits, END)])

    parts = ChipParts(
        {(x, 0): program(x) for x in range(WIDTH)},
        cores={(x, 0): tables.cores[x] for x in range(WIDTH)}, core_shape=shape,
    )  # fmt: skip
    chip = MixedChip(WIDTH, HEIGHT, NPU_SHAPES["tiny"], parts)
    spikes = np.zeros((TICKS, network.neurons), bool)
    tokens = 0

    async def bench(ctx: Any) -> None:
        ports: Any = chip
        ctx.set(ports.begin.payload, 1000)
        ctx.set(ports.begin.valid, 1)
        await ctx.tick()
        ctx.set(ports.begin.valid, 0)
        for tick, told in enumerate(inputs):
            for x, y, axon in (packet for one in told for packet in tables.input_packets[one]):
                flit = {"x": x, "y": y, "kind": Kind.SPIKE, "data": axon}
                ctx.set(ports.hosts[0].i.payload, flit)
                ctx.set(ports.hosts[0].i.valid, 1)
                while not ctx.get(ports.hosts[0].i.ready):
                    await cycle(ctx, tick)
                await cycle(ctx, tick)
                ctx.set(ports.hosts[0].i.valid, 0)
            await settle(ctx, tick)
            ctx.set(ports.tick, 1)
            await cycle(ctx, tick)
            ctx.set(ports.tick, 0)
            await settle(ctx, tick)
        assert ctx.get(ports.active), "the NPU cores have been at work all the time"

    async def settle(ctx: Any, tick: int) -> None:
        for _ in range(PATIENCE):
            if ctx.get(chip.done):  # type: ignore[attr-defined]
                return
            await cycle(ctx, tick)
        raise AssertionError("spikes are stuck")

    async def cycle(ctx: Any, tick: int) -> None:
        nonlocal tokens
        for node, core in enumerate(chip.cores.values()):
            if ctx.get(core.fired.valid):
                number = ctx.get(core.fired.payload)
                spikes[tick, tables.cores[node].neurons[number]] = True
        for port in chip.mesh.local_out:
            flit: Any = port.payload
            if ctx.get(port.valid & port.ready) and ctx.get(flit.kind) == Kind.TOKEN:
                tokens += 1
        await ctx.tick()

    simulator = Simulator(chip)
    simulator.add_clock(1e-8)
    simulator.add_testbench(bench)
    simulator.run()
    assert np.array_equal(spikes, wanted)
    assert spikes.any() and tokens > 50
