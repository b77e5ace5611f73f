"""Neurons with more synapses than a core can hold: their fan-in is spread over relay neurons.

A relay is an additional neuron of the same size as the neuron it serves. It receives the synapses
from a range of sources, at most as many as a core can hold, and forwards every spike through one
synapse, like dendritic compartments and relays on chips whose neurons have few inputs. So its
traffic is the sum of its inputs. The network with relays is written to a file and mapped like any
other: core limits apply to relays as to neurons.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError, MapperError
from mapper.limits.use import count_fans
from storage.arrays import Int64
from storage.store.network import RATE, NetworkFile
from storage.store.populations import called
from storage.store.writer import NetworkWriter


@dataclass(frozen=True, slots=True)
class RelayNeurons:
    """Relay neurons, ordered by the neuron they serve and then by source.

    neuron : ndarray[int64], shape (relays,), id of the neuron that a relay serves
    first, last : ndarray[int64], shape (relays,), smallest and largest id of its sources
    """

    neuron: Int64
    first: Int64
    last: Int64

    @property
    def count(self) -> int:
        return self.neuron.size

    def facts(self) -> dict[str, int]:
        """Return the entries of the report."""
        each = np.unique(self.neuron, return_counts=True)[1]
        return {
            "neurons": int(each.size),
            "helpers": self.count,
            "helpers_of_a_neuron_max": int(each.max(initial=0)),
        }


def plan_relays(network: NetworkFile, chip: Chip, threads: int = 1) -> RelayNeurons:
    """Return relay neurons for the neurons whose synapses do not fit a core.

    Relays are full except the last one of a neuron, which leaves capacity for others.

    Raises `DoesNotFitError` for a neuron that needs more relays than a core can hold synapses, and
    `MapperError` if a neuron of an undirected network would have to be split.
    """
    limits = [limit for limit in (chip.synapse_limit, chip.axons_in) if limit is not None]
    none = RelayNeurons(*np.zeros((3, 0), np.int64))
    if not limits:
        return none
    most = np.full(network.vertices, min(limits))
    if chip.shared_bits is not None:  # relays have the sizes of their neurons
        free = chip.shared_bits - chip.neuron_bits * network.vertex_sizes()
        np.clip(most, 0, free // chip.synapse_bits, out=most)
    into = count_fans(network, threads).into
    wide = (into > most) & (most > 0)
    if not wide.any():
        return none
    if network.undirected:
        raise MapperError(
            f"{network.path}: neurons of an undirected network cannot be split; import it with "
            "each edge as two synapses, or leave out --split-neurons"
        )
    worst = int(np.argmax(into - most * most))
    if wide[worst] and into[worst] > most[worst] ** 2:
        raise DoesNotFitError(
            f"{called(network, worst)} has {into[worst]:,} synapses, a core holds "
            f"{most[worst]:,}: relay neurons can take at most {most[worst] ** 2:,} for one neuron; "
            "use larger cores"
        )
    neuron: list[Int64] = []
    first: list[Int64] = []
    last: list[Int64] = []
    for block in network.blocks(threads=threads):
        for i in np.flatnonzero(wide[block.first : block.first + block.vertices]):
            row = slice(block.indptr[i], block.indptr[i + 1])
            sources = block.ids[row][block.incoming[row] > 0].astype(np.int64)
            cuts = np.arange(0, sources.size, most[block.first + i])
            neuron.append(np.full(cuts.size, block.first + i, np.int64))
            first.append(sources[cuts])
            last.append(sources[np.append(cuts[1:], sources.size) - 1])
    return RelayNeurons(np.concatenate(neuron), np.concatenate(first), np.concatenate(last))


def share_of(relays: RelayNeurons, source: Int64, target: Int64, neurons: int) -> Int64:
    """Return the relay that receives each synapse, -1 for neurons without relays.

    source, target : shape (synapses,)
    neurons : number of neurons of the network
    """
    keys = relays.neuron * neurons + relays.first
    at = np.searchsorted(keys, target * neurons + source, side="right") - 1
    found = (at >= 0) & (relays.neuron[at] == target)
    return np.where(found, at, -1)


def write_split(
    network: NetworkFile, relays: RelayNeurons, path: Path, memory: int, threads: int = 1
) -> None:
    """Write the network with relays, which are its last vertices, in their order.

    memory : bytes for sorting. A relay has the attributes of its neuron, except the rate.
    """
    n = network.vertices
    rate = network.attribute(RATE).stored if RATE in network.meta.attributes else np.zeros(n, int)
    weights, rates = np.zeros((2, relays.count), np.int64)
    with NetworkWriter(
        path,
        n + relays.count,
        weights_are_rates=network.meta.weights_are_rates,
        weight_unit=network.meta.weight_unit,
        memory=memory,
        threads=threads,
    ) as writer:
        for block in network.blocks(threads=threads):
            indptr, targets, weight = block.outgoing()
            source = block.first + np.repeat(np.arange(block.vertices), np.diff(indptr))
            target = targets.astype(np.int64)
            share = share_of(relays, source, target, n)
            helped = share >= 0
            np.add.at(weights, share[helped], weight[helped])
            np.add.at(rates, share[helped], rate[source[helped]])
            writer.add(source, np.where(helped, n + share, target), weight)
        writer.add(n + np.arange(relays.count), relays.neuron, weights)
        for name in network.meta.attributes:
            about = network.attribute(name)
            added = rates if name == RATE else about.stored[relays.neuron]
            values = np.concatenate([about.stored, added])
            writer.set_attribute(name, values, about.labels, unit=about.unit)
        writer.finish({**network.meta.provenance, "helpers": relays.count})
