"""Runs of one core against the reference arithmetic; the bench acts as the network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.core.arithmetic import simulate
from hw.tables import ChipTables, make_tables
from tests.hw.core_bench import Packet
from tests.hw.networks import TINY, random_inputs, random_network

WIDTH, HEIGHT, TICKS = 3, 1, 12


def packets_of(tables: ChipTables, spikes: NDArray[np.bool_]) -> list[tuple[int, Packet]]:
    """Return (sending core, packet) of the neurons that spike in a tick, in sending order."""
    found = []
    for number, core in enumerate(tables.cores):
        for local, neuron in enumerate(core.neurons):
            if spikes[neuron]:
                rows = core.routes[core.route_indptr[local] : core.route_indptr[local + 1]]
                found += [(number, (x, y, axon)) for x, y, axon in rows.tolist()]
    return found


def check_core(bench: Any, seed: int) -> None:
    """Assert that a core computes its part of a random network; bench : a `CoreBench` of TINY."""
    rng = np.random.default_rng([7, seed])
    neurons = int(rng.integers(1, 17))
    network = random_network(rng, neurons, int(rng.integers(0, 50)), TINY)
    if seed % 2:  # so active that spikes have to wait
        bias = np.minimum(np.abs(network.potential_bias) + 20, 127)
        network = replace(network, potential_bias=bias)
    number = int(rng.integers(0, WIDTH))  # the core that is built; the bench acts as all others
    mapping = (number + rng.permutation(neurons) // 8) % WIDTH
    tables = make_tables(network, mapping, WIDTH, HEIGHT, TINY)
    inputs = random_inputs(rng, network, TICKS)
    spikes, states = simulate(network, TINY, TICKS, inputs)

    core, place = tables.cores[number], (number, 0)
    sent: list[list[Packet]] = [[]]
    arrivals = []
    for tick in range(TICKS + 1):  # up to the arrivals before tick 0, while it lasts, ...
        packets = packets_of(tables, spikes[tick - 1]) if tick else []
        others = [packet for sender, packet in packets if sender != number]
        told = inputs[tick] if tick < TICKS else []
        others += [packet for one in told for packet in tables.input_packets[one]]
        arrivals.append([axon for x, y, axon in others if (x, y) == place])
        if tick:
            sent.append([packet for sender, packet in packets if sender == number])
    patience = float(rng.choice([0.2, 0.6, 1.0]))
    observed = bench.run(core, place, arrivals, rng, patience, again=seed % 3 == 0)

    fired = [np.flatnonzero(row[core.neurons]).tolist() for row in spikes]
    assert observed.fired == [[], *fired]
    assert observed.sent == sent
    assert observed.states == np.column_stack(states)[core.neurons].tolist()
