"""Networks to edge lists: a header, then a line ``source,target,weight`` for every synapse.

Weights are in real units. An undirected network lists each edge once. Ids are the original ones
if the network keeps them in its attribute `id`. Neurons without synapses leave no trace in the
file, nor do attributes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from storage.formats.render import TextSink, render_edges
from storage.network import ID, NetworkFile


def save(net: NetworkFile, destination: Path) -> None:
    """Write block by block, in order of the source."""
    names = net.attribute(ID).stored if ID in net.meta.attributes else None
    with TextSink(destination) as sink:
        sink.write(b"source,target,weight\n")
        for block in net.blocks():
            indptr, ids, weights = block.outgoing()
            source = np.repeat(np.arange(block.vertices) + block.first, np.diff(indptr))
            target = ids.astype(np.int64)
            if net.undirected:
                once = source < target
                source, target, weights = source[once], target[once], weights[once]
            if names is not None:
                source, target = names[source], names[target]
            sink.write(render_edges(source, target, weights, net.meta.weight_unit))
        sink.commit()
