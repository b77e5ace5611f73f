"""Memory contents of all cores, built from a network and a core for every neuron.

Neurons, axons and routes are numbered as in hw/axons.py. Synapse lists of a core that are equal
relative to their first neuron are stored once (hw/core/sharing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.axons import Packed, map_axons, require_room
from hw.core.network import DYNAMICS, STATE, VALUES, SpikingNetwork
from hw.core.shape import CoreShape, DestinationTable
from hw.core.sharing import SynapseRows, share_lists
from hw.integers import Int64Array

COLUMNS = {
    "profiles": DYNAMICS,
    "parameters": ("profile", *VALUES),
    "states": STATE,
    "routes": ("x", "y", "axon"),
    "lists": ("first", "count", "base"),
    "synapses": ("neuron", "weight", "delay"),
}
"""Columns of the lists of a core's tables, named as the fields of its memories' words."""
_LISTS = {
    DestinationTable.NEURONS: "parameters",
    DestinationTable.STATES: "states",
    DestinationTable.PROFILES: "profiles",
    DestinationTable.ROUTES: "routes",
    DestinationTable.AXONS: "lists",
    DestinationTable.SYNAPSES: "synapses",
}


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

    def columns(self, table: DestinationTable) -> dict[str, Int64Array]:
        """Return the fields of the words of a memory, from address 0 on, each shape (words,)."""
        if table == DestinationTable.FANOUTS:
            count = np.diff(self.route_indptr)
            return {"first": self.route_indptr[:-1] * (count > 0), "count": count}
        name = _LISTS[table]
        return dict(zip(COLUMNS[name], getattr(self, name).T, strict=True))

    def rows(self, table: DestinationTable) -> list[Any]:
        """Return the words of a memory, from address 0 on, in Amaranth's form."""
        columns = {name: values.tolist() for name, values in self.columns(table).items()}
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]


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
    network.require_fit(shape)
    found = map_axons(network, core, (width, height), shape, watched)
    rows = SynapseRows(found.axon, found.local[network.target], network.weight, network.delay)
    lists = share_lists(found.axon_core, rows, width * height)
    dynamics = network.dynamics(shape)
    values = np.column_stack([getattr(network, name) for name in VALUES])
    states = np.column_stack([getattr(network, name) for name in STATE])
    tables = []
    for c, (a, b) in enumerate(pairwise(found.axon_first)):
        neurons = found.neurons_of(c)
        profiles, profile = np.unique(dynamics[neurons], axis=0, return_inverse=True)
        tables.append(
            CoreTables(
                neurons,
                profiles,
                np.column_stack([profile.reshape(-1), values[neurons]]),
                states[neurons],
                *found.routes_of(neurons),
                found.axon_source[a:b],
                lists.heads[a:b],
                lists.words[lists.first[c] : lists.first[c + 1]],
            )
        )
    require_room(tables, width, shape, ("neurons", "axons", "routes", "synapses", "profiles"))
    packets = found.input_packets(network.neurons)
    return ChipTables(width, height, shape, tuple(tables), packets)
