"""Export to hMETIS hypergraphs: the axon of a neuron is a hyperedge, its synapses are the pins.

One line per hyperedge: its weight, its neuron, the targets. Neurons without targets have none. The
weight is the firing rate of the neuron, or without rates the largest weight of its synapses, so
that the objective km1 of hypergraph partitioners is the multicast connectivity of `mapper`. It is
an integer, in stored units, and omitted if all are 1. Sizes are the vertex weights. The file does
not record which pin is the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.formats.edges import real_weights
from storage.formats.losses import FRACTIONS, RATES, UNDIRECTED, Loss
from storage.formats.sinks import TextSink
from storage.formats.text.render import render_lists, render_rows
from storage.store.network import RATE, SIZE, Attribute, NetworkFile

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Axons:
    """The hyperedges of a block.

    neuron, weight : shape (hyperedges,), driving neuron and weight of each
    indptr : shape (hyperedges + 1,), offsets into targets; targets : shape (synapses,)
    differing : number of synapses with a different weight than their hyperedge
    """

    neuron: Int64
    weight: Int64
    indptr: Int64
    targets: NDArray[np.int32]
    differing: int


def axons(net: NetworkFile, rates: Attribute | None) -> Iterator[Axons]:
    """Yield all hyperedges, block by block."""
    for block in net.blocks():
        indptr, targets, weights = block.outgoing()
        lengths = np.diff(indptr)
        own = np.flatnonzero(lengths)
        starts, lengths = np.append(indptr[:-1][own], indptr[-1]), lengths[own]
        if rates is not None:
            weight = rates.stored[block.first + own]
            wanted = real_weights(weight, rates.unit)
            found = real_weights(weights, net.meta.weight_unit)
            differing = int(np.count_nonzero(found != np.repeat(wanted, lengths)))
        else:
            weight = np.maximum.reduceat(weights, starts[:-1]) if own.size else weights[:0]
            differing = int(np.count_nonzero(weights != np.repeat(weight, lengths)))
        yield Axons(block.first + own, weight, starts, targets, differing)


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write the file in two passes over the network."""
    rates = net.attribute(RATE) if RATE in net.meta.attributes else None
    count, weighted, differing = 0, False, 0
    for part in axons(net, rates):
        count += part.neuron.size
        weighted = weighted or bool((part.weight != 1).any())
        differing += part.differing
    sized = SIZE in net.meta.attributes
    fmt = f"{sized:d}{weighted:d}".lstrip("0")
    with TextSink(destination) as sink:
        sink.write(f"{count} {net.vertices} {fmt}".rstrip().encode() + b"\n")
        for part in axons(net, rates):
            own = [part.weight, part.neuron + 1] if weighted else [part.neuron + 1]
            sink.write(render_lists(np.stack(own, axis=1), part.indptr, part.targets, None))
        if sized:
            sink.write(render_rows((net.vertex_sizes(),), (b"", b"\n")))
        sink.commit()
    return list(_losses(net, rates, count, differing))


def _losses(
    net: NetworkFile, rates: Attribute | None, count: int, differing: int
) -> Iterator[Loss]:
    """Yield the losses of sources, directions, weights and rates."""
    if count:
        text = f"no sources: a reader must choose them for {count:,} hyperedges"
        yield Loss("sources", count, text)
    if net.undirected and net.meta.synapses:
        text = f"no undirected edges: {net.meta.synapses:,} written as two synapses each"
        yield Loss(UNDIRECTED, net.meta.synapses, text)
    if differing:
        text = f"no weights of single synapses: {differing:,} replaced by the weight of their axon"
        yield Loss("weights", differing, text)
    silent = net.vertices - count
    if rates is not None and silent:
        text = f"no rates of neurons without targets: {silent:,} dropped"
        yield Loss(RATES, silent, text)
    unit = net.meta.weight_unit if rates is None else rates.unit
    if count and unit != 1:
        text = f"no fractions: weights of {count:,} hyperedges are integers in units of {unit:g}"
        yield Loss(FRACTIONS, count, text)
