# amaranth: UnusedElaboratable=no
"""Parts of a core and the barrier of the chip: their data sheets, cycle by cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.barrier import LATENCY, Barrier
from hw.core.accumulator import Accumulator
from hw.core.core import Core
from hw.core.lists import ListReader
from hw.core.loaded import memories_of
from hw.core.network import SpikingNetwork
from hw.core.shape import DestinationTable
from hw.core.sweep import LATENCY as SWEEP_LATENCY
from hw.errors import HwError
from hw.tables import make_tables
from tests.hw.networks import TINY


def run(dut: Any, bench: Callable[[Any], Any]) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


LISTS = [[], [5, 6, 7], [8], [], [], [9, 10], [11], []]


def reader() -> ListReader:
    """Return a reader of LISTS: keys are neurons, entries are packets whose axon counts."""
    flat = [entry for entries in LISTS for entry in entries]
    first = np.cumsum([0, *map(len, LISTS)]).tolist()
    memories = memories_of(TINY)
    memories[DestinationTable.FANOUTS].init = [
        {"first": a, "count": len(b)} for a, b in zip(first, LISTS, strict=False)
    ]
    memories[DestinationTable.ROUTES].init = [{"x": 0, "y": 0, "axon": axon} for axon in flat]
    return ListReader(TINY, memories, DestinationTable.FANOUTS, DestinationTable.ROUTES)


def read_lists(keys: list[int], takes: Callable[[int], bool]) -> tuple[list[tuple[int, int]], int]:
    """Return (cycle, entry) of all outputs when every key is offered at once; and busy cycles."""
    dut: Any = reader()
    found: list[tuple[int, int]] = []
    busy = 0

    async def bench(ctx: Any) -> None:
        nonlocal busy
        waiting = list(keys)
        for cycle in range(60):
            ctx.set(dut.keys.valid, bool(waiting))
            ctx.set(dut.keys.payload, waiting[0] if waiting else 0)
            ctx.set(dut.entries.ready, takes(cycle))
            if ctx.get(dut.entries.valid) and takes(cycle):
                found.append((cycle, ctx.get(dut.entries.payload.axon)))
            if waiting and ctx.get(dut.keys.ready):
                waiting.pop(0)
            busy += ctx.get(dut.busy)
            await ctx.tick()
        assert not waiting
        assert not ctx.get(dut.busy)

    run(dut, bench)
    return found, busy


def test_entries_start_after_three_cycles_then_one_per_cycle() -> None:
    found, busy = read_lists([1, 2, 5], lambda cycle: True)
    assert found == [(3, 5), (4, 6), (5, 7), (6, 8), (7, 9), (8, 10)]
    assert busy == 8  # cycles 1 to 8


def test_an_empty_list_takes_a_cycle() -> None:
    assert read_lists([2, 0, 3, 6], lambda cycle: True)[0] == [(3, 8), (6, 11)]
    assert read_lists([0], lambda cycle: True) == ([], 2)


@pytest.mark.parametrize("seed", range(5))
def test_lists_are_whole_and_in_order_for_any_receiver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, len(LISTS), 8).tolist()
    ready = rng.random(60) < 0.6
    found, _ = read_lists(keys, lambda cycle: bool(ready[cycle]))
    assert [entry for _, entry in found] == [entry for key in keys for entry in LISTS[key]]


def test_sums_of_weights_in_every_cycle_and_their_slots() -> None:
    """A weight in most cycles, also repeatedly for one sum; sums wrap; slots are separate."""
    dut: Any = Accumulator(TINY)
    rng = np.random.default_rng(1)
    slots, half = TINY.delay_slots, 1 << (TINY.sum_bits - 1)
    expected = np.zeros((slots, 8), np.int64)
    largest = 0

    async def read(ctx: Any, neuron: int) -> int:
        ctx.set(dut.read, 1)
        ctx.set(dut.neuron, neuron)
        await ctx.tick()
        ctx.set(dut.read, 0)
        await ctx.tick()  # not accepted yet
        ctx.set(dut.hold, 1)
        await ctx.tick()
        ctx.set(dut.hold, 0)
        return int(ctx.get(dut.sum))

    async def bench(ctx: Any) -> None:
        nonlocal largest
        for slot in (3, 0, 1, 2, 3, 0):
            ctx.set(dut.slot, slot)
            await ctx.tick()
            for neuron in range(8):
                total = expected[slot, neuron]
                assert await read(ctx, neuron) == (total + half) % (2 * half) - half
                await ctx.tick()
                assert ctx.get(dut.sum) == (total + half) % (2 * half) - half  # stays
            largest = max(largest, int(np.abs(expected[slot]).max()))
            expected[slot] = 0
            for n in range(160):
                neuron, weight = int(rng.choice([0, 0, 0, 1, 5])), int(rng.integers(-16, 16))
                weight = 15 if neuron <= 1 else weight  # these overflow
                base, delay = int(rng.integers(0, 8)), int(rng.choice([0, 0, 1, 2]))
                word = {"neuron": (neuron - base) % 8, "weight": weight, "delay": delay}
                ctx.set(dut.weights.payload, word)
                ctx.set(dut.base, base)
                valid = n == 159 or bool(rng.random() < 0.8)
                ctx.set(dut.weights.valid, valid)
                expected[(slot + 1 + delay) % slots, neuron] += weight * valid
                await ctx.tick()
            ctx.set(dut.weights.valid, 0)
            for _ in range(3):
                assert ctx.get(dut.busy)
                await ctx.tick()
            assert not ctx.get(dut.busy)

    run(dut, bench)
    assert largest >= half


def test_a_weight_that_reaches_the_slot_being_read_is_caught() -> None:
    dut: Any = Accumulator(TINY)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.weights.payload, {"neuron": 0, "weight": 1, "delay": TINY.delay_slots - 1})
        ctx.set(dut.weights.valid, 1)
        for _ in range(3):
            await ctx.tick()

    with pytest.raises(AssertionError, match="a weight is added to the slot that is read"):
        run(dut, bench)


@pytest.mark.parametrize("used", [0, 1, 5, 8])
def test_a_tick_without_spikes_takes_one_cycle_per_neuron_plus_the_latency(used: int) -> None:
    count = max(used, 1)
    network = SpikingNetwork(count, [], [], [], threshold=9)  # type: ignore[arg-type]
    tables = make_tables(network, np.full(count, 0 if used else 1), 2, 1, TINY)
    dut: Any = Core(TINY, tables.cores[0])
    busy = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.tick, 1)
        await ctx.tick()
        ctx.set(dut.tick, 0)
        for _ in range(25):
            busy.append(ctx.get(dut.busy))
            await ctx.tick()

    run(dut, bench)
    assert sum(busy) == (used + SWEEP_LATENCY if used else 0)
    assert busy == sorted(busy, reverse=True)


def test_a_packet_keeps_the_core_busy_until_its_last_weight_is_in_the_sum() -> None:
    network = SpikingNetwork(
        2,
        [2, 2, 2],
        [0, 1, 0],
        [3, 4, 5],
        threshold=9,
        inputs=1,  # type: ignore[arg-type]
    )
    dut: Any = Core(TINY, make_tables(network, np.zeros(2, int), 1, 1, TINY).cores[0])
    busy = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.incoming.valid, 1)
        assert ctx.get(dut.incoming.ready)
        for _ in range(12):
            busy.append(ctx.get(dut.busy))
            await ctx.tick()
            ctx.set(dut.incoming.valid, 0)

    run(dut, bench)
    # the packet, the head twice, three synapses, and the last addition, which takes three cycles
    assert busy == [0, *[1] * 9, 0, 0]


def test_loaded_sums_count_by_their_slots() -> None:
    """After any number of ticks: loading the number of neurons restarts the ring of slots."""
    network = SpikingNetwork(1, [], [], [], threshold=9)  # type: ignore[arg-type]
    dut: Any = Core(TINY, make_tables(network, np.zeros(1, int), 1, 1, TINY).cores[0])
    fired = []

    async def bench(ctx: Any) -> None:
        for ticks, slot in ((3, 0), (4, 2), (4, 3)):
            for table, address, word in (
                (DestinationTable.USED, 0, 1),
                *((DestinationTable.SUMS, n, 0) for n in TINY.sum_addresses(1)),
                (DestinationTable.SUMS, slot * TINY.neurons, 9),
            ):
                ctx.set(dut.load.payload, {"table": table, "address": address, "data": word})
                ctx.set(dut.load.valid, 1)
                await ctx.tick()
            ctx.set(dut.load.valid, 0)
            for tick in range(ticks):
                ctx.set(dut.tick, 1)
                await ctx.tick()
                ctx.set(dut.tick, 0)
                for _ in range(15):
                    if ctx.get(dut.fired.valid):
                        fired.append((slot, tick))
                    await ctx.tick()

    run(dut, bench)
    assert fired == [(0, 0), (2, 2), (3, 3)]


def test_a_tick_while_the_core_is_busy_is_caught() -> None:
    network = SpikingNetwork(3, [], [], [], threshold=9)  # type: ignore[arg-type]
    dut: Any = Core(TINY, make_tables(network, np.zeros(3, int), 1, 1, TINY).cores[0])

    async def bench(ctx: Any) -> None:
        ctx.set(dut.tick, 1)
        for _ in range(3):
            await ctx.tick()

    with pytest.raises(AssertionError, match="a tick starts before the last one has ended"):
        run(dut, bench)


@pytest.mark.parametrize("nodes", [1, 2, 5, 17])
def test_barrier_counts_packets_in_flight(nodes: int) -> None:
    """The output refers to `LATENCY` cycles ago, but never to a cycle before a start."""
    rng = np.random.default_rng(2)
    capacity = 4
    dut: Any = Barrier(nodes, capacity)
    quiet: list[bool] = []
    began: list[bool] = []
    seen = set()

    async def bench(ctx: Any) -> None:
        flying = 0
        for _ in range(400):
            sent, received = (
                sum(int(rng.random() < 1 / (nodes + 3)) << n for n in range(nodes)) for _ in "io"
            )
            while received.bit_count() > flying:
                received &= received - 1
            while flying + sent.bit_count() - received.bit_count() > capacity:
                sent &= sent - 1
            busy = int(rng.random() < 0.3) << int(rng.integers(0, nodes))
            ctx.set(dut.sent, sent)
            ctx.set(dut.received, received)
            ctx.set(dut.busy, busy)
            begins = bool(rng.random() < 0.1)
            ctx.set(dut.begins, begins)
            began.append(begins)
            quiet.append(busy == 0 and flying == 0)
            if len(quiet) > LATENCY:
                known = quiet[-1 - LATENCY] and not any(began[-1 - LATENCY : -1])
                assert ctx.get(dut.quiet) == known
            seen.add((busy == 0, flying))
            flying += sent.bit_count() - received.bit_count()
            await ctx.tick()

    run(dut, bench)
    assert {(True, 0), (False, 0), (True, 1), (True, capacity)} <= seen


@pytest.mark.parametrize(("sent", "received"), [(0, 1), (3, 0)])
def test_barrier_notices_packets_from_nowhere_and_too_many(sent: int, received: int) -> None:
    dut: Any = Barrier(2, 3)

    async def bench(ctx: Any) -> None:
        ctx.set(dut.sent, sent)
        ctx.set(dut.received, received)
        for _ in range(5):
            await ctx.tick()

    with pytest.raises(AssertionError, match="barrier: more packets"):
        run(dut, bench)


def test_barrier_of_nothing() -> None:
    with pytest.raises(HwError, match="barrier: nodes is 0"):
        Barrier(0, 1)
