"""Axons and routes of a mapped network: which core holds which neurons, and who sends to whom.

Neurons of a core are numbered in the order of their ids. An axon is a (core, source) pair with a
synapse: one per source (neuron or input) of the core, numbered in the order of the sources. A
route leads from the source to the axon; a source has one to every core with its synapses, including
its own. The host sends the packets of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hw.errors import HwError, check_count
from hw.integers import Int64Array

Packed = tuple[int, int, int]  # x, y, axon of a packet


class MappedSynapses(Protocol):
    """Synapses of a network, as in the networks of the spiking cores."""

    @property
    def neurons(self) -> int: ...
    @property
    def inputs(self) -> int: ...
    @property
    def source(self) -> Int64Array: ...
    @property
    def target(self) -> Int64Array: ...


class AddressedCore(Protocol):
    """Numbers of a core that packets hold."""

    @property
    def axons(self) -> int: ...
    @property
    def x_bits(self) -> int: ...
    @property
    def y_bits(self) -> int: ...


class AxonMap(NamedTuple):
    """Neurons, axons and routes of all cores; all arrays are ndarray[int64].

    order, first : neurons by core, and the first of each core, shapes (neurons,) and (cores + 1,)
    local : number of each neuron in its core, shape (neurons,)
    axon : axon of each synapse, counted over all cores, shape (synapses,)
    axon_core, axon_source : of each axon, in this order, shape (axons,)
    axon_first : first axon of each core, shape (cores + 1,)
    routes : x, y and axon in the core, by source, shape (routes, 3)
    route_first : first route of each source, shape (sources + 1,)
    """

    order: Int64Array
    first: Int64Array
    local: Int64Array
    axon: Int64Array
    axon_core: Int64Array
    axon_source: Int64Array
    axon_first: Int64Array
    routes: Int64Array
    route_first: Int64Array

    def neurons_of(self, core: int) -> Int64Array:
        """Return the ids of the neurons of a core, by their number in it."""
        return self.order[self.first[core] : self.first[core + 1]]

    def routes_of(self, neurons: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return index pointers by neuron, and the routes, shape (routes, 3)."""
        sent = [self.routes[self.route_first[n] : self.route_first[n + 1]] for n in neurons]
        indptr = np.cumsum([0, *(len(part) for part in sent)])
        return indptr, np.concatenate([np.zeros((0, 3), np.int64), *sent])

    def input_packets(self, neurons: int) -> tuple[tuple[Packed, ...], ...]:
        """Return the packets of each input, whose sources follow the neurons."""
        return tuple(
            tuple((x, y, axon) for x, y, axon in self.routes[a:b].tolist())
            for a, b in pairwise(self.route_first[neurons:])
        )


def map_axons(
    network: MappedSynapses,
    core: NDArray[np.integer],
    size: tuple[int, int],
    shape: AddressedCore,
    watched: Sequence[int],
) -> AxonMap:
    """Return the axons and routes of a network on a chip.

    core : ndarray of integers, shape (neurons,), core id (y * width + x) of every neuron
    size : width and height of the chip in cores
    watched : neurons whose spikes also go to the host, without repeats: as packets to column 0 of
        the row below the last, with the index in this list as axon

    Raises `HwError` if a core does not exist, or if packets have too few bits for one.
    """
    width, height = size
    count = check_count("chip: width", width) * check_count("chip: height", height)
    rows = height + bool(len(watched))
    for name, side, bits in (("width", width, shape.x_bits), ("height", rows, shape.y_bits)):
        if side > 1 << bits:
            raise HwError(f"chip: {name} {side} does not fit in packets with {bits} bits for it")
    place = _checked_cores(np.asarray(core), network.neurons, width, height)
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(count + 1))
    local = np.empty(network.neurons, np.int64)
    local[order] = np.arange(network.neurons) - first[place[order]]

    sources = network.neurons + network.inputs
    pair, axon = np.unique(place[network.target] * sources + network.source, return_inverse=True)
    axon_core, axon_source = pair // sources, pair % sources
    axon_first = np.searchsorted(axon_core, np.arange(count + 1))
    number = np.arange(pair.size) - axon_first[axon_core]

    by_source = np.argsort(axon_source, kind="stable")
    routes = np.column_stack([axon_core % width, axon_core // width, number])[by_source]
    route_source = axon_source[by_source]
    if len(watched):
        seen = _checked_watched(watched, network.neurons, shape.axons)
        to_host = np.column_stack([0 * seen, 0 * seen + height, np.arange(seen.size)])
        by_source = np.argsort(np.r_[route_source, seen], kind="stable")
        routes = np.concatenate([routes, to_host])[by_source]
        route_source = np.r_[route_source, seen][by_source]
    route_first = np.searchsorted(route_source, np.arange(sources + 1))
    return AxonMap(
        order, first, local, axon, axon_core, axon_source, axon_first, routes, route_first
    )


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


def _checked_watched(watched: Sequence[int], neurons: int, axons: int) -> Int64Array:
    """Return the neurons as an array; raise `HwError` for unknown, repeated or too many neurons."""
    seen = np.array(watched, np.int64)
    wrong = seen[(seen < 0) | (seen >= neurons)]
    if wrong.size:
        raise HwError(f"watched: there is no neuron {wrong[0]}; the network has {neurons}")
    if np.unique(seen).size < seen.size:
        raise HwError("watched: a neuron is listed twice; give each once")
    if seen.size > axons:
        raise HwError(
            f"watched: {seen.size} neurons, but packets have only {axons} axons; watch fewer"
        )
    return seen


def require_room(tables: Sequence[Any], width: int, shape: Any, memories: Sequence[str]) -> None:
    """Raise `HwError` naming the memory and the core with the largest shortage.

    tables : of all cores; memories : fields of tables, and of `shape`, which has their sizes
    """
    for name in memories:
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
