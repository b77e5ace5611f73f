"""Memory contents of all cores, built from a network and a core for every neuron.

Neurons of a core are numbered in the order of their ids, and so are the axons that reach it: one
axon per source (neuron or input) with a synapse in the core. A neuron has one route to every core
that it has synapses in, including its own. An input has the same routes, but in no core: the host
sends its packets (`ChipTables.input_packets`). Synapse lists of a core that are equal relative to
their first neuron are stored once (hw/cuba/sharing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.cuba.network import DYNAMICS, VALUES, Int64Array, SpikingNetwork
from hw.cuba.shape import CoreShape, DestinationTable
from hw.cuba.sharing import SynapseRows, share_lists
from hw.errors import HwError, check_count

Packed = tuple[int, int, int]  # x, y, axon of a packet
COLUMNS = {
    DestinationTable.NEURONS: ("profile", *VALUES),
    DestinationTable.STATES: ("current", "potential", "waits"),
    DestinationTable.FANOUTS: ("first", "count"),
    DestinationTable.ROUTES: ("x", "y", "axon"),
    DestinationTable.AXONS: ("first", "count", "base"),
    DestinationTable.SYNAPSES: ("neuron", "weight", "delay"),
    DestinationTable.PROFILES: DYNAMICS,
}
"""Fields of the words of each memory, in the order of the columns of `CoreTables.rows`."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreTables:
    """The tables of one core.

    neurons : ids in the network of the neurons, by their number in the core, shape (used,)
    profiles : the `DYNAMICS` that occur, in ascending order, shape (profiles, 6)
    parameters : profile and `VALUES` of each neuron, shape (used, 5)
    states : current, potential and refractory ticks before the first tick, shape (used, 3)
    route_indptr : routes of neuron i are rows route_indptr[i] .. route_indptr[i+1]-1 of `routes`
    routes : x, y, axon, shape (routes, 3)
    axons : ids in the network of the sources, by axon, shape (axons,)
    lists : first synapse, number of synapses, and base of each axon, shape (axons, 3)
    synapses : neuron minus base, weight, delay, shape (words, 3)

    All are ndarray[int64].
    """

    neurons: Int64Array
    profiles: Int64Array
    parameters: Int64Array
    states: Int64Array
    route_indptr: Int64Array
    routes: Int64Array
    axons: Int64Array
    lists: Int64Array
    synapses: Int64Array

    @property
    def used(self) -> int:
        """Number of neurons in the core."""
        return self.neurons.size

    def rows(self, table: DestinationTable) -> Int64Array:
        """Return the words of a memory, from address 0 on, with the fields of `COLUMNS`."""
        if table == DestinationTable.FANOUTS:
            count = np.diff(self.route_indptr)
            return np.column_stack([np.where(count > 0, self.route_indptr[:-1], 0), count])
        return {
            DestinationTable.NEURONS: self.parameters,
            DestinationTable.STATES: self.states,
            DestinationTable.ROUTES: self.routes,
            DestinationTable.AXONS: self.lists,
            DestinationTable.SYNAPSES: self.synapses,
            DestinationTable.PROFILES: self.profiles,
        }[table]

    def words(self, table: DestinationTable) -> list[Any]:
        """Return the words of a memory, from address 0 on, in Amaranth's form."""
        names = COLUMNS[table]
        return [dict(zip(names, row, strict=True)) for row in self.rows(table).tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class ChipTables:
    """The tables of all cores of a chip, by core id, and the packets of the inputs."""

    width: int
    height: int
    shape: CoreShape
    cores: tuple[CoreTables, ...]
    input_packets: tuple[tuple[Packed, ...], ...]

    @property
    def neurons(self) -> int:
        """Number of neurons of the network."""
        return sum(core.used for core in self.cores)


def make_tables(
    network: SpikingNetwork,
    core: NDArray[np.integer],
    width: int,
    height: int,
    shape: CoreShape,
    watched: Sequence[int] = (),
) -> ChipTables:
    """Return tables for the width x height cores of a chip.

    core : ndarray of integers, shape (neurons,), core id (y * width + x) of every neuron
    watched : neurons whose spikes also go to the host, without repeats: as packets to column 0 of
        the row below the last, with the index in this list as axon; the port is
        `hw.chip.Borders.output`

    Raises `HwError` if a number of the network does not fit in the words of the cores, if a core id
    does not exist, or if a core's memory is too small; the message names core, memory and shortage.
    """
    count = check_count("chip: width", width) * check_count("chip: height", height)
    rows = height + bool(len(watched))
    for name, side, bits in (("width", width, shape.x_bits), ("height", rows, shape.y_bits)):
        if side > 1 << bits:
            raise HwError(f"chip: {name} {side} does not fit in packets with {bits} bits for it")
    network.require_fit(shape)
    place = _checked_cores(np.asarray(core), network.neurons, width, height)
    order, first = _grouped(place, count)  # neurons by core
    local = np.empty(network.neurons, np.int64)
    local[order] = np.arange(network.neurons) - first[place[order]]

    # An axon is a (core, source) pair.
    sources = network.neurons + network.inputs
    pair = place[network.target] * sources + network.source
    axon, axon_of = np.unique(pair, return_inverse=True)
    axon_core, axon_source = axon // sources, axon % sources
    axon_first = np.searchsorted(axon_core, np.arange(count + 1))
    axon_number = np.arange(axon.size) - axon_first[axon_core]
    lists = share_lists(
        axon_core,
        SynapseRows(axon_of, local[network.target], network.weight, network.delay),
        count,
    )

    # A route is the same pair, ordered by source, then by core.
    by_source = np.argsort(axon_source, kind="stable")
    routes = np.column_stack([axon_core % width, axon_core // width, axon_number])[by_source]
    route_source = axon_source[by_source]
    if len(watched):
        seen = _watched(watched, network.neurons, shape)
        to_host = np.column_stack([0 * seen, 0 * seen + height, np.arange(seen.size)])
        by_source = np.argsort(np.r_[route_source, seen], kind="stable")
        routes = np.concatenate([routes, to_host])[by_source]
        route_source = np.r_[route_source, seen][by_source]
    route_first = np.searchsorted(route_source, np.arange(sources + 1))

    dynamics = network.dynamics(shape)
    values = np.column_stack([getattr(network, name) for name in VALUES])
    states = np.column_stack([network.current, network.potential, network.waits])
    tables = []
    for c in range(count):
        neurons = order[first[c] : first[c + 1]]
        sent = [routes[route_first[n] : route_first[n + 1]] for n in neurons]
        profiles, profile = np.unique(dynamics[neurons], axis=0, return_inverse=True)
        tables.append(
            CoreTables(
                neurons,
                profiles,
                np.column_stack([profile.reshape(-1), values[neurons]]),
                states[neurons],
                np.cumsum([0, *(len(part) for part in sent)]),
                np.concatenate([np.zeros((0, 3), np.int64), *sent]),
                axon_source[axon_first[c] : axon_first[c + 1]],
                lists.heads[axon_first[c] : axon_first[c + 1]],
                lists.words[lists.first[c] : lists.first[c + 1]],
            )
        )
    _require_room(tables, width, shape)
    packets = tuple(
        tuple((x, y, axon) for x, y, axon in routes[a:b].tolist())
        for a, b in pairwise(route_first[network.neurons :])
    )
    return ChipTables(width, height, shape, tuple(tables), packets)


def _checked_cores(core: NDArray[np.integer], neurons: int, width: int, height: int) -> Int64Array:
    """Return the core of each neuron; raise `HwError` for a wrong shape, type or core id."""
    if core.shape != (neurons,) or not np.issubdtype(core.dtype, np.integer):
        raise HwError(
            f"mapping: {core.dtype} of shape {core.shape}; give one core id for each of the "
            f"{neurons} neurons"
        )
    place = core.astype(np.int64)
    wrong = np.flatnonzero((place < 0) | (place >= width * height))
    if wrong.size:
        raise HwError(
            f"mapping: neuron {wrong[0]} is on core {place[wrong[0]]}; a {width}x{height} chip "
            f"has cores 0..{width * height - 1}"
        )
    return place


def _watched(watched: Sequence[int], neurons: int, shape: CoreShape) -> Int64Array:
    """Return the neurons as an array; raise `HwError` for unknown, repeated or too many neurons."""
    seen = np.array(watched, np.int64)
    wrong = seen[(seen < 0) | (seen >= neurons)]
    if wrong.size:
        raise HwError(f"watched: there is no neuron {wrong[0]}; the network has {neurons}")
    if np.unique(seen).size < seen.size:
        raise HwError("watched: a neuron is listed twice; give each once")
    if seen.size > shape.axons:
        raise HwError(
            f"watched: {seen.size} neurons, but packets have only {shape.axons} axons; watch fewer"
        )
    return seen


def _grouped(core: Int64Array, count: int) -> tuple[Int64Array, Int64Array]:
    """Return the neurons ordered by core, then by id, and the start of each core."""
    order = np.argsort(core, kind="stable")
    return order, np.searchsorted(core[order], np.arange(count + 1))


def _require_room(tables: list[CoreTables], width: int, shape: CoreShape) -> None:
    """Raise `HwError` naming the memory and the core with the largest shortage."""
    for name in ("neurons", "axons", "routes", "synapses", "profiles"):
        room = getattr(shape, name)
        needs = np.array([len(getattr(core, name)) for core in tables])
        worst = int(needs.argmax())
        if needs[worst] <= room:
            continue
        over = int((needs > room).sum())
        more = f"; {over} cores exceed it" if over > 1 else ""
        raise HwError(
            f"core {worst} (x {worst % width}, y {worst // width}): its memory for {name} holds "
            f"{room} but needs {needs[worst]}, {needs[worst] - room} too many{more}; use "
            f"cores with more {name}, or a mapping onto more cores"
        )
