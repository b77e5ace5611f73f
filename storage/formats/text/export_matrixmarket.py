"""Export to Matrix Market files: entry (i, j), from 1, is the synapse from neuron i to neuron j.

Weights are in real units. The matrix of an undirected network is symmetric, stored as its lower
triangle, so each edge is listed once. Of the neurons only their number is stored.
"""

from __future__ import annotations

from pathlib import Path

from storage.formats.edges import edge_blocks
from storage.formats.losses import Loss
from storage.formats.sinks import TextSink
from storage.formats.text.render import render_rows
from storage.store.network import NetworkFile

LINE = (b"", b" ", b" ", b"\n")


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write block by block, in order of the rows."""
    kind = "integer" if net.meta.weight_unit == 1 else "real"
    symmetry = "symmetric" if net.undirected else "general"
    header = (
        f"%%MatrixMarket matrix coordinate {kind} {symmetry}\n"
        f"{net.vertices} {net.vertices} {net.meta.synapses}\n"
    )
    with TextSink(destination) as sink:
        sink.write(header.encode())
        for edges in edge_blocks(net, lower=True):
            columns = edges.source + 1, edges.target + 1, edges.weight
            sink.write(render_rows(columns, LINE, unit=net.meta.weight_unit))
        sink.commit()
    return []
