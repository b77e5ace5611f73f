"""Export to edge lists: a header, then one line ``source,target,weight`` per synapse.

Weights are in real units. An undirected network lists each edge once. Ids are the original ones,
numbers or names, if the network has the attribute `id`. Neurons without synapses and attributes are
lost.
"""

from __future__ import annotations

from pathlib import Path

from storage.csvcells import guarded
from storage.formats.called import read_called
from storage.formats.edges import edge_blocks
from storage.formats.losses import Loss, isolated
from storage.formats.sinks import TextSink
from storage.formats.text.render import CSV, render_rows
from storage.store.network import NetworkFile


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write block by block, in order of the source."""
    called = read_called(net, _comes_back)
    names = called.words(_quoted)
    alone = 0
    with TextSink(destination) as sink:
        sink.write(b"source,target,weight\n")
        for edges in edge_blocks(net):
            alone += edges.isolated
            columns = called.of(edges.source), called.of(edges.target), edges.weight
            sink.write(render_rows(columns, CSV, unit=net.meta.weight_unit, names=names, named=2))
        sink.commit()
    return isolated(alone)


def _quoted(name: str) -> str:
    """Quote a name, which may contain a comma, as text that spreadsheets do not evaluate."""
    return '"' + guarded(name).replace('"', '""') + '"'


def _comes_back(name: str) -> bool:
    """Return whether a line reader that trims columns restores the same name."""
    return bool(name) and name == name.strip() and not set(name) & set("\r\n\0")
