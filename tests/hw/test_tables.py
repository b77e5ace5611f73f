"""Tables for the cores: every synapse is found again, and errors name what does not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hw.core.network import SpikingNetwork
from hw.core.sharing import SynapseRows, share_lists
from hw.errors import HwError
from hw.tables import ChipTables, make_tables
from tests.hw.networks import TINY, random_network

SHAPE = replace(TINY, x_bits=2, y_bits=2)
ROOMY = replace(SHAPE, neurons=64, axons=256, routes=512, synapses=512, sum_bits=12)


def synapses_of(tables: ChipTables) -> list[tuple[int, int, int, int]]:
    """Return (source, target, weight, delay) of every synapse, following each packet."""
    found = []
    neurons = tables.neurons
    sent = [
        (int(neuron), tuple(route))
        for core in tables.cores
        for neuron, (a, b) in zip(core.neurons, pairwise(core.route_indptr), strict=True)
        for route in core.routes[a:b].tolist()
    ]
    for number, packets in enumerate(tables.input_packets):
        sent += [(neurons + number, packet) for packet in packets]
    assert len(sent) == len(set(sent))
    places = [(source, x, y) for source, (x, y, _) in sent]
    assert len(places) == len(set(places)), "two packets of a source to one core"
    for source, (x, y, axon) in sent:
        core = tables.cores[y * tables.width + x]
        assert core.axons[axon] == source
        first, count, base = core.lists[axon].tolist()
        assert count > 0, "a packet for nothing"
        for n, weight, delay in core.synapses[first : first + count].tolist():
            target = (base + n) % tables.shape.neurons
            found.append((source, int(core.neurons[target]), weight, delay))
    assert sum(core.axons.size for core in tables.cores) == len(sent), "an axon without packets"
    return sorted(found)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 4), st.integers(1, 4))
def test_every_synapse_is_reached_by_one_packet(seed: int, n: int, width: int, height: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(
        rng, n, int(rng.integers(0, 4 * n)), ROOMY, inputs=int(rng.integers(3))
    )
    core = rng.integers(0, width * height, n)
    tables = make_tables(network, core, width, height, ROOMY)
    columns = (network.source, network.target, network.weight, network.delay)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    assert synapses_of(tables) == sorted(rows)
    for number, part in enumerate(tables.cores):
        assert part.neurons.tolist() == np.flatnonzero(core == number).tolist()
        assert part.states[:, 1].tolist() == network.potential[part.neurons].tolist()
        assert part.parameters[:, 1].tolist() == network.threshold[part.neurons].tolist()
        dynamics = network.dynamics(ROOMY)[part.neurons]
        assert part.profiles[part.parameters[:, 0]].tolist() == dynamics.tolist()


def star(leaves: int) -> SpikingNetwork:
    """Return a network in which neuron 0 has a synapse on each other neuron."""
    ends = np.arange(1, leaves + 1)
    return SpikingNetwork(
        leaves + 1, np.zeros(leaves, int), ends, np.ones(leaves, int), threshold=2
    )


def test_equal_lists_are_stored_once() -> None:
    """Lists with offsets 0, 4, 5 and 0, 6, 7, twice each: six words, whatever their hashes."""
    lists = [(0, 4, 5), (0, 6, 7), (8, 12, 13), (8, 14, 15)]
    source = np.repeat(np.arange(4), 3)
    core = np.zeros(4, np.int64)
    none = np.zeros(source.size, np.int64)
    found = share_lists(core, SynapseRows(source, np.ravel(lists), none + 2, none), 1)
    assert found.heads.tolist() == [[0, 3, 0], [3, 3, 0], [0, 3, 8], [3, 3, 8]]
    assert found.words[:, 0].tolist() == [0, 4, 5, 0, 6, 7]


def test_by_hand() -> None:
    """Three neurons on cores 2, 0, 2 of a 2x2 chip; one of two inputs is used.

    Lists hold neurons relative to the smallest; the list of input 4 begins at neuron 1.
    """
    network = SpikingNetwork(
        3, [0, 0, 0, 4, 2, 0], [1, 2, 0, 2, 1, 2], [5, -6, 7, 8, 9, 10], threshold=3, inputs=2,
        potential_bias=[1, 2, 3],
    )  # type: ignore[arg-type]  # fmt: skip
    tables = make_tables(network, np.array([2, 0, 2]), 2, 2, SHAPE)
    first, empty, third = tables.cores[0], tables.cores[1], tables.cores[2]
    assert first.neurons.tolist() == [1]
    assert first.axons.tolist() == [0, 2]
    assert first.synapses.tolist() == [[0, 5, 0], [0, 9, 0]]
    assert first.routes.tolist() == []
    assert third.neurons.tolist() == [0, 2]
    assert third.parameters[:, 4].tolist() == [1, 3]
    assert third.routes.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert third.route_indptr.tolist() == [0, 2, 3]
    assert third.axons.tolist() == [0, 4]
    assert third.synapses.tolist() == [[0, 7, 0], [1, -6, 0], [1, 10, 0], [0, 8, 0]]
    assert third.lists.tolist() == [[0, 3, 0], [3, 1, 1]]
    assert (empty.used, empty.axons.size, empty.synapses.size) == (0, 0, 0)
    assert tables.input_packets == ((), ((0, 1, 1),))


@pytest.mark.parametrize(
    ("network", "core", "message"),
    [
        (star(8), np.zeros(9, int) + 5, "core 5 (x 1, y 1): its memory for neurons holds 8 but "
         "needs 9, 1 too many; use cores with more neurons"),
        (star(31), np.arange(32) // 8 % 2, "memory for neurons holds 8 but needs 16, 8 too "
         "many; 2 cores exceed it"),
        (SpikingNetwork(1, np.repeat(np.arange(1, 18), 1), np.zeros(17, int), np.ones(17, int),
                        threshold=1, inputs=17), np.array([3]),
         "core 3 (x 3, y 0): its memory for axons holds 16 but needs 17, 1 too many"),
        (SpikingNetwork(8, np.zeros(65, int), np.arange(65) % 8, np.ones(65, int), threshold=1),
         np.full(8, 7), "core 7 (x 3, y 1): its memory for synapses holds 64 but needs 65"),
    ],
)  # fmt: skip
def test_memories_too_small(network: SpikingNetwork, core: Any, message: str) -> None:
    with pytest.raises(HwError) as error:
        make_tables(network, core, 4, 2, SHAPE)
    assert message in str(error.value)


def test_too_many_routes() -> None:
    """Six neurons on core 0, each with a synapse in six other cores: 36 routes."""
    source = np.repeat(np.arange(6), 6)
    network = SpikingNetwork(12, source, 6 + np.arange(36) % 6, np.ones(36, int), threshold=9)
    core = np.r_[np.zeros(6, int), 1 + np.arange(6)]
    with pytest.raises(HwError, match=r"core 0 .*memory for routes holds 32 but needs 36, 4"):
        make_tables(network, core, 4, 2, SHAPE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": [16, 1]}, "weight 16 of the synapse from 0 to 1 is outside -16..15, the 5-bit"),
        ({"weight": [1, -17]}, "weight -17 of the synapse from 1 to 0 is outside -16..15"),
        ({"threshold": [5, 128]}, "threshold 128 of neuron 1 is outside -128..127"),
        ({"potential_bias": -129}, "potential_bias -129 of neuron 0 is outside -128..127, the "
         "8-bit states of a core (2 such)"),
        ({"potential": [0, 200]}, "potential 200 of neuron 1 is outside"),
        ({"current_decay": 17}, "current_decay 17 of neuron 0 is outside 0..16, the decays with 4"),
        ({"shift": [0, 4]}, "shift 4 of neuron 1 is outside 0..3, the 2-bit shifts"),
        ({"waits": 4}, "waits 4 of neuron 0 is outside 0..3, the 2-bit refractory ticks"),
        ({"delay": [0, 3]}, "delay 3 of the synapse from 1 to 0 is outside 0..2, the delays of a "
         "core with 4 delay slots"),
        ({"subtract": 2}, "subtract 2 of neuron 0 is outside 0..1"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"weight": [1, 1], "threshold": 5, **changes}
    network = SpikingNetwork(2, [0, 1], [1, 0], **fields)  # type: ignore[arg-type]
    with pytest.raises(HwError) as error:
        make_tables(network, np.zeros(2, int), 1, 1, SHAPE)
    assert message in str(error.value)


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_that_could_wrap(sign: int) -> None:
    """18 weights of -15 sum to -270, beyond nine bits; weights of the other sign do not help."""
    weights = np.r_[np.full(18, -15 * sign), np.full(5, 15 * sign)]
    network = SpikingNetwork(1, np.zeros(23, int), np.zeros(23, int), weights, threshold=1)
    end = "-256" if sign == 1 else "255"
    with pytest.raises(HwError, match=f"neuron 0 add up to {-270 * sign} at worst, beyond {end}"):
        network.require_fit(SHAPE)
    network.require_fit(replace(SHAPE, sum_bits=10))


def test_sums_at_their_ends() -> None:
    for weights in ([-16] * 16, [15] * 17):  # -256 and 255
        zeros = np.zeros(len(weights), int)
        network = SpikingNetwork(1, zeros, zeros, np.array(weights), threshold=1)
        network.require_fit(SHAPE)
        with pytest.raises(HwError, match="add up to"):
            network.require_fit(replace(SHAPE, sum_bits=SHAPE.sum_bits - 1))


@pytest.mark.parametrize(
    ("core", "message"),
    [
        ([0, 8], "neuron 1 is on core 8; a 4x2 chip has cores 0..7"),
        ([-1, 0], "neuron 0 is on core -1"),
        ([0], "int64 of shape (1,); give one core id for each of the 2 neurons"),
        ([0.0, 1.0], "float64 of shape (2,)"),
    ],
)
def test_invalid_mappings(core: list[Any], message: str) -> None:
    network = SpikingNetwork(2, [0], [1], [1], threshold=5)  # type: ignore[arg-type]
    with pytest.raises(HwError) as error:
        make_tables(network, np.array(core), 4, 2, SHAPE)
    assert message in str(error.value)


def test_chips_too_large_for_packets() -> None:
    with pytest.raises(HwError, match="width 5 does not fit in packets with 2 bits for it"):
        make_tables(star(1), np.zeros(2, int), 5, 2, SHAPE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, [], [], [], 1), "network: neurons is 0"),
        ((2, [0, 1], [1], [1], 1), "(2,) sources, (1,) targets, (1,) weights"),
        ((2, [2], [1], [1], 1), "source of synapse 0 is 2; give ids from 0 to 1"),
        ((2, [0], [-1], [1], 1), "target of synapse 0 is -1; give ids from 0 to 1"),
        ((2, [0], [1], [0.5], 1), "weight are float64; cores compute with whole numbers"),
        ((2, [0], [1], [1], [1, 2, 3]), "threshold has shape (3,)"),
    ],
)
def test_invalid_networks(arguments: Any, message: str) -> None:
    with pytest.raises(HwError) as error:
        SpikingNetwork(*arguments)
    assert message in str(error.value)
