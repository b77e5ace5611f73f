"""Run a chip in Amaranth's simulator and return spikes and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const, Shape, ShapeLike
from amaranth.sim import Simulator
from numpy.typing import NDArray

from hw.axons import Packed
from hw.chip import ChipDesign
from hw.core.network import STATE
from hw.core.shape import DestinationTable
from hw.errors import HwError, check_count
from hw.integers import Int64Array, check_inputs
from hw.tables import ChipTables

PERIOD = 1e-8  # seconds per cycle, for the time axis of waveforms
PATIENCE = 100_000  # maximum cycles per tick


@dataclass(frozen=True, slots=True, eq=False)
class ChipRun:
    """Result of a run.

    spikes : ndarray[bool], shape (ticks, neurons), by the ids of the network
    states : ndarray[int64], shape (neurons, 3), after the last tick, with the fields
        `hw.core.network.STATE`
    cycles : ndarray[int64], shape (ticks,), cycles per tick
    packets : packets that entered the mesh, including packets of the host
    heard : for each tick, the axons of packets to the host in order of arrival; empty if the chip
        has no port for them
    """

    spikes: NDArray[np.bool_]
    states: Int64Array
    cycles: Int64Array
    packets: int
    heard: list[list[int]]


class ChipSimulator:
    """A chip that is elaborated once and run many times with different tables.

    Tables are written directly to the memories: loading through the port would take longer than
    most runs. A test checks that the port has the same effect.
    """

    def __init__(self, chip: ChipDesign) -> None:
        if any(core.tables is not None for core in chip.cores):
            raise HwError(
                "the chip already has tables; build it without tables and pass them to run()"
            )
        self.chip = chip
        self._simulator = Simulator(chip)
        self._simulator.add_clock(PERIOD)
        self._simulator.add_testbench(self._bench)
        self._ran = False
        self._job: Callable[[Any], Any] | None = None

    def run(
        self,
        tables: ChipTables,
        ticks: int,
        inputs: Sequence[Sequence[int]] = (),
        waveform: Path | None = None,
        patience: int = PATIENCE,
    ) -> ChipRun:
        """Run `ticks` ticks from the state in the tables.

        inputs : for each tick, the inputs that spike before it; missing ticks have none
        waveform : VCD file to write
        patience : maximum cycles per tick

        Raises `HwError` for tables of another chip, inputs that do not exist, and a tick that does
        not end.
        """
        self.chip.require_own(tables)
        check_count("ticks", ticks, 0)
        events = check_inputs(inputs, len(tables.input_packets), ticks)
        packets = [[p for one in told for p in tables.input_packets[one]] for told in events]
        host = Host(self.chip, tables, packets, patience)
        self._start(host.run, waveform)
        return host.result()

    def _start(self, job: Callable[[Any], Any], waveform: Path | None) -> None:
        if self._ran:
            self._simulator.reset()
        self._job, self._ran = job, True
        if waveform is None:
            self._simulator.run()
        else:
            with self._simulator.write_vcd(str(waveform)):
                self._simulator.run()

    async def _bench(self, ctx: Any) -> None:
        assert self._job is not None
        await self._job(ctx)


class Host:
    """Test bench of one run: drives the chip and records its outputs.

    packets : packets to send before each tick
    """

    def __init__(
        self,
        chip: ChipDesign,
        tables: ChipTables,
        packets: list[list[Packed]],
        patience: int = PATIENCE,
    ) -> None:
        self.chip, self.tables, self.packets, self.patience = chip, tables, packets, patience
        ticks = len(packets)
        self.spikes = np.zeros((ticks, tables.neurons), bool)
        self.states = np.zeros((tables.neurons, len(STATE)), np.int64)
        self.cycles = np.zeros(ticks, np.int64)
        self.sent = 0
        self.heard: list[list[int]] = [[] for _ in packets]
        self.spiking = Cat(core.fired.valid for core in chip.cores)
        self.entering = Cat(
            port.valid & port.ready
            for port in (chip.mesh.local_in[n] for n in range(chip.mesh.nodes))
        )

    async def run(self, ctx: Any) -> None:
        await self.put_tables(ctx)
        if self.chip.borders.output:
            ctx.set(self.chip.output.ready, 1)
        for tick, packets in enumerate(self.packets):
            await self.feed(ctx, packets)
            ctx.set(self.chip.tick, 1)
            await self.cycle(ctx, tick)
            ctx.set(self.chip.tick, 0)
            self.cycles[tick] = 1 + await self.settle(ctx, tick)
        self.read_states(ctx)

    def read_states(self, ctx: Any) -> None:
        for core, tables in zip(self.chip.cores, self.tables.cores, strict=True):
            memory = core.memories[DestinationTable.STATES]
            for number, neuron in enumerate(tables.neurons):
                word = ctx.get(memory[number])
                self.states[neuron] = [word[name] for name in STATE]

    async def put_tables(self, ctx: Any) -> None:
        """Write all words of a core in one assignment, as the simulator settles after each."""
        for core, tables in zip(self.chip.cores, self.tables.cores, strict=True):
            words, values = [core.used], [(tables.used, len(core.used))]
            for table, memory in core.memories.items():
                for address, row in enumerate(tables.rows(table)):
                    words.append(memory[address])
                    values.append((word_bits(memory.shape, row), Shape.cast(memory.shape).width))
            together, at = 0, 0
            for value, width in values:
                together |= value << at
                at += width
            ctx.set(Cat(words), together)

    async def feed(self, ctx: Any, packets: list[Packed]) -> None:
        """Send the packets of the host, and wait until they have arrived."""
        port = self.chip.input
        for x, y, axon in packets:
            ctx.set(port.payload, {"x": x, "y": y, "axon": axon})
            ctx.set(port.valid, 1)
            while not ctx.get(port.ready):
                await self.cycle(ctx)
            await self.cycle(ctx)
        ctx.set(port.valid, 0)
        await self.settle(ctx)

    async def settle(self, ctx: Any, tick: int | None = None) -> int:
        """Wait until the chip is done; return the number of cycles."""
        cycles = 0
        while not ctx.get(self.chip.done):
            if cycles == self.patience:
                raise HwError(
                    f"chip: tick {tick} has not ended after {cycles} cycles; packets are stuck, or "
                    "the tick needs more cycles than `patience`"
                )
            await self.cycle(ctx, tick)
            cycles += 1
        return cycles

    async def cycle(self, ctx: Any, tick: int | None = None) -> None:
        """Advance one clock cycle and record its events."""
        self.sent += ctx.get(self.entering).bit_count()
        nodes = ctx.get(self.spiking)
        while nodes:
            node = (nodes & -nodes).bit_length() - 1
            nodes &= nodes - 1
            assert tick is not None, "a neuron spikes while no tick runs"
            number = ctx.get(self.chip.cores[node].fired.payload)
            self.spikes[tick, self.tables.cores[node].neurons[number]] = True
        if self.chip.borders.output and ctx.get(self.chip.output.valid):
            assert tick is not None, "a packet for the host while no tick runs"
            self.heard[tick].append(ctx.get(self.chip.output.payload.axon))
        await ctx.tick()

    def result(self) -> ChipRun:
        return ChipRun(self.spikes, self.states, self.cycles, self.sent, self.heard)


def word_bits(shape: ShapeLike, row: Any) -> int:
    """Return a word of a memory, in Amaranth's form, as an integer."""
    bits = Const.cast(Const(row, shape))
    return int(bits.value) & ((1 << len(bits)) - 1)
