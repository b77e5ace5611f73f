"""A tick of a neuron: by hand, in plain Python, in numpy, and in logic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from amaranth.sim import Simulator

from hw.core.arithmetic import DelayedSums, NeuronStates, simulate, update
from hw.core.network import DYNAMICS, STATE, VALUES, SpikingNetwork
from hw.core.neuron import STAGES, NeuronUpdate
from hw.core.shape import CoreShape
from hw.integers import wrap

SMALL = CoreShape(
    state_bits=8, decay_bits=4, sum_bits=10, weight_bits=8, shift_bits=2, refractory_bits=3
)


class Case(NamedTuple):
    """A neuron before a tick, and the sum of its weights; by default it keeps its potential."""

    potential: int = 0
    total: int = 0
    threshold: int = 100
    current: int = 0
    waits: int = 0
    reset: int = 0
    current_bias: int = 0
    potential_bias: int = 0
    current_decay: int = 0
    potential_decay: int = 16
    shift: int = 0
    refractory: int = 0
    subtract: int = 0
    silent: int = 0


Result = tuple[int, int, int, bool]
"""Current, potential and refractory ticks after the tick, and whether the neuron spikes."""

BY_HAND: dict[str, tuple[Case, Result]] = {
    "keeps its potential": (Case(50), (0, 50, 0, False)),
    "adds the sum": (Case(50, 20), (20, 70, 0, False)),
    "adds its biases": (Case(50, 20, current_bias=3, potential_bias=-5), (23, 68, 0, False)),
    "spikes at the threshold": (Case(50, 50), (50, 0, 0, True)),
    "does not spike below it": (Case(50, 49), (49, 99, 0, False)),
    "resets to a value": (Case(50, 60, reset=-7), (60, -7, 0, True)),
    "keeps the excess": (Case(50, 60, reset=-7, subtract=1), (60, 10, 0, True)),
    "decays before it adds": (Case(64, 10, potential_decay=12), (10, 58, 0, False)),
    "decays to nothing": (Case(77, 5, potential_decay=0), (5, 5, 0, False)),
    "rounds positive values down": (Case(3, potential_decay=15), (0, 2, 0, False)),
    "rounds negative values up": (Case(-3, potential_decay=15), (0, -2, 0, False)),
    "keeps the lowest potential": (Case(-128), (0, -128, 0, False)),
    "decays the lowest potential": (Case(-128, potential_decay=15), (0, -120, 0, False)),
    "keeps a part of its current": (Case(5, current=40, current_decay=8), (20, 25, 0, False)),
    "loses its current": (Case(5, current=40), (0, 5, 0, False)),
    "shifts the sum": (Case(5, 9, shift=3), (72, 77, 0, False)),
    "shifts a negative sum": (Case(5, -9, shift=2), (-36, -31, 0, False)),
    "saturates its current": (Case(-100, 511, shift=3), (127, 27, 0, False)),
    "saturates at the maximum": (Case(120, 100, 127, subtract=1), (100, 0, 0, True)),
    "saturates at the minimum": (Case(-120, -100, 127), (-100, -128, 0, False)),
    "saturates once": (Case(120, 100, 127, potential_bias=-110), (100, 110, 0, False)),
    "sums are wider than states": (Case(-128, 511, 127), (127, -1, 0, False)),
    "spikes at threshold zero": (Case(0, 0, 0), (0, 0, 0, True)),
    "saturates when a negative threshold is subtracted": (
        Case(127, 0, -100, subtract=1), (0, 127, 0, True)
    ),
    "subtracts a negative threshold": (Case(-90, 0, -100, subtract=1), (0, 10, 0, True)),
    "begins to wait": (Case(50, 60, refractory=3), (60, 0, 3, True)),
    "waits at the reset value": (Case(50, 60, waits=2, reset=4), (60, 4, 1, False)),
    "waits for the last time": (Case(50, 60, waits=1, subtract=1), (60, 0, 0, False)),
    "decays its current while it waits": (
        Case(9, 1, current=32, current_decay=8, waits=5), (17, 0, 4, False)
    ),
    "never spikes": (Case(50, 70, silent=1, refractory=3), (70, 120, 0, False)),
}  # fmt: skip


def plain(shape: CoreShape, case: Case) -> Result:
    """Compute the rules of docs/core.md with Python's unbounded integers."""
    most = 2 ** (shape.state_bits - 1) - 1

    def fit(value: int) -> int:
        return max(-most - 1, min(most, value))

    def decay(value: int, factor: int) -> int:
        size = abs(value) * factor // 2**shape.decay_bits
        return size if value > 0 else -size

    current = decay(case.current, case.current_decay) + case.total * 2**case.shift
    current = fit(current + case.current_bias)
    potential = decay(case.potential, case.potential_decay) + current + case.potential_bias
    potential = fit(potential)
    if case.waits:
        return current, case.reset, case.waits - 1, False
    if case.silent or potential < case.threshold:
        return current, potential, 0, False
    after = fit(potential - case.threshold) if case.subtract else case.reset
    return current, after, case.refractory, True


def in_numpy(shape: CoreShape, cases: list[Case]) -> list[Result]:
    none = np.zeros(0, np.int64)
    columns = {
        name: np.array(column)
        for name, column in zip(Case._fields, zip(*cases, strict=True), strict=True)
    }
    total = columns.pop("total")
    network = SpikingNetwork(len(cases), none, none, none, **columns)
    after, fires = update(network, shape, NeuronStates.of(network), total)
    return list(zip(*(each.tolist() for each in (*after, fires)), strict=True))


