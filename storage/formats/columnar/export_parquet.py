"""Export to Parquet tables: columns source, target, weight. Needs pyarrow (extra `formats`).

As in csv, ids are the original ones, integers or text. Weights are in real units, integers or
doubles. Neurons without synapses are lost. An undirected network lists each edge once, and the
metadata key `mapper.undirected` is set.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from storage.files import PartialFile
from storage.formats.called import read_called
from storage.formats.columnar.parquet import UNDIRECTED, library
from storage.formats.edges import edge_blocks, real_weights
from storage.formats.losses import Loss, isolated
from storage.formats.sinks import Stream
from storage.store.network import NetworkFile

ROWS = 1 << 20
"""Minimum number of rows in a row group."""


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write row group by row group, in order of the source."""
    parquet, arrow = library(destination), import_module("pyarrow")
    called, unit = read_called(net), net.meta.weight_unit
    names = None if called.names is None else arrow.array(called.names, arrow.string())
    ends = arrow.int64() if names is None else arrow.string()
    weight = arrow.int64() if unit == 1 else arrow.float64()
    schema = arrow.schema(
        [("source", ends), ("target", ends), ("weight", weight)],
        metadata={UNDIRECTED: "true"} if net.undirected else None,
    )
    alone, rows = 0, 0
    waiting: list[Any] = []
    with PartialFile(destination) as file, Stream(file) as stream:
        with parquet.ParquetWriter(stream, schema) as writer:
            for edges in edge_blocks(net):
                alone += edges.isolated
                columns = [arrow.array(called.of(end)) for end in (edges.source, edges.target)]
                if names is not None:
                    columns = [names.take(column) for column in columns]
                columns.append(arrow.array(real_weights(edges.weight, unit)))
                waiting.append(arrow.record_batch(columns, schema=schema))
                rows += edges.source.size
                if rows >= ROWS:
                    writer.write_table(arrow.Table.from_batches(waiting))
                    waiting, rows = [], 0
            if rows:
                writer.write_table(arrow.Table.from_batches(waiting))
        file.commit()
    return isolated(alone)
