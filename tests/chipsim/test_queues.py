"""Cycles in which queues are emptied, by hand; `test_latency.py` has the reference."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.protocols import FloatArray
from chipsim.traffic.queues import TickQueues, queue_cycles
from chipsim.traffic.turns import EAST, LOCAL

ROW = Chip("row", 4, 1)


def queues(flits: dict[tuple[int, int, int], float], work: list[float]) -> TickQueues:
    """Return the queues of a row of routers.

    flits : by input, output and router; work : cycles of each core for the packets it receives
    """
    legs: FloatArray = np.zeros((5, 5, 1, 4))
    for (source, output, x), n in flits.items():
        legs[source, output, 0, x] = n
    taken = legs[:, LOCAL, 0].sum(axis=0)
    return TickQueues(legs, legs.sum(axis=1), np.ones((5, 1, 4)), taken, np.array(work, np.float64))


def test_two_inputs_of_a_link() -> None:
    """Cores 0 and 1 send 8 packets each to core 2, in 16 cycles: half a flit per cycle and input.

    A waiting head of one input waits for q = 1/2 (q + 1/2) heads of the other: q = 1/2. So the
    inputs of router 1 are busy for 8 (1 + 1/2) cycles; the input of router 2 for 16.
    """
    meet = queues({(LOCAL, EAST, 0): 8, (EAST, EAST, 1): 8, (LOCAL, EAST, 1): 8}, [0] * 4)
    assert queue_cycles(ROW, meet, 16) == pytest.approx(8 * (1 + 1 / 2 * (1 / 2 + 1 / 2)))
    ends = queues({(LOCAL, EAST, 1): 16, (EAST, LOCAL, 2): 16}, [0, 0, 16, 0])
    assert queue_cycles(ROW, ends, 16) == pytest.approx(16)


def test_a_slow_core_holds_up_its_packets() -> None:
    """A core with 3 cycles per packet is busy for 24; so is each buffer on the way to it."""
    slow = queues({(LOCAL, EAST, 0): 8, (EAST, EAST, 1): 8, (EAST, LOCAL, 2): 8}, [0, 0, 24, 0])
    assert queue_cycles(ROW, slow, 24) == pytest.approx(24)
    # Half as busy, its buffer is full for 1/8 of the time: the head waits 2/8 cycles.
    assert queue_cycles(ROW, slow, 48) == pytest.approx(8 * (1 + 2 / 8))


def test_packets_behind_those_to_a_slow_core_wait_for_it() -> None:
    """The last input has packets for a slow core and for the core after it, in one queue."""
    flits = {(LOCAL, EAST, 0): 16, (EAST, EAST, 1): 16, (EAST, LOCAL, 2): 8, (EAST, EAST, 2): 8,
             (EAST, LOCAL, 3): 8}  # fmt: skip
    found = queue_cycles(ROW, queues(flits, [0, 0, 24, 8]), 24)
    assert found == pytest.approx(8 + 8 * (1 + 2 * (24 / found) ** 3))
    assert 24 < found < 32


def test_nothing_waits_without_load() -> None:
    few = queues({(LOCAL, EAST, 0): 2, (EAST, LOCAL, 1): 2}, [0, 2, 0, 0])
    assert queue_cycles(ROW, few, 1e6) == pytest.approx(2)