def in_logic(shape: CoreShape, cases: list[Case]) -> list[Result]:
    """Enter a case in every cycle in which the stages move.

    Its sum is a move later than its state, its profile two moves.
    """
    dut: Any = NeuronUpdate(shape)
    found: list[Result] = []
    rng = np.random.default_rng(1)

    async def bench(ctx: Any) -> None:
        entered = 0
        while len(found) < len(cases):
            now, before, earlier = (
                cases[min(max(entered - late, 0), len(cases) - 1)] for late in range(3)
            )
            ctx.set(dut.state, {name: getattr(now, name) for name in STATE})
            own = {name: getattr(now, name) for name in VALUES}
            ctx.set(dut.parameters, own | {"profile": entered % shape.profiles})
            ctx.set(dut.sum, before.total)
            ctx.set(dut.profile, {name: getattr(earlier, name) for name in DYNAMICS})
            moves = bool(rng.random() < 0.8)
            ctx.set(dut.moves, moves)
            if entered:
                assert ctx.get(dut.number) == (entered - 1) % shape.profiles
            if moves and entered >= STAGES:
                after = ctx.get(dut.after)
                found.append((*(after[name] for name in STATE), bool(ctx.get(dut.fires))))
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
        CoreShape(
            state_bits=3, decay_bits=1, sum_bits=7, weight_bits=7, shift_bits=1, refractory_bits=1
        ),
        CoreShape(
            state_bits=32, decay_bits=16, sum_bits=40, weight_bits=32, shift_bits=4,
            refractory_bits=16,
        ),
        CoreShape(state_bits=24, sum_bits=8, weight_bits=8, shift_bits=5),
    ],
)  # fmt: skip
def test_any_numbers(shape: CoreShape) -> None:
    rng = np.random.default_rng(4)
    size = 400
    ends = dict.fromkeys((*VALUES, "current", "potential"), 1 << shape.state_bits - 1)
    ends["total"] = 1 << (shape.sum_bits - 1)
    columns = {
        name: np.where(
            rng.random(size) < 0.2, rng.choice([-end, end - 1], size), rng.integers(-end, end, size)
        )
        >> rng.choice([0, 0, 2], size)
        for name, end in ends.items()
    }
    highest = {
        "current_decay": shape.unity, "potential_decay": shape.unity,
        "shift": (1 << shape.shift_bits) - 1, "refractory": (1 << shape.refractory_bits) - 1,
        "subtract": 1,
    }  # fmt: skip
    for name, most in highest.items():
        columns[name] = np.where(
            rng.random(size) < 0.3, rng.choice([0, most], size), rng.integers(0, most + 1, size)
        )
    # Large sums only in half of the cases, so that others do not saturate.
    columns["total"] >>= rng.choice([0, shape.sum_bits // 2], size)
    waits = rng.integers(0, highest["refractory"] + 1, size)
    columns["waits"] = np.where(rng.random(size) < 0.2, waits, 0)
    columns["silent"] = rng.random(size) < 0.1
    columns = {name: columns[name].astype(np.int64).tolist() for name in Case._fields}
    cases = [Case(*row) for row in zip(*columns.values(), strict=True)]
    expected = [plain(shape, case) for case in cases]
    assert in_numpy(shape, cases) == expected
    assert in_logic(shape, cases) == expected
    assert 0.1 < np.mean([fires for *_, fires in expected]) < 0.9


def test_sums_wrap() -> None:
    assert wrap(np.array([511, 512, -512, -513, 1023, 1024]), 10).tolist() == [
        511, -512, -512, 511, -1, 0,
    ]  # fmt: skip


def test_repeated_spikes_of_an_input_add_up_and_wrap() -> None:
    network = SpikingNetwork(1, [1], [0], [100], threshold=127, inputs=1)  # type: ignore[arg-type]
    for times, total in ((3, 300), (6, 600 - 1024)):
        sums = DelayedSums(network, SMALL)
        sums.add(np.array([0, times]))
        assert sums.take().tolist() == [total]


def test_a_spike_counts_in_the_next_tick() -> None:
    network = SpikingNetwork(
        2,
        [0, 2],
        [1, 0],
        [7, 9],
        threshold=[9, 7],
        inputs=1,  # type: ignore[arg-type]
    )
    spikes, state = simulate(network, SMALL, 4, [[], [0]])
    assert spikes.tolist() == [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert state.potential.tolist() == [0, 0]


def test_a_delayed_spike_counts_later() -> None:
    """An input before tick 1, over synapses of delays 0 to 2, and from neuron 1 to neuron 3."""
    network = SpikingNetwork(
        4,
        [4, 4, 4, 1],
        [0, 1, 2, 3],
        [9] * 4,
        threshold=9,
        delay=[0, 1, 2, 1],
        inputs=1,  # type: ignore[arg-type]
    )
    spikes, _ = simulate(network, replace(SMALL, delay_slots=4), 6, [[], [0]])
    assert [np.flatnonzero(row).tolist() for row in spikes] == [[], [0], [1], [2], [3], []]


def test_simulation_does_not_change_the_network() -> None:
    network = SpikingNetwork(1, [], [], [], threshold=5, potential_bias=3)  # type: ignore[arg-type]
    first = simulate(network, SMALL, 3)
    assert np.array_equal(first[0], simulate(network, SMALL, 3)[0])
    assert network.potential.tolist() == [0]
