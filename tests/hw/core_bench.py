"""A bench that acts as the network of one core: it delays and reorders packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from hw.core.core import Core
from hw.core.network import STATE
from hw.core.shape import CoreShape, DestinationTable
from hw.run import word_bits
from hw.tables import CoreTables

Packet = tuple[int, int, int]  # x, y, axon


def port_words(tables: CoreTables, shape: CoreShape) -> Iterator[tuple[DestinationTable, int, int]]:
    """Yield table, address and word of all that the host writes to load a core."""
    yield DestinationTable.USED, 0, tables.used
    for table, (layout, _) in shape.memories.items():
        if table == DestinationTable.SUMS:
            yield from ((table, address, 0) for address in shape.sum_addresses(tables.used))
        else:
            for address, row in enumerate(tables.rows(table)):
                yield table, address, word_bits(layout, row)


@dataclass
class Observed:
    """Spikes, packets and cycles before the first tick and per tick; final states."""

    fired: list[list[int]]
    sent: list[list[Packet]]
    cycles: list[int]
    states: list[list[int]]


class CoreBench:
    """A core that is elaborated once, and loaded by its port for every run."""

    def __init__(self, shape: CoreShape) -> None:
        self.core = Core(shape)
        self.simulator = Simulator(self.core)
        self.simulator.add_clock(1e-6)
        self.simulator.add_testbench(self._bench)
        self.ran = False

    def run(
        self,
        tables: CoreTables,
        position: tuple[int, int],
        arrivals: Sequence[Sequence[int]],
        rng: np.random.Generator,
        patience: float = 0.5,
        again: bool = False,
    ) -> Observed:
        """Run one tick for each list of `arrivals` except the first, which comes before any tick.

        arrivals : axons that others send to, until the next tick starts
        position : packets of the core to this x and y come back to it
        patience : share of cycles in which the bench accepts and offers packets
        again : run everything, and then load the core and run once more
        """
        self.tables, self.position, self.arrivals = tables, position, arrivals
        self.rng, self.patience, self.runs = rng, patience, 1 + again
        self.observed = Observed([], [], [], [])
        if self.ran:
            self.simulator.reset()
        self.ran = True
        self.simulator.run()
        return self.observed

    async def _bench(self, ctx: Any) -> None:
        for _ in range(self.runs):
            self.observed = Observed([], [], [], [])
            await self._load(ctx)
            for tick, axons in enumerate(self.arrivals):
                ctx.set(self.core.tick, tick > 0)
                await self._settle(ctx, list(axons))
        memory = self.core.memories[DestinationTable.STATES]
        for number in range(self.tables.used):
            word = ctx.get(memory[number])
            self.observed.states.append([word[name] for name in STATE])

    async def _load(self, ctx: Any) -> None:
        load = self.core.load
        for table, address, word in port_words(self.tables, self.core.shape):
            ctx.set(load.payload, {"table": table, "address": address, "data": word})
            ctx.set(load.valid, 1)
            await ctx.tick()
        ctx.set(load.valid, 0)

    async def _settle(self, ctx: Any, pool: list[int]) -> None:
        """Exchange packets until the core is idle and no packet is left."""
        core = self.core
        fired: list[int] = []
        sent: list[Packet] = []
        offered: int | None = None
        quiet = cycles = 0
        while quiet < 3:  # idle for good, not for a moment
            if offered is None and pool and self.rng.random() < self.patience:
                offered = pool.pop(self.rng.integers(len(pool)))
                ctx.set(core.incoming.payload.axon, offered)
            ctx.set(core.incoming.valid, offered is not None)
            takes = bool(self.rng.random() < self.patience)
            ctx.set(core.outgoing.ready, takes)
            *_, busy, valid, packet, ready, spikes, neuron = await ctx.tick().sample(
                core.busy, core.outgoing.valid, core.outgoing.payload, core.incoming.ready,
                core.fired.valid, core.fired.payload,
            )  # fmt: skip
            ctx.set(core.tick, 0)
            if spikes:
                fired.append(neuron)
            if valid and takes:
                sent.append((packet.x, packet.y, packet.axon))
                if sent[-1][:2] == self.position:
                    pool.append(packet.axon)
            if offered is not None and ready:
                offered = None
            cycles += 1
            waits = busy or pool or offered is not None or cycles == 1
            quiet = 0 if waits else quiet + 1
        self.observed.fired.append(fired)
        self.observed.sent.append(sent)
        self.observed.cycles.append(cycles - quiet)
