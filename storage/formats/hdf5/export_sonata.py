"""Export to SONATA: an edges file, and next to it a nodes file. Needs h5py (extra `sonata`).

All neurons form the population `neurons`, node i is neuron i. All synapses form the edge population
`neurons_to_neurons`, in one group, with their weight in real units as `syn_weight`. Node and edge
types are all 0; the user provides their tables and a configuration. The attribute `mapper_traffic`
of the edges marks these weights as traffic for the importer. Ids, names and sizes are node
attributes that `sonatanodes` reads back. An undirected network has one edge for each of its edges,
from the lower to the higher neuron.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from storage.files import PartialFile, commit_together
from storage.formats.called import Called, read_called
from storage.formats.edges import edge_blocks, real_weights
from storage.formats.hdf5 import file as hdf5
from storage.formats.hdf5.sonata import MAGIC, OWN_TRAFFIC
from storage.formats.hdf5.sonataconfig import nodes_beside
from storage.formats.hdf5.sonatanodes import GROUP, OWN_ID, OWN_NAME, OWN_SIZE
from storage.formats.losses import Loss
from storage.store.network import SIZE, NetworkFile
from storage.store.traffic import WEIGHTS

NODES, EDGES = "neurons", "neurons_to_neurons"
ROWS = 1 << 18  # rows written at a time
CHUNK = 1 << 16


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write both files."""
    hdf5.library(destination)
    called = read_called(net, lambda name: "\0" not in name)
    with PartialFile(destination) as edges, PartialFile(nodes_beside(destination)) as nodes:
        with hdf5.created(nodes) as (file, backing):
            _write_nodes(_start(file), net, called, backing)
        with hdf5.created(edges) as (file, backing):
            _write_edges(_start(file), net, backing)
        commit_together(nodes, edges)
    return []


def _start(file: Any) -> Any:
    file.attrs["magic"] = np.uint32(MAGIC)
    file.attrs["version"] = np.array([0, 1], np.uint32)
    return file


def _column(group: Any, name: str, size: int, kind: Any) -> Any:
    """Create a data set filled with zeros, compressed chunk by chunk."""
    if not size:  # empty data sets cannot be chunked
        return group.create_dataset(name, (0,), kind)
    chunk = (min(size, CHUNK),)
    return group.create_dataset(
        name, (size,), kind, chunks=chunk, compression="gzip", compression_opts=1, shuffle=True
    )


def _write_nodes(file: Any, net: NetworkFile, called: Called, backing: hdf5.Backing) -> None:
    group, count = file.create_group(f"nodes/{NODES}"), net.vertices
    _column(group, "node_type_id", count, np.uint32)
    _column(group, "node_group_id", count, np.uint32)
    columns = [_column(group, name, count, np.uint64) for name in ("node_id", "node_group_index")]
    own = group.create_group(GROUP)
    for first in range(0, count, ROWS):
        last = min(first + ROWS, count)
        for column in columns:
            column[first:last] = np.arange(first, last)
        backing.check()
    if SIZE in net.meta.attributes:
        _column(own, OWN_SIZE, count, np.int64)[:] = net.vertex_sizes()
    if called.ids is not None and called.names is None:
        _column(own, OWN_ID, count, np.int64)[:] = called.ids
    elif called.ids is not None and called.names is not None:
        names = _column(own, OWN_NAME, count, import_module("h5py").string_dtype())
        for first in range(0, count, ROWS):
            some = [called.names[at] for at in called.ids[first : first + ROWS].tolist()]
            names[first : first + len(some)] = some


def _write_edges(file: Any, net: NetworkFile, backing: hdf5.Backing) -> None:
    group, count, unit = (
        file.create_group(f"edges/{EDGES}"),
        net.meta.synapses,
        net.meta.weight_unit,
    )
    group.attrs[OWN_TRAFFIC] = WEIGHTS
    source, target, index = (
        _column(group, name, count, np.uint64)
        for name in ("source_node_id", "target_node_id", "edge_group_index")
    )
    for ends in (source, target):
        ends.attrs["node_population"] = NODES
    for name in ("edge_type_id", "edge_group_id"):
        _column(group, name, count, np.uint32)
    weight = _column(group, f"{GROUP}/syn_weight", count, np.int64 if unit == 1 else np.float64)
    first = 0
    for edges in edge_blocks(net):
        last = first + edges.source.size
        if first < last:
            source[first:last], target[first:last] = edges.source, edges.target
            index[first:last] = np.arange(first, last)
            weight[first:last] = real_weights(edges.weight, unit)
        backing.check()
        first = last
