# amaranth: UnusedElaboratable=no
"""The chip from the host's view: loading, starting ticks, sending packets, and errors."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.chip import ChipDesign, chip_shape
from hw.core.arithmetic import simulate
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.run import ChipSimulator, Host
from hw.tables import ChipTables, make_tables
from tests.hw.core_bench import port_words
from tests.hw.networks import TINY, random_inputs, random_network, ring

WIDTH, HEIGHT, TICKS = 2, 1, 10
SHAPE = chip_shape(WIDTH, HEIGHT, TINY)


@cache
def simulator() -> ChipSimulator:
    return ChipSimulator(ChipDesign(WIDTH, HEIGHT, TINY))


def example(seed: int = 0) -> tuple[SpikingNetwork, ChipTables, list[list[int]]]:
    rng = np.random.default_rng([3, seed])
    network = random_network(rng, 9, 40, SHAPE)
    tables = make_tables(network, rng.permutation(9) % 2, WIDTH, HEIGHT, SHAPE)
    return network, tables, random_inputs(rng, network, TICKS)


class PortLoader(Host):
    """Loads the chip by its port."""

    async def put_tables(self, ctx: Any) -> None:
        port = self.chip.load
        for node, tables in enumerate(self.tables.cores):
            for table, address, bits in port_words(tables, self.chip.shape):
                word = {"table": table, "address": address, "data": bits}
                ctx.set(port.payload, {"node": node, "word": word})
                ctx.set(port.valid, 1)
                await ctx.tick()
        ctx.set(port.valid, 0)


class BuiltIn(Host):
    """Uses the initial contents of the memories."""

    async def put_tables(self, ctx: Any) -> None:
        pass


class Impatient(Host):
    """Requests the next tick all the time; sends nothing."""

    async def run(self, ctx: Any) -> None:
        await self.put_tables(ctx)
        ctx.set(self.chip.tick, 1)
        tick = -1
        while tick < len(self.packets):
            tick += ctx.get(self.chip.done)
            await self.cycle(ctx, tick if tick < len(self.packets) else None)


def run_host(host: Host) -> np.ndarray:
    chip_simulator = Simulator(host.chip)
    chip_simulator.add_clock(1e-8)
    chip_simulator.add_testbench(host.run)
    chip_simulator.run()
    return host.spikes


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_loaded_by_the_port_or_built_in_is_the_same() -> None:
    network, tables, inputs = example()
    spikes, states = simulate(network, SHAPE, TICKS, inputs)
    assert spikes.any()
    packets = [[p for one in told for p in tables.input_packets[one]] for told in inputs]
    for host in (
        PortLoader(ChipDesign(WIDTH, HEIGHT, TINY), tables, packets),
        BuiltIn(ChipDesign(WIDTH, HEIGHT, TINY, tables=tables), tables, packets),
    ):
        assert np.array_equal(run_host(host), spikes)
        assert np.array_equal(host.states, np.column_stack(states))


@pytest.mark.heavy
def test_unloaded_words_are_never_used() -> None:
    """They hold data of another network, as memories of real chips do."""
    network, tables, _ = example(2)
    rng = np.random.default_rng(5)
    other = random_network(rng, 14, 60, SHAPE)
    left = make_tables(other, np.arange(14) % 2, WIDTH, HEIGHT, SHAPE)
    host = PortLoader(ChipDesign(WIDTH, HEIGHT, TINY, tables=left), tables, [[]] * TICKS)
    spikes, states = simulate(network, SHAPE, TICKS)
    assert spikes.any()
    assert np.array_equal(run_host(host), spikes)
    assert np.array_equal(host.states, np.column_stack(states))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_states_loaded_again_start_afresh() -> None:
    """Pending spikes for the next ticks are cleared with the sums."""
    network = ring(4)
    network = replace(network, threshold=9, weight=np.full(4, 9), potential=network.potential // 10)
    tables = make_tables(network, np.arange(4) % 2, WIDTH, HEIGHT, SHAPE)

    class Again(PortLoader):
        async def run(self, ctx: Any) -> None:
            await super().run(ctx)
            self.spikes[:] = False
            await super().run(ctx)

    for ticks in (3, 4, 5, 6):  # slots of sums in any place of the ring
        again = Again(ChipDesign(WIDTH, HEIGHT, TINY), tables, [[]] * ticks)
        assert np.array_equal(run_host(again), simulate(network, SHAPE, ticks)[0])


@pytest.mark.heavy
def test_early_tick_requests_wait() -> None:
    network, tables, _ = example(2)
    spikes, _ = simulate(network, SHAPE, TICKS)
    host = Impatient(ChipDesign(WIDTH, HEIGHT, TINY), tables, [[]] * TICKS)
    assert np.array_equal(run_host(host), spikes)
    assert spikes.any()


@pytest.mark.heavy
def test_the_host_and_the_core_of_node_0_share_its_way_into_the_mesh() -> None:
    """Core 0 sends its spikes while the host sends packets for the next tick."""
    here = np.arange(8)
    network = SpikingNetwork(
        8,
        np.r_[here[:4], 8 + here[:4]],
        np.r_[here[4:], here[4:]],
        np.r_[1, 2, 3, 4, 5, 6, 7, 8],
        threshold=np.r_[np.full(4, 1), np.full(4, 127)],
        potential_bias=1,
        inputs=4,
    )
    tables = make_tables(network, here // 4, WIDTH, HEIGHT, SHAPE)
    inputs = [[], *([[0, 1, 2, 3, 3, 2]] * 5)]
    shared = 0

    class Busy(Host):
        async def run(self, ctx: Any) -> None:
            nonlocal shared
            await self.put_tables(ctx)
            for tick, packets in enumerate([*self.packets[1:], []]):
                ctx.set(self.chip.tick, 1)
                await self.cycle(ctx, tick)
                ctx.set(self.chip.tick, 0)
                while packets and not ctx.get(self.chip.cores[0].outgoing.valid):
                    await self.cycle(ctx, tick)
                for x, y, axon in packets:
                    ctx.set(self.chip.input.payload, {"x": x, "y": y, "axon": axon})
                    ctx.set(self.chip.input.valid, 1)
                    taken = False
                    while not taken:
                        shared += ctx.get(self.chip.cores[0].outgoing.valid)
                        taken = ctx.get(self.chip.input.ready)
                        await self.cycle(ctx, tick)
                ctx.set(self.chip.input.valid, 0)
                await self.settle(ctx, tick)
            self.read_states(ctx)

    packets = [[p for one in told for p in tables.input_packets[one]] for told in inputs]
    host = Busy(ChipDesign(WIDTH, HEIGHT, TINY), tables, packets)
    spikes, states = simulate(network, SHAPE, 6, inputs)
    assert np.array_equal(run_host(host), spikes)
    assert np.array_equal(host.states, np.column_stack(states))  # the last four add up all weights
    assert shared > 3


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(("early", "counts"), [(True, 0), (False, 1)])
def test_a_packet_accepted_as_a_tick_starts_counts_in_the_one_after(
    early: bool, counts: int
) -> None:
    network = SpikingNetwork(1, [1], [0], [5], threshold=5, inputs=1)  # type: ignore[arg-type]
    tables = make_tables(network, np.array([1]), WIDTH, HEIGHT, SHAPE)
    (packet,) = tables.input_packets[0]

    class Late(Host):
        async def run(self, ctx: Any) -> None:
            await self.put_tables(ctx)
            ctx.set(self.chip.input.payload, dict(zip("xy", packet[:2], strict=True)) | {"axon": 0})
            ctx.set(self.chip.input.valid, 1)
            if early:
                await self.cycle(ctx)
                ctx.set(self.chip.input.valid, 0)
                await self.settle(ctx)
            for tick in range(3):
                assert ctx.get(self.chip.done)
                ctx.set(self.chip.tick, 1)
                await self.cycle(ctx, tick)
                ctx.set(self.chip.tick, 0)
                ctx.set(self.chip.input.valid, 0)
                await self.settle(ctx, tick)

    host = Late(ChipDesign(WIDTH, HEIGHT, TINY), tables, [[]] * 3)
    assert np.flatnonzero(run_host(host)[:, 0]).tolist() == [counts]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_waveform_is_written_on_demand(tmp_path: Path) -> None:
    _, tables, inputs = example()
    plain = simulator().run(tables, 3, inputs[:3])
    again = simulator().run(tables, 3, inputs[:3], waveform=tmp_path / "chip.vcd")
    assert np.array_equal(plain.spikes, again.spikes)
    assert np.array_equal(plain.cycles, again.cycles)
    text = (tmp_path / "chip.vcd").read_text()
    assert "$scope module core_1_0 $end" in text
    assert text.count("\n#") > 3


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 3)])
def test_narrow_chips(width: int, height: int) -> None:
    shape = chip_shape(width, height, TINY)
    network = ring(6)
    network = replace(network, threshold=9, weight=np.full(6, 9), potential=network.potential // 10)
    tables = make_tables(network, np.arange(6) % (width * height), width, height, shape)
    run = ChipSimulator(ChipDesign(width, height, TINY)).run(tables, 8)
    assert np.array_equal(run.spikes, simulate(network, shape, 8)[0])
    assert run.packets == run.spikes.sum() == 16


def test_no_ticks_and_no_spikes() -> None:
    _, tables, _ = example()
    run = simulator().run(tables, 0)
    assert (run.spikes.shape, run.cycles.size, run.packets) == ((0, 9), 0, 0)
    quiet = SpikingNetwork(3, [0], [1], [1], threshold=5)  # type: ignore[arg-type]
    run = simulator().run(make_tables(quiet, np.zeros(3, int), WIDTH, HEIGHT, SHAPE), 2)
    assert not run.spikes.any()
    assert run.cycles.tolist() == [16, 16]  # the start, 3 + 9 cycles, and 3 of the barrier


def test_tables_of_another_chip_are_refused() -> None:
    network, _, _ = example()
    other = chip_shape(1, 2, TINY)
    for make in (
        lambda t: ChipDesign(WIDTH, HEIGHT, TINY, tables=t),
        lambda t: simulator().run(t, 1),
    ):
        with pytest.raises(HwError, match="tables of a 1x2 chip for one of 2x1; build them"):
            make(make_tables(network, np.zeros(9, int) + np.arange(9) % 2, 1, 2, other))
        wide = replace(SHAPE, sum_bits=12)
        with pytest.raises(HwError, match="tables for cores of another shape"):
            make(make_tables(network, np.arange(9) % 2, 2, 1, wide))


def test_invalid_runs_are_rejected() -> None:
    _, tables, inputs = example()
    run = simulator().run
    with pytest.raises(HwError, match="ticks is -1"):
        run(tables, -1)
    with pytest.raises(HwError, match="inputs for 10 ticks, but the run has 3; give at most 3"):
        run(tables, 3, inputs)
    with pytest.raises(HwError, match="input 2 spikes before tick 1; the network has 2 inputs"):
        run(tables, 3, [[0], [2]])
    with pytest.raises(HwError, match="tick 0 has not ended after 2 cycles"):
        run(tables, 3, patience=2)
    assert run(tables, 1).spikes.shape == (1, 9)  # and a valid one still works
    chip = ChipDesign(WIDTH, HEIGHT, TINY, tables=tables)
    with pytest.raises(HwError, match="already has tables"):
        ChipSimulator(chip)


def test_chips_that_cannot_be_built_are_refused() -> None:
    with pytest.raises(HwError, match="mesh: width is 0"):
        ChipDesign(0, 3)
    with pytest.raises(HwError, match="depth is 0"):
        ChipDesign(2, 2, depth=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"neurons": 100}, "core: neurons is 100; give a power of two, such as 128"),
        ({"axons": 1}, "core: axons is 1; give a whole number from 2 to"),
        ({"state_bits": 33}, "core: state_bits is 33; give a whole number from 2 to 32"),
        ({"decay_bits": 0}, "core: decay_bits is 0"),
        ({"sum_bits": 4}, "core: sum_bits is 4; sums of 8-bit weights need 8 or more"),
    ],
)
def test_cores_that_cannot_be_built_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(HwError, match=message):
        CoreShape(**changes)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_example_of_the_data_sheet_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "core.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["run"].spikes.sum() == 10
