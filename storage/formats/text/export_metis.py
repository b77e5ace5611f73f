"""Networks to METIS graph files, in two passes over the network and one block of memory.

METIS knows whole numbers only: weights are written in stored units, as partitioning sees them,
so a network of unit 0.001 gives weights a thousand times the real ones. The two directions of a
pair add up. Weights are left out if all are 1.

The attribute `size` becomes the vertex weights. What else a METIS file brought with it returns to
its place: `rate` as communication size, `weight2`, `weight3`, ... as further vertex weights. The
rates of other networks, and all other attributes, are dropped, as are ids.
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
    """Write into an open file; fmt and ncon only where they are needed."""
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
    """Entries in all lists, and whether some edge does not weigh 1."""
    entries, weighted = 0, False
    for _, (_, _, weights) in net.undirected_blocks():
        entries += weights.size
        weighted = weighted or bool((weights != 1).any())
    return entries, weighted


def _own_names(net: NetworkFile) -> tuple[list[str], list[str]]:
    """Attributes to write as communication size, and as vertex weights."""
    names = net.meta.attributes
    weights = [SIZE] if SIZE in names else []
    if net.meta.provenance.get("format") != "metis":
        return [], weights
    while weights and (name := f"weight{len(weights) + 1}") in names:
        weights.append(name)
    return [RATE] if RATE in names else [], weights
