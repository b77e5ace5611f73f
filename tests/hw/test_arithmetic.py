"""A tick of a neuron: by hand, in plain Python, in numpy, and in logic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.core.arithmetic import add_weights, simulate, update
from hw.core.network import SpikingNetwork
from hw.core.neuron import STAGES, NeuronUpdate
from hw.core.shape import CoreShape
from hw.integers import wrap

SMALL = CoreShape(potential_bits=8, sum_bits=10, weight_bits=8, leak_bits=3)
KEEPS = SMALL.no_leak

# potential, sum, threshold, bias, leak, subtract -> potential after, spikes
BY_HAND = {
    "keeps its potential": ((50, 0, 100, 0, KEEPS, 0), (50, False)),
    "adds the sum and the bias": ((50, 20, 100, -5, KEEPS, 0), (65, False)),
    "spikes at the threshold": ((50, 50, 100, 0, KEEPS, 0), (0, True)),
    "does not spike below it": ((50, 49, 100, 0, KEEPS, 0), (99, False)),
    "keeps the excess": ((50, 60, 100, 0, KEEPS, 1), (10, True)),
    "leaks before it adds": ((64, 10, 100, 0, 2, 0), (58, False)),
    "leaks everything": ((77, 5, 100, 0, 0, 0), (5, False)),
    "does not leak from less than a step": ((3, 0, 100, 0, 2, 0), (3, False)),
    "leaks to zero from below": ((-3, 0, 100, 0, 2, 0), (-2, False)),
    "rounds a leak down": ((-5, 0, 100, 0, 1, 0), (-2, False)),
    "saturates at the maximum": ((120, 100, 127, 0, KEEPS, 1), (0, True)),
    "saturates at the minimum": ((-120, -100, 127, 0, KEEPS, 1), (-128, False)),
    "saturates once, after the addition": ((120, 100, 127, -110, KEEPS, 1), (110, False)),
    "sums are wider than potentials": ((-128, 511, 127, -128, KEEPS, 0), (0, True)),
    "smallest sum": ((127, -512, 0, 127, KEEPS, 0), (-128, False)),
    "spikes at threshold zero": ((0, 0, 0, 0, KEEPS, 0), (0, True)),
    "saturates when a negative threshold is subtracted": ((127, 0, -100, 0, KEEPS, 1), (127, True)),
    "subtracts a negative threshold": ((-90, 0, -100, 0, KEEPS, 1), (10, True)),
}
Case = tuple[int, int, int, int, int, int]


def plain(shape: CoreShape, case: Case) -> tuple[int, bool]:
    """Compute the rules of docs/core.md with Python's unbounded integers."""
    potential, total, threshold, bias, leak, subtract = case
    most = 2 ** (shape.potential_bits - 1) - 1
    if leak != 2**shape.leak_bits - 1:
        potential -= potential // 2**leak
    potential = max(-most - 1, min(most, potential + total + bias))
    if potential < threshold:
        return potential, False
    return (max(-most - 1, min(most, potential - threshold)) if subtract else 0), True


def in_numpy(shape: CoreShape, cases: list[Case]) -> list[tuple[int, bool]]:
    potential, total, threshold, bias, leak, subtract = np.array(cases, np.int64).T
    none = np.zeros(0, np.int64)
    network = SpikingNetwork(len(cases), none, none, none, threshold, leak, bias, subtract)
    after, fires = update(network, shape, potential, total)
    return list(zip(after.tolist(), fires.tolist(), strict=True))


def in_logic(shape: CoreShape, cases: list[Case]) -> list[tuple[int, bool]]:
    """Enter a case in every cycle in which the stages move, its sum a move later than the rest."""
    dut: Any = NeuronUpdate(shape)
    found = []
    rng = np.random.default_rng(1)

    async def bench(ctx: Any) -> None:
        entered = 0
        while len(found) < len(cases):
            potential, _, threshold, bias, leak, subtract = cases[min(entered, len(cases) - 1)]
            ctx.set(dut.potential, potential)
            ctx.set(dut.sum, cases[min(max(entered - 1, 0), len(cases) - 1)][1])
            about = {"threshold": threshold, "bias": bias, "leak": leak, "subtract": subtract}
            ctx.set(dut.parameters, about)
            moves = bool(rng.random() < 0.8)
            ctx.set(dut.moves, moves)
            if moves and entered >= STAGES:
                found.append((ctx.get(dut.after), bool(ctx.get(dut.fires))))
            entered += moves
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    case, expected = BY_HAND[name]
    assert plain(SMALL, case) == expected
    assert in_numpy(SMALL, [case]) == [expected]


def test_logic_by_hand() -> None:
    cases, expected = zip(*BY_HAND.values(), strict=True)
    assert in_logic(SMALL, list(cases)) == list(expected)


@pytest.mark.parametrize(
    "shape",
    [
        SMALL,
        CoreShape(potential_bits=3, sum_bits=7, weight_bits=7, leak_bits=1),
        CoreShape(potential_bits=32, sum_bits=48, weight_bits=32, leak_bits=5),
        CoreShape(potential_bits=16, sum_bits=8, weight_bits=8, leak_bits=5),
    ],
)
def test_any_numbers(shape: CoreShape) -> None:
    rng = np.random.default_rng(4)
    p, s = 1 << (shape.potential_bits - 1), 1 << (shape.sum_bits - 1)
    size = 400
    columns = [
        np.where(
            rng.random(size) < 0.2, rng.choice([-end, end - 1], size), rng.integers(-end, end, size)
        )
        >> rng.choice([0, 0, 2], size)
        for end in (p, s, p, p)
    ]
    columns += [rng.integers(0, shape.no_leak + 1, size), rng.integers(0, 2, size)]
    cases: list[Case] = list(zip(*(column.tolist() for column in columns), strict=True))
    expected = [plain(shape, case) for case in cases]
    assert in_numpy(shape, cases) == expected
    assert in_logic(shape, cases) == expected
    assert 0.1 < np.mean([fires for _, fires in expected]) < 0.9


def test_sums_wrap() -> None:
    assert wrap(np.array([511, 512, -512, -513, 1023, 1024]), 10).tolist() == [
        511, -512, -512, 511, -1, 0,
    ]  # fmt: skip


def test_repeated_spikes_of_an_input_add_up_and_wrap() -> None:
    network = SpikingNetwork(1, [1], [0], [100], threshold=127, inputs=1)  # type: ignore[arg-type]
    assert add_weights(network, SMALL, np.array([0, 3])).tolist() == [300]
    assert add_weights(network, SMALL, np.array([0, 6])).tolist() == [600 - 1024]


def test_a_spike_counts_in_the_next_tick() -> None:
    network = SpikingNetwork(
        2,
        [0, 2],
        [1, 0],
        [7, 9],
        threshold=[9, 7],
        inputs=1,  # type: ignore[arg-type]
    )
    spikes, potential = simulate(network, SMALL, 4, [[], [0]])
    assert spikes.tolist() == [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert potential.tolist() == [0, 0]


def test_simulation_does_not_change_the_network() -> None:
    network = SpikingNetwork(1, [], [], [], threshold=5, bias=3)  # type: ignore[arg-type]
    first = simulate(network, replace(SMALL), 3)
    assert np.array_equal(first[0], simulate(network, SMALL, 3)[0])
    assert network.potential.tolist() == [0]
