"""Export to GraphML, directed or undirected like the network.

Node ids are the original ones, numbers or names, else the numbers of the neurons. Weights are in
real units, in the `data` of the key `weight`; sizes, if present, are in the key `size`, which
`graphml` reads back.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from storage.formats.called import Called, read_called
from storage.formats.edges import edge_blocks
from storage.formats.losses import Loss
from storage.formats.sinks import TextSink
from storage.formats.text.render import Words, render_rows
from storage.store.network import SIZE, NetworkFile

NODES = 1 << 16
"""Nodes written at a time."""
EDGE = (b'<edge source="', b'" target="', b'"><data key="weight">', b"</data></edge>\n")
NODE = (b'<node id="', b'"/>\n')
SIZED = (b'<node id="', b'"><data key="size">', b"</data></node>\n")
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BLANKS = {
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
    '"': "&quot;",
}  # otherwise a parser normalises them


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write all nodes, then the edges block by block."""
    called = read_called(net, lambda name: not _FORBIDDEN.search(name))
    names = called.words(_escaped)
    with TextSink(destination) as sink:
        sink.write(_head(net).encode())
        _write_nodes(net, called, names, sink)
        for edges in edge_blocks(net):
            columns = called.of(edges.source), called.of(edges.target), edges.weight
            sink.write(render_rows(columns, EDGE, unit=net.meta.weight_unit, names=names, named=2))
        sink.write(b"</graph>\n</graphml>\n")
        sink.commit()
    return []


def _head(net: NetworkFile) -> str:
    kind = "long" if net.meta.weight_unit == 1 else "double"
    keys = f'<key id="weight" for="edge" attr.name="weight" attr.type="{kind}"/>\n'
    if SIZE in net.meta.attributes:
        keys += '<key id="size" for="node" attr.name="size" attr.type="long"/>\n'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        f'{keys}<graph edgedefault="{"undirected" if net.undirected else "directed"}">\n'
    )


def _write_nodes(net: NetworkFile, called: Called, names: Words | None, sink: TextSink) -> None:
    sizes = net.vertex_sizes() if SIZE in net.meta.attributes else None
    for first in range(0, net.vertices, NODES):
        last = min(first + NODES, net.vertices)
        own = called.of(np.arange(first, last))
        if sizes is None:
            sink.write(render_rows((own,), NODE, names=names, named=1))
        else:
            sink.write(render_rows((own, sizes[first:last]), SIZED, names=names, named=1))


def _escaped(name: str) -> str:
    """Return the name escaped for use inside quotes."""
    return quoteattr(name, _BLANKS)[1:-1]
