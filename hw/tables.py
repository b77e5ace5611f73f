"""Memory contents of all cores, built from a network and a core for every neuron.

Neurons, axons and routes are numbered as in hw/axons.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.axons import Packed, map_axons, require_room
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape, DestinationTable
from hw.integers import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class CoreTables:
    """The tables of one core.

    neurons : ids in the network of the neurons, by their number in the core, shape (used,)
    parameters : threshold, bias, leak, subtract of each neuron, shape (used, 4)
    potentials : potentials before the first tick, shape (used,)
    route_indptr : routes of neuron i are rows route_indptr[i] .. route_indptr[i+1]-1 of `routes`
    routes : x, y, axon, shape (routes, 3)
    axons : ids in the network of the sources, by axon, shape (axons,)
    synapse_indptr : synapses of axon i are rows synapse_indptr[i] .. synapse_indptr[i+1]-1 of
        `synapses`
    synapses : neuron in the core, weight, shape (synapses, 2)

    All are ndarray[int64].
    """

    neurons: Int64Array
    parameters: Int64Array
    potentials: Int64Array
    route_indptr: Int64Array
    routes: Int64Array
    axons: Int64Array
    synapse_indptr: Int64Array
    synapses: Int64Array

    @property
    def used(self) -> int:
        """Number of neurons in the core."""
        return self.neurons.size

    def rows(self, table: DestinationTable) -> list[Any]:
        """Return the words of a memory, from address 0 on, in Amaranth's form."""
        if table == DestinationTable.POTENTIALS:
            words: list[Any] = self.potentials.tolist()
            return words
        if table == DestinationTable.FANOUTS:
            return _heads(self.route_indptr)
        if table == DestinationTable.AXONS:
            return _heads(self.synapse_indptr)
        names, rows = {
            DestinationTable.NEURONS: (("threshold", "bias", "leak", "subtract"), self.parameters),
            DestinationTable.ROUTES: (("x", "y", "axon"), self.routes),
            DestinationTable.SYNAPSES: (("neuron", "weight"), self.synapses),
        }[table]
        return [dict(zip(names, row, strict=True)) for row in rows.tolist()]


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
    # Synapses in the order of their axons, then of the network.
    arranged = np.argsort(found.axon, kind="stable")
    begins = np.searchsorted(found.axon[arranged], np.arange(found.axon_core.size + 1))
    synapses = np.column_stack([found.local[network.target], network.weight])[arranged]
    parameters = np.column_stack(
        [network.threshold, network.bias, network.leaks(shape), network.subtract]
    )
    tables = []
    for c, (a, b) in enumerate(pairwise(found.axon_first)):
        neurons = found.neurons_of(c)
        tables.append(
            CoreTables(
                neurons,
                parameters[neurons],
                network.potential[neurons],
                *found.routes_of(neurons),
                found.axon_source[a:b],
                begins[a : b + 1] - begins[a],
                synapses[begins[a] : begins[b]],
            )
        )
    require_room(tables, width, shape, ("neurons", "axons", "routes", "synapses"))
    packets = found.input_packets(network.neurons)
    return ChipTables(width, height, shape, tuple(tables), packets)


def _heads(indptr: Int64Array) -> list[Any]:
    return [
        {"first": first if end > first else 0, "count": end - first}
        for first, end in pairwise(indptr.tolist())
    ]
