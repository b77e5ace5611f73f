"""Export to METIS graph files, in two passes over the network and with one block in memory.

METIS has only integers: weights are written in stored units, as partitioning uses them, so a
network of unit 0.001 gives weights a thousand times the real ones. The two directions of a pair are
added. Weights are omitted if all are 1.

The attribute `size` becomes the vertex weights. Other attributes from a METIS file are written back
to their place: `rate` as communication size, `weight2`, `weight3`, ... as further vertex weights.
Rates of other networks, all other attributes, and ids are dropped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storage.formats.losses import Loss, beyond_size
from storage.formats.sinks import TextSink
from storage.formats.text.render import render_lists
from storage.store.network import RATE, SIZE, NetworkFile


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write the undirected view of the network."""
    with TextSink(destination) as sink:
        found = write(net, sink)
        sink.commit()
    return found


def write(net: NetworkFile, sink: TextSink) -> list[Loss]:
    """Write to an open file; fmt and ncon only if needed."""
    entries, weighted = _survey(net)
    rates, weights = _own_names(net)
    columns = [net.attribute(name).stored for name in (*rates, *weights)]
    fmt = f"{bool(rates):d}{bool(weights):d}{weighted:d}"
    header = f"{net.vertices} {entries // 2}"
    if fmt != "000":
        header += f" {fmt}"
    if len(weights) > 1:
        header += f" {len(weights)}"
    sink.write(header.encode() + b"\n")
    for first, (indptr, ids, shown) in net.undirected_blocks():
        own = np.empty((indptr.size - 1, len(columns)), np.int64)
        for index, column in enumerate(columns):
            own[:, index] = column[first : first + indptr.size - 1]
        sink.write(render_lists(own, indptr, ids, shown if weighted else None))
    return beyond_size(net, (*rates, *weights))


def _survey(net: NetworkFile) -> tuple[int, bool]:
    """Return the number of entries in all lists, and whether any edge weight differs from 1."""
    entries, weighted = 0, False
    for _, (_, _, weights) in net.undirected_blocks():
        entries += weights.size
        weighted = weighted or bool((weights != 1).any())
    return entries, weighted


def _own_names(net: NetworkFile) -> tuple[list[str], list[str]]:
    """Return the attributes to write as communication size, and as vertex weights."""
    names = net.meta.attributes
    weights = [SIZE] if SIZE in names else []
    if net.meta.provenance.get("format") != "metis":
        return [], weights
    while weights and (name := f"weight{len(weights) + 1}") in names:
        weights.append(name)
    return [RATE] if RATE in names else [], weights
