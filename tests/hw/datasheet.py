"""A chip loaded as docs/core.md describes it, without the code of `hw` that builds tables.

Numbers within a core, lists and routes are in another order than `hw.tables` has them; the data
sheet allows any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from hw.core.network import SpikingNetwork

Triple = tuple[int, int, int]

USED, NEURONS, STATES, FANOUTS, ROUTES, AXONS, SYNAPSES, PROFILES, SUMS = range(9)
INDEXED = ("neurons", "axons", "routes", "synapses", "profiles", "delay_slots")
KINDS = ("current_decay", "shift", "refractory", "subtract", "silent")
VALUES = ("threshold", "reset", "current_bias", "potential_bias")
STATE = ("current", "potential", "waits")


class Memories(NamedTuple):
    """Words of a core: lists of numbers by memory.

    neurons : ids in the network, by number in the core
    """

    neurons: list[int]
    parameters: list[tuple[int, ...]]
    states: list[tuple[int, ...]]
    fanouts: list[tuple[int, int]]
    routes: list[Triple]
    axons: list[Triple]
    synapses: list[Triple]
    profiles: list[tuple[int, ...]]


class LoadedChip(NamedTuple):
    """Memories of all cores, and the packets of each input: x, y, axon."""

    cores: list[Memories]
    inputs: list[list[Triple]]


def loaded(
    network: SpikingNetwork, core: list[int], width: int, height: int, shape: dict[str, int],
    watched: list[int],
) -> LoadedChip:  # fmt: skip
    """Return the memories for a network.

    core : core of each neuron; shape : sizes of a core; watched : neurons that the host receives
    """
    cores = range(width * height)
    kept = network.potential_decay
    if kept is None:
        kept = np.full(network.neurons, 1 << shape["decay_bits"])
    lists: dict[tuple[int, int], list[Triple]] = defaultdict(list)
    owned = [[n for n in range(network.neurons) if core[n] == c][::-1] for c in cores]
    local = {n: i for own in owned for i, n in enumerate(own)}
    for source, target, weight, delay in zip(
        *(getattr(network, name).tolist() for name in ("source", "target", "weight", "delay")),
        strict=True,
    ):
        lists[core[target], source].append((local[target], weight, delay))
    routes: dict[int, list[Triple]] = defaultdict(list)
    for axon, neuron in enumerate(watched):
        routes[neuron].append((0, height, axon))
    listed = [_axons(c, lists, routes, width, shape["neurons"]) for c in cores]
    found = []
    for own, (axons, synapses) in zip(owned, listed, strict=True):
        fanouts, sent = [], []
        kinds: list[tuple[int, ...]] = []
        parameters = []
        for n in own:
            fanouts.append((len(sent) if routes[n] else 0, len(routes[n])))
            sent += routes[n]
            values = {name: int(getattr(network, name)[n]) for name in (*KINDS, *VALUES)}
            kind = (values[KINDS[0]], int(kept[n]),
                    *(values[name] for name in KINDS[1:]))  # fmt: skip
            if kind not in kinds:
                kinds.append(kind)
            parameters.append((kinds.index(kind), *(values[name] for name in VALUES)))
        states = [tuple(int(getattr(network, name)[n]) for name in STATE) for n in own]
        found.append(Memories(own, parameters, states, fanouts, sent, axons, synapses, kinds))
    return LoadedChip(found, [routes[network.neurons + i] for i in range(network.inputs)])


def _axons(
    core: int, lists: dict[tuple[int, int], list[Triple]], routes: dict[int, list[Triple]],
    width: int, neurons: int,
) -> tuple[list[Triple], list[Triple]]:  # fmt: skip
    """Return the axons and synapses of a core, and add the routes to them."""
    axons: list[Triple] = []
    synapses: list[Triple] = []
    starts: dict[tuple[Triple, ...], int] = {}
    for (there, source), entries in sorted(lists.items(), reverse=True):
        if there != core:
            continue
        base = entries[0][0]
        relative = tuple(((neuron - base) % neurons, *rest) for neuron, *rest in entries)
        if relative not in starts:
            starts[relative] = len(synapses)
            synapses += relative
        routes[source].append((core % width, core // width, len(axons)))
        axons.append((starts[relative], len(relative), base))
    return axons, synapses


class Packer:
    """Words of the ports.

    shape : sizes of a core
    nodes : cores of the chip
    """

    def __init__(self, shape: dict[str, int], nodes: int) -> None:
        self.shape, self.nodes = shape, nodes
        at = {name: log2(shape[name]) for name in INDEXED}
        state, decay, waits = shape["state_bits"], shape["decay_bits"] + 1, shape["refractory_bits"]
        self.layouts = {
            USED: (at["neurons"] + 1,),
            NEURONS: (at["profiles"], state, state, state, state),
            STATES: (state, state, waits),
            FANOUTS: (at["routes"], at["routes"] + 1),
            ROUTES: (shape["x_bits"], shape["y_bits"], at["axons"]),
            AXONS: (at["synapses"], at["synapses"] + 1, at["neurons"]),
            SYNAPSES: (at["neurons"], shape["weight_bits"], at["delay_slots"]),
            PROFILES: (decay, decay, shape["shift_bits"], waits, 1, 1),
            SUMS: (shape["sum_bits"],),
        }
        self._address_bits = max(at["delay_slots"] + at["neurons"], *at.values())
        self._data_bits = max(map(sum, self.layouts.values()))

    def load(self, chip: LoadedChip) -> Iterator[int]:
        """Yield the words for `load`."""
        depth, slots = self.shape["neurons"], self.shape["delay_slots"]
        node_bits = max(1, (self.nodes - 1).bit_length())
        for node, core in enumerate(chip.cores):
            used = len(core.neurons)
            words: dict[int, list[tuple[int, tuple[int, ...]]]] = {
                NEURONS: [*enumerate(core.parameters)],
                STATES: [*enumerate(core.states)],
                FANOUTS: [*enumerate(core.fanouts)],
                ROUTES: [*enumerate(core.routes)],
                AXONS: [*enumerate(core.axons)],
                SYNAPSES: [*enumerate(core.synapses)],
                PROFILES: [*enumerate(core.profiles)],
                SUMS: [(slot * depth + n, (0,)) for slot in range(slots) for n in range(used)],
                USED: [(0, (used,))],
            }
            for table, rows in words.items():
                for address, numbers in rows:
                    data = packed(numbers, self.layouts[table])
                    yield packed(
                        (node, table, address, data),
                        (node_bits, 4, self._address_bits, self._data_bits),
                    )


def log2(depth: int) -> int:
    return depth.bit_length() - 1


def packed(numbers: Sequence[int], widths: Sequence[int]) -> int:
    """Return numbers in one word, the first from bit 0, in two's complement."""
    found = at = 0
    for number, bits in zip(numbers, widths, strict=True):
        assert -(1 << bits) <= 2 * number < 2 << bits, "a number does not fit in its field"
        found |= (number & ((1 << bits) - 1)) << at
        at += bits
    return found


def unpacked(word: int, widths: Sequence[int]) -> list[int]:
    """Return the numbers of a word, without signs."""
    found = []
    for bits in widths:
        found.append(word & ((1 << bits) - 1))
        word >>= bits
    assert word == 0, "a word has more bits than its fields"
    return found
