# amaranth: UnusedElaboratable=no
"""Other cores at the routers of a chip."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from hw.chip import ChipDesign, chip_shape
from hw.core.core import Core
from hw.errors import HwError
from hw.socket import CoreSocket
from hw.tables import ChipTables
from tests.hw.networks import TINY

SHAPE = chip_shape(3, 1, TINY)


class Relay(wiring.Component):
    """Forwards each packet to the next node, with the axon decremented; axon 0 stays."""

    def __init__(self, node: int) -> None:
        self.node = node
        super().__init__(CoreSocket(SHAPE.packet, SHAPE.load))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        m.d.comb += [
            me.incoming.ready.eq(~me.outgoing.valid | me.outgoing.ready),
            me.busy.eq(me.outgoing.valid),
        ]
        with m.If(me.incoming.ready):
            m.d.sync += [
                me.outgoing.valid.eq(me.incoming.valid & (me.incoming.payload.axon != 0)),
                me.outgoing.payload.axon.eq(me.incoming.payload.axon - 1),
                me.outgoing.payload.x.eq((self.node + 1) % 3),
            ]
        return m


@pytest.mark.heavy
def test_packets_go_round_until_they_stay() -> None:
    chip = ChipDesign(3, 1, TINY, make_core=Relay)
    taken = []

    async def bench(ctx: Any) -> None:
        ctx.set(chip.input.payload, {"x": 1, "y": 0, "axon": 5})
        ctx.set(chip.input.valid, 1)
        for cycle in range(60):
            for node, core in enumerate(chip.cores):
                if ctx.get(core.incoming.valid & core.incoming.ready):
                    taken.append((node, ctx.get(core.incoming.payload.axon)))
            await ctx.tick()
            ctx.set(chip.input.valid, 0)
            assert not ctx.get(chip.done) or len(taken) == 6, cycle
        assert ctx.get(chip.done)

    simulator = Simulator(chip)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == [(1, 5), (2, 4), (0, 3), (1, 2), (2, 1), (0, 0)]


def test_a_core_with_other_ports_is_refused() -> None:
    with pytest.raises(HwError, match="chip: the core of node 0 lacks the ports of"):
        ChipDesign(2, 1, TINY, make_core=lambda node: Core(SHAPE))


def test_tables_require_spiking_cores() -> None:
    tables = ChipTables(3, 1, SHAPE, (), ())
    with pytest.raises(HwError, match="tables are for spiking cores; give tables or make_core"):
        ChipDesign(3, 1, TINY, tables=tables, make_core=Relay)
